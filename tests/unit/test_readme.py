"""What the README claims is what was recorded, and what it shows runs."""

import json
import re
from pathlib import Path

import pandas as pd

from attnlib.chapters import quantifying_tables, tells_tables
from attnlib.chapters.rasp_tables import of_scale, trained_models
from attnlib.records import records
from tests.parameters import quick

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def recorded(notebook: str) -> pd.DataFrame:
    """Rows of the records that came with the book."""
    tables = [pd.read_parquet(path) for path in (ROOT / "results" / notebook).glob("*.parquet")]
    return pd.concat(tables).set_index(["run", "metric"])["value"]


def test_the_figures_on_rasp_languages_are_the_recorded_ones():
    values = recorded("rasp_languages")
    (learned,) = re.findall(r"sort ([\d.]+) %, reverse ([\d.]+) %, hist ([\d.]+) %", README)
    runs = ["sort", "reverse", "hist, supervised"]
    assert list(learned) == [f"{100 * values[run, 'accuracy']:.2f}" for run in runs]
    beyond = re.search(r"of 36 to 40 symbols, they are right about (\d+), (\d+) and (\d+) %", README)
    assert beyond
    assert list(beyond.groups()) == [f"{100 * values[run, 'accuracy, length 36 to 40']:.0f}" for run in runs]
    looked = re.search(
        r"from ([\d.]+) and ([\d.]+) .* to ([\d.]+) and ([\d.]+), and tokens right fall to ([\d.]+) %", README
    )
    assert looked
    *masses, accuracy = looked.groups()
    told = [(run, f"mass L{layer}H0") for run in ("sort", "sort, supervised") for layer in (0, 1)]
    assert masses == [f"{values[key]:.2f}" for key in told]
    assert accuracy == f"{100 * values['sort, supervised', 'accuracy']:.2f}"


def test_the_figures_on_smaller_rasp_models_are_the_recorded_ones():
    models = trained_models(of_scale(records("rasp_languages"), width=64, length=30, alphabet_size=10))
    models = models.query("metric == 'accuracy' and bos and not supervised")
    claimed = re.search(
        r"in place of two, (\d+) % .* and (\d+) % of .*; with twice .*, (\d+) and (\d+) % .* no second "
        r"layer: ([\d.]+) %",
        README,
    )
    assert claimed
    means = 100 * models.groupby(["language", "ablation"])["value"].mean()
    fewer, wide = "one layer fewer", "one layer fewer, twice as wide"
    told = [means[name, ablation] for ablation in (fewer, wide) for name in ("reverse", "hist2")]
    assert list(claimed.groups()) == [*map("{:.0f}".format, told), f"{means['sort', fewer]:.1f}"]
    seeds = models.groupby(["language", "ablation"])["seed"].nunique()
    assert (seeds[[("reverse", fewer), ("reverse", wide), ("sort", fewer)]] == 3).all()


def test_the_figures_on_generative_rollout_are_the_recorded_ones():
    (path,) = (ROOT / "results" / "generative_rollout").glob("*.parquet")
    values = pd.read_parquet(path).set_index("metric")["value"]
    claimed = re.search(
        r"Half-way through its layers, ([\d.]+) .* has ([\d.]+) there, .* in ([\d.]+) of the items, "
        r"plain mean attention in ([\d.]+), and blind chance in ([\d.]+)\.",
        README,
    )
    assert claimed
    recorded = [values[f"{model}, first token, layer 15"] for model in ("trained", "uniform")]
    methods = ("rollout", "mean attention", "chance")
    recorded += [values[f"needle in top 5 of the facts: {method}"] for method in methods]
    assert list(claimed.groups()) == [f"{value:.2f}" for value in recorded]


def test_the_figures_on_algorithmic_reasoning_are_the_recorded_ones():
    every = pd.concat(map(pd.read_parquet, (ROOT / "results/algorithmic_reasoning").glob("*.parquet")))
    longer = every[~every["ranges"].str.contains("OOD length 1-10")]
    right = longer[longer["run"].str.contains(r", seed \d$")]
    right = right[right["metric"].str.fullmatch("teacher-forced exact match (ID|OOD)")]
    means = (100 * right.groupby(["kind", "metric"])["value"].mean()).map("{:.0f}".format)
    inside, outside = (means.xs(f"teacher-forced exact match {split}", level=1) for split in ("ID", "OOD"))
    claimed = re.search(
        r"answer (\d+) % of sums, (\d+) % of reversals, (\d+) % of series and (\d+) % of value assignments "
        r"in distribution, and none of the longer ones; of flip-flops (\d+) and (\d+) %",
        README,
    )
    assert claimed
    kinds = ["long addition", "string reversal", "successor", "value assignment", "flip flop"]
    assert list(claimed.groups()) == [*inside[kinds], outside["flip flop"]]
    assert (outside[kinds[:-1]] == "0").all()

    verdicts = longer[longer["metric"].str.startswith("verdict: ") & longer["seeds"].eq(3)].set_index("kind")
    claimed = re.search(
        r"rise from (\d+) to (\d+) % in a model that was taught to look there, in (\d) of 3 seeds; in one "
        r"that was not, from (\d+) to (\d+) %, because it helps in (\d) of 3 .* In addition, (\d+) % become "
        r"(\d+) % \[(-?\d+), (\d+) points more\]; successor and flip-flop gain nothing",
        README,
    )
    assert claimed

    def told(kind, *names):
        return [f"{100 * verdicts.loc[kind, name]:.0f}" for name in names]

    reversals = [
        [*told(kind, "OOD", "changed"), f"{verdicts.loc[kind, 'closed in']:.0f}"]
        for kind in ("string reversal, supervised", "string reversal")
    ]
    addition = told("long addition", "OOD", "changed", "low", "high")
    assert list(claimed.groups()) == [*reversals[0], *reversals[1], *addition]
    assert (verdicts.loc[["successor", "flip flop"], "value"] < 0).all()
    positions = longer[longer["kind"].str.match("string reversal, .* positions$")]
    caused = positions["metric"].str.startswith("verdict: the cause").sum()
    assert f"it helps with {caused} of {positions['kind'].nunique()} kinds of positions" in README


def test_the_figures_on_the_arithmetic_lens_are_the_recorded_ones():
    tables = [pd.read_parquet(path) for path in (ROOT / "results/arithmetic_lens").glob("*.parquet")]
    rows = pd.concat(tables).set_index(["run", "metric"])
    claimed = re.search(
        r"(\d) of these 3 are shown by three models that add (\d+), (\d+) and (\d+) %", README
    )
    assert claimed
    claims = rows[rows.index.get_level_values("metric").str.startswith("claim: ")]
    assert len(claims) == 3
    exact = [rows.loc[(f"addition, seed {seed}", "exact match"), "value"] for seed in range(3)]
    shown = [str((claims["low"] > 0).sum()), *(f"{100 * value:.0f}" for value in exact)]
    assert list(claimed.groups()) == shown


def test_the_figures_on_classification_dynamics_are_the_recorded_ones():
    tables = [pd.read_parquet(path) for path in (ROOT / "results/classification_dynamics").glob("*.parquet")]
    rows = pd.concat(tables).query(
        "split == 'test' and checkpoints == 'held out' and interval == 'documents'"
    )
    if "measure" in rows:
        rows = rows[rows["measure"].fillna("top match") == "top match"]
    trained_twice = rows["task"].eq("SMS Spam") & rows["setting"].str.contains("bf16")
    values = rows[~trained_twice].set_index(["task", "metric"])["value"]
    claimed = re.search(
        r"in (\d+) % of documents of a planted corpus, (\d+) % of SMS Spam, (\d+) % of AG News and (\d+) % "
        r"of IMDB; by chance, (\d+), (\d+), (\d+) and (\d+) %",
        README,
    )
    assert claimed
    tasks = ("planted", "SMS Spam", "AG News", "IMDB")
    told = [(task, metric) for metric in ("A(alpha, beta_uf)", "A_hat") for task in tasks]
    assert list(claimed.groups()) == [f"{100 * values[key]:.0f}" for key in told]


def test_the_figures_on_translation_dynamics_are_the_recorded_ones():
    tables = [
        pd.read_parquet(path) for path in (ROOT / "results/translation_dynamics").glob("multi30k*.parquet")
    ]
    rows = pd.concat(tables).query(
        "measure == 'top match' and split == 'test' and checkpoints == 'held out' "
        "and interval == 'sentences' and accuracy == 'tokens'"
    )
    values = rows.set_index("metric")["value"]
    claimed = re.search(r"in (\d+) % of the target tokens of Multi30k .*, by chance in (\d+) %", README)
    assert claimed
    told = [f"{100 * values[metric]:.0f}" for metric in ("A(alpha, beta_uf)", "A_hat")]
    assert list(claimed.groups()) == told


def recorded_at_the_size_of_the_page(notebook: str) -> pd.DataFrame:
    """The rows of the one record that was made with the chapter's own parameters."""
    own = quick(notebook)
    paths = (ROOT / "results" / notebook).glob("*.json")
    (path,) = (path for path in paths if json.loads(path.read_text())["parameters"] == own)
    return pd.read_parquet(path.with_suffix(".parquet"))


def test_the_figures_on_sequence_copying_are_the_recorded_ones():
    rows = recorded_at_the_size_of_the_page("sequence_copying")
    claimed = re.search(
        r"(\d+) of 10 learn within 100 steps and (\d+) within 200; of 20 out of 30 symbols, (\d+) of 10 "
        r"within 100\. .* \(([\d.]+) and ([\d.]+) at step 20; .* for (\d+) of 10 to learn .* within 100 more",
        README,
    )
    assert claimed
    learned = rows[rows["metric"] == "learned"].set_index(["task", "budget"])
    hint = rows[(rows["metric"] == "hint (AUC)") & (rows["step"] == 20)].set_index("task")["value"]
    hard, easy = "permutations of 20", "20 of 30"
    told = [(hard, 100), (hard, 200), (easy, 100), (f"{hard}, after 20 steps of {easy}", 100)]
    assert (learned["n"] == 10).all()
    *counts, rescued = (f"{learned.loc[key, 'count']:.0f}" for key in told)
    assert list(claimed.groups()) == [*counts, f"{hint[easy]:.2f}", f"{hint[hard]:.2f}", rescued]


def test_the_figures_on_copying_at_the_studys_size_are_the_recorded_ones():
    (path,) = (ROOT / "results/sequence_copying").glob("40-of-40-*.parquet")
    rows = pd.read_parquet(path)
    claimed = re.search(
        r"(\d+) of 20 models learn to copy permutations of 40 symbols within 200 steps, and (\d+) of 20 "
        r"to copy 40 out of 60",
        README,
    )
    assert claimed
    learned = rows[(rows["metric"] == "learned") & (rows["budget"] == 200)].set_index("task")
    assert (learned["n"] == 20).all() and learned["setting"].str.startswith(
        "length 40; 20 seeds; hidden 256"
    ).all()
    counts = [f"{learned.loc[task, 'count']:.0f}" for task in ("permutations of 40", "40 of 60")]
    assert list(claimed.groups()) == counts


def test_the_python_example_runs_and_gives_what_it_says():
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict = {}
    exec(example, names)
    shown = dict(re.findall(r"^(sort\.\w+\(.*?\))\s+# (.*)$", example, flags=re.MULTILINE))
    assert str(eval('sort.outputs("cab")', names)) == shown['sort.outputs("cab")']


def test_every_file_it_points_to_is_there():
    for target in re.findall(r"\]\(([^)#:]+)\)|src=\"([^\"]+)\"", README):
        assert (ROOT / (target[0] or target[1])).exists(), target


def test_the_figures_on_quantifying_flow_are_the_recorded_ones():
    told = quantifying_tables.told(quantifying_tables.recorded(records("quantifying_flow")))
    claimed = re.search(
        r"in every layer in (\d+) of (\d+) small models .*the rank correlation is ([\d.]+) for rollout, "
        r"([\d.]+) for flow and ([\d.]+) for raw attention .*names it in (\d+) % of the sentences, rollout "
        r"in (\d+), flow in (\d+); .* rollout in (\d+) %, and divided by that of even attention in (\d+) %",
        README,
    )
    assert claimed
    counts = ["recorded: rollout, holds", "recorded: compared"]
    correlations = [f"recorded: {way}, 6, linzen" for way in ("rollout", "flow", "raw attention")]
    shares = [f"recorded names: {way}, 6" for way in ("raw attention", "rollout", "flow")]
    shares += [f"recorded back: {way}" for way in ("rollout", "rollout over null")]
    assert list(claimed.groups()) == [
        *(f"{told[key]:d}" for key in counts),
        *(f"{told[key]:.2f}" for key in correlations),
        *(f"{told[key]:.0f}" for key in shares),
    ]
    assert told["recorded: flow, holds"] == 0


def test_the_figures_on_all_measures_are_the_recorded_ones():
    _, rankings = tells_tables.of_record(tells_tables.widest(records("where_attention_tells")))
    claimed = re.search(
        r"\((\d+) settings, .*AttnLRP finds .* best: ([\d.]+) \[([\d.]+), ([\d.]+)\] .* rollout ([\d.]+), "
        r"attention of the last layer ([\d.]+), rollout of untrained models ([\d.]+)\. .* one by one, "
        r"([\d.]+) \[([\d.]+), ([\d.]+)\], and .* by AttnLRP, ([\d.]+); rollout gets (\d\.\d+)",
        README,
    )
    assert claimed
    found, used = (rankings[name].set_index("method") for name in ("plausibility", "faithfulness"))
    whole = found[found["rank"].notna()]
    assert whole.index[0] == "AttnLRP" and used[used["rank"].notna()].index[0] == "blank-out"
    names = ["rollout", "raw attention, last layer", "rollout, untrained"]
    assert list(claimed.groups()) == [
        f"{whole['settings'].iloc[0]:d}",
        *(f"{found.loc['AttnLRP', key]:.2f}" for key in ("value", "low", "high")),
        *(f"{found.loc[name, 'value']:.2f}" for name in names),
        *(f"{used.loc['blank-out', key]:.2f}" for key in ("value", "low", "high")),
        *(f"{used.loc[name, 'value']:.2f}" for name in ("AttnLRP", "rollout")),
    ]

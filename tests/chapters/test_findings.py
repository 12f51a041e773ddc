"""What came of the claims is what the records say now, in the README too; links lead to the account."""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from book.chapters.findings.claims import CLAIMS, findings
from book.chapters.findings.finding import VERDICTS, Claim, against, find, how_many, judged, percent, slug
from book.chapters.findings.readme import BEGIN, END, filled, table
from book.chapters.records import records, runs
from tests.parameters import quick

ROOT = Path(__file__).parents[2]
GAIN = r"^(?:gain|verdict: .+), by "
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.fixture(autouse=True, scope="module")
def only_what_came_with_the_book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Other tests may have recorded runs of their own. The records are read once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLIB_RESULTS", str(tmp_path_factory.mktemp("none")))
        findings.cache_clear()
        yield


def claim(words: str) -> Claim:
    (found,) = (each for each in CLAIMS if words in each.words)
    return found


def test_the_readme_says_what_the_records_say() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme == filled(readme, table(findings())), "python -m book.chapters.findings --readme"
    assert len(readme.splitlines()) < 120


@pytest.mark.parametrize("words", [each.words for each in CLAIMS])
def test_every_claim_leads_to_a_section_of_its_chapter(words: str) -> None:
    text = (ROOT / f"notebooks/text/{claim(words).chapter}.md").read_text()
    assert claim(words).section in HEADING.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_a_slug_is_that_of_markdown() -> None:
    assert slug("What an answer's digits look at, and when?") == "what-an-answers-digits-look-at-and-when"


def test_every_claim_is_judged_and_says_its_numbers() -> None:
    for each in findings():
        assert each.outcome.verdict in VERDICTS and each.outcome.verdict != "not run"
        assert re.search(r"\d", each.outcome.found) and "nan" not in each.outcome.found


@functools.cache
def files_of(chapter: str) -> pd.DataFrame:
    return pd.concat(map(pd.read_parquet, (ROOT / "results" / chapter).glob("*.parquet")))


def rows(chapter: str, **where: object) -> pd.DataFrame:
    """Rows of all of a chapter's files that have these values: read without what the findings read with."""
    found = files_of(chapter)
    for name, value in where.items():
        found = found[found[name] == value]
    return found


def said(words: str) -> str:
    (outcome,) = (each.outcome for each in findings() if words in each.claim.words)
    return f"{outcome.found} {outcome.more}"


def test_numbers_on_rasp_languages_are_those_of_the_files() -> None:
    right = rows("rasp_languages", metric="accuracy", ablation="", bos=True, width=64, length=30)
    right = right[
        right["alphabet_size"].eq(10)
        & right["positions"].eq("sinusoidal")
        & right["run"].str.contains("seed")
    ]
    untold = 100 * right[~right["supervised"].astype(bool)].groupby("task")["value"].mean()
    assert f"best `reverse` {untold['reverse']:.1f} %" in said("of the size of its RASP program")
    least = untold.idxmin()
    assert f"not shown for `{least}` {untold[least]:.1f} %" in said("of the size of its RASP program")
    told = 100 * right[right["supervised"].astype(bool)].groupby("task")["value"].mean()
    fallen = f"`sort` falls from {untold['sort']:.2f} to {told['sort']:.2f} %"
    assert fallen in said("Told where the program looks")
    fewer = rows("rasp_languages", metric="accuracy", ablation="one layer fewer")
    fewer = fewer[~fewer["supervised"].astype(bool)].groupby("task")["value"]
    assert (fewer.count()[["reverse", "hist2", "sort"]] == 3).all()
    means = 100 * fewer.mean()
    needed = (
        f"{means['reverse']:.0f} % [32, 35] of the tokens of `reverse` are right and {means['hist2']:.0f} %"
    )
    assert needed in said("With fewer layers") and f"but {means['sort']:.1f} %" in said("With fewer layers")


def test_numbers_on_generative_rollout_are_those_of_the_files() -> None:
    (needle,) = rows("generative_rollout", metric=NEEDLE).itertuples()
    share = f"{100 * needle.value:.0f} % [0, {100 * needle.high:.0f}]"
    assert f"in {share} of {needle.n} items" in said("product of attention")
    value = rows("generative_rollout").set_index("metric")["value"]
    ways = [NEEDLE.replace("rollout, mean over layers", way) for way in ("chance", "mean attention")]
    for words, way in zip(("by chance in {:.0%}.", "by plain mean attention, in {:.0%}"), ways, strict=True):
        assert words.format(value[way]).replace("%", " %") in said("product of attention")
    trained, uniform = (value[f"{model}, first token, layer 15"] for model in ("trained", "uniform"))
    assert f"Half-way through the layers {trained:.2f} of rollout" in said("product of attention")
    assert f"looks everywhere equally, {uniform:.2f}." in said("product of attention")


def test_numbers_on_quantifying_flow_are_those_of_the_files() -> None:
    found = rows(
        "quantifying_flow", layer=6, causal=False, untrained=False, relevance="blank-out", data="linzen"
    )
    rank = found[found["items"].eq("words") & found["metric"].eq("correlation")].groupby("way")["value"]
    assert (rank.count()[["raw attention", "rollout", "flow"]] == 3).all()
    for way in ("rollout", "flow"):
        assert f"correlation is {rank.mean()[way]:.2f} [" in said(f"{way} agrees")
        assert f"of raw attention {rank.mean()['raw attention']:.2f} [" in said(f"{way} agrees")


def test_numbers_on_algorithmic_reasoning_are_those_of_the_files() -> None:
    found = rows("algorithmic_reasoning")
    of_strings = found[found["task"].eq("string_reversal") & found["setting"].str.contains("fine-tuned")]
    pushed = of_strings.groupby("metric")["value"].mean()
    start, end = (100 * pushed[f"accuracy OOD, strength {by} onto the reference"] for by in (0, 1))
    assert f"language model goes from {start:.0f} % [" in said("because attention is not")
    assert f"to {end:.0f} % [" in said("because attention is not")

    found = found[found["setting"].str.contains("from scratch") & ~found["kind"].str.contains(" positions")]
    found = found[~found["ranges"].str.contains("OOD length 1-10|OOD length 100-130")]
    right = found[found["run"].str.contains(r", seed \d$") & ~found["kind"].str.contains("supervised")]
    right = right[right["metric"].str.fullmatch("teacher-forced exact match (ID|OOD)")]
    means = 100 * right.groupby(["kind", "metric"])["value"].mean()
    inside, outside = (means.xs(f"teacher-forced exact match {split}", level=1) for split in ("ID", "OOD"))
    for kind in ("long addition", "string reversal", "successor", "value assignment", "flip flop"):
        assert f"{kind} {inside[kind]:.0f} %" in said("fail on longer inputs")
    assert f"flip flop goes on, {outside['flip flop']:.0f} %" in said("fail on longer inputs")
    assert (outside.drop("flip flop") == 0).all() and "in 5 of 6 tasks" in said("fail on longer inputs")

    verdicts = found[found["metric"].str.contains(GAIN) & found["seeds"].eq(3)].set_index("kind")
    for kind, risen in (
        ("string reversal, supervised", "longer reversals from"),
        ("long addition", "sums from"),
    ):
        start, end = (100 * verdicts.loc[kind, name] for name in ("OOD", "changed"))
        assert f"{risen} {start:.0f} to {end:.0f} %" in said("because attention is not")
    low, high = (100 * verdicts.loc["long addition", name] for name in ("low", "high"))
    assert f" points [{low:+.0f}, {high:+.0f}])." in said("because attention is not")
    assert (verdicts.loc[["successor", "flip flop"], "value"] < 0).all()
    own = rows("algorithmic_reasoning", seeds=3.0)
    of_strings = own["kind"].str.match("string reversal, .* positions$")
    width = own["high"] - own["low"]  # Student's of three: half of it is 4.3 standard errors
    p = 2 * stats.t.sf(own["value"].abs() / width * 2 * stats.t.ppf(0.975, 2), 2)
    caused = (multipletests(p, method="holm")[0] & (own["closed"] >= 0.5) & of_strings).sum()
    words = f"the cause with {caused} of {of_strings.sum()} kinds of positions"
    assert 0 < caused < 4 and words in said("because attention is not")


def test_numbers_on_the_arithmetic_lens_are_those_of_the_files() -> None:
    parts = rows("arithmetic_lens", run="over seeds")
    parts = parts[parts["metric"].str.startswith("claim: ")]
    assert len(parts) == 3 and f"{(parts['low'] > 0).sum()} of 3 parts" in said("Early layers")
    exact = rows("arithmetic_lens", metric="exact match").set_index("run")["value"]
    exact = 100 * exact[[f"addition, seed {seed}" for seed in range(3)]]
    assert f"add {exact.min():.0f} to {exact.max():.0f} %" in said("Early layers")


@pytest.mark.parametrize(
    ("words", "chapter", "units"),
    [
        ("in classification", "classification_dynamics", "documents"),
        ("in translation", "translation_dynamics", "sentences"),
    ],
)
def test_numbers_on_relevance_are_those_of_the_files(words: str, chapter: str, units: str) -> None:
    found = rows(chapter, split="test", checkpoints="held out", interval=units, measure="top match")
    found = found[~(found["task"].eq("SMS Spam") & found["setting"].str.contains("bf16"))]
    found = found[found["accuracy"] == "tokens"] if "accuracy" in found else found
    value = 100 * found.set_index(["metric", "task"])["value"]
    shares, chance = value["A(alpha, beta_uf)"], value["A_hat"]
    for task in ("IMDB", "multi30k"):
        if task in shares:
            assert f"{task} {shares[task]:.0f} % [" in said(words)
    assert f"in {shares.min():.0f} to {shares.max():.0f} % of the" in said(words)
    assert f"by chance in {chance.min():.0f} to {chance.max():.0f} %" in said(words)


def test_numbers_on_sequence_copying_are_those_of_the_files() -> None:
    study = rows("sequence_copying", metric="learned", budget=200)
    study = study[study["setting"].str.startswith("length 40; 20 seeds; hidden 256")].set_index("task")
    assert (study["n"] == 20).all()
    assert f"{study.loc['permutations of 40', 'count']:.0f} of 20 models" in said("learning to copy")
    assert f"{study.loc['40 of 60', 'count']:.0f} of 20 to copy 40 out of 60" in said("learning to copy")
    own = json.dumps(quick("sequence_copying"), sort_keys=True)
    (path,) = (
        path
        for path in (ROOT / "results/sequence_copying").glob("*.json")
        if json.dumps(json.loads(path.read_text())["parameters"], sort_keys=True) == own
    )
    small = pd.read_parquet(path.with_suffix(".parquet"))
    small = small[small["metric"] == "learned"].set_index(["task", "budget"])
    assert (small["n"] == 10).all()
    longer = rows("sequence_copying", metric="learned", task="permutations of 40")
    longer = longer[longer["setting"].str.startswith("length 40; 10 seeds; hidden 256")].set_index("budget")
    soon, late = longer["count"][[200, 400]]
    assert f"{soon:.0f} learn permutations within 200 steps, {late:.0f} within 400" in said(
        "learning to copy"
    )
    rescued = small.loc[("permutations of 20, after 20 steps of 20 of 30", 100), "count"]
    assert f"{rescued:.0f} of 10 small models" in said("nothing hints")
    hint = rows("sequence_copying", metric="hint (AUC)", step=20)
    hint = hint[hint["setting"].str.startswith("length 40; 20 seeds; hidden 256")].set_index("task")["value"]
    assert f"in {hint['permutations of 40']:.2f} [" in said("nothing hints")
    assert f"in {hint['40 of 60']:.2f} [" in said("nothing hints")


def test_numbers_on_where_attention_tells_are_those_of_the_files() -> None:
    for words, question in (
        ("the algorithm needs", "plausibility"),
        ("when they are masked", "faithfulness"),
    ):
        found = rows("where_attention_tells", run="all settings")
        found = found[found["metric"].str.startswith(f"{question}: ")]
        value = found.sort_values("n").drop_duplicates("metric", keep="last").set_index("metric")["value"]
        best = value[f"{question}: {'AttnLRP' if question == 'plausibility' else 'blank-out'}"]
        assert f"gets {best:.2f} [" in said(words) and said(words).startswith(
            f"{value[f'{question}: rollout']:.2f} ["
        )
        last, untrained = (
            value[f"{question}: {way}"] for way in ("raw attention, last layer", "rollout, untrained")
        )
        assert f"gets {last:.2f}, rollout of untrained models {untrained:.2f}." in said(words)


def test_numbers_on_judges_are_those_of_the_files() -> None:
    found = rows("judging_measures", run="all settings")
    found = found.sort_values("n").drop_duplicates("metric", keep="last").set_index("metric")["value"]
    assert f"a tau of {found['tau: comprehensiveness, mask, p']:.2f} [" in said("which masks tokens")
    (half,) = rows("judging_measures", run="confirmed on", metric="tau: without the first, replace, log p")[
        lambda some: some["n"] == some["n"].max()
    ]["value"]
    assert f"is {half:.2f} [" in said("which masks tokens")
    words, ranks = "agrees with known answers", found[found.index.str.startswith(BY_THE_JUDGE)]
    assert said(words).startswith(f"{ranks[f'{BY_THE_JUDGE}: rollout']:.2f} [")
    assert f"gets {ranks.max():.2f} [" in said(words)


def test_without_records_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RECORDED", tmp_path)
    read_anew = findings.__wrapped__()
    assert {(each.outcome.verdict, each.outcome.found) for each in read_anew} == {("not run", "")}


def test_a_record_of_other_code_marks_what_rests_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def mark(beginning: str) -> None:
        monkeypatch.setattr(
            runs, "caveats", lambda made: "other code" if made["run"].startswith(beginning) else ""
        )

    mark("40-of-40")
    assert find(claim("learning to copy")).caveat == "other code"
    mark("sst")
    assert find(claim("in classification")).caveat == "other code"
    mark("templates-")
    assert find(claim("flow agrees")).caveat == "", "another record decides"


NEEDLE = "needle in top 5 of the facts, filtered: rollout, mean over layers"
"""The claim's rule reads what the study reads, whatever rollout's last layer does."""


BY_THE_JUDGE = "without the first R, replace, log p ranks"


@pytest.mark.parametrize(
    ("words", "metric", "change", "verdict"),
    [
        ("product of attention", NEEDLE, {"low": 0.5, "high": 0.9}, "holds"),
        ("product of attention", NEEDLE, {"low": 0.3, "high": 0.6}, "not settled"),
        ("Early layers", "claim: early layers look local", {"low": 0.01}, "in part"),
        ("learning to copy", "learned, less permutations of 40", {"low": -0.1}, "not settled"),
        ("the algorithm needs", "plausibility: rollout", {"rank_low": 1.0}, "holds"),
        ("when they are masked", "faithfulness: rollout", {"low": -0.1}, "does not"),
        ("which masks tokens", "tau: comprehensiveness, mask, p", {"low": 0.71}, "holds"),
        ("agrees with known answers", f"{BY_THE_JUDGE}: rollout", {"high": 1.1}, "holds"),
    ],
)
def test_a_verdict_follows_the_numbers(words: str, metric: str, change: dict, verdict: str) -> None:
    rows = records(claim(words).chapter).assign(over="settings")  # the rankings as recorded
    assert judged(claim(words), rows).verdict != verdict
    for name, value in change.items():
        rows.loc[rows["metric"] == metric, name] = value
    assert judged(claim(words), rows).verdict == verdict


def test_rules_of_many_cases_and_of_one_interval() -> None:
    assert [how_many(pd.Series(each)) for each in ([True, True], [True, False], [False])] == [
        "holds",
        "in part",
        "does not",
    ]
    assert [against(*each) for each in ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1))] == [
        "holds",
        "does not",
        "not settled",
    ]
    (row,) = pd.DataFrame({"value": [0.964], "low": [0.91], "high": [1.02]}).itertuples()
    assert percent(row) == "96 % [91, 100]"


def test_a_readme_without_its_markers_is_refused() -> None:
    assert filled(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="once each"):
        filled(f"a {BEGIN} b", "new")

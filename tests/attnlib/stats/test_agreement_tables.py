"""The tables of agreements: the original's numbers, and what is chosen and evaluated on which rows."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnlib.stats import (
    Agreements,
    AgreementSettings,
    Ragged,
    RunScores,
    agreement_tables,
    attention_spread,
    over_left_out,
    proportion,
    split_rows,
    top_match,
    xi,
)
from attnlib.stats.agreements import shuffled_agreements

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "agreement.json").read_text())
NAMES = {
    "A(alpha, beta_uf)": "agr_unif",
    "A(beta_uf, beta_px)": "agr_px",
    "A(beta_uf, beta_logistic)": "agr_logistic",
    "A(delta, beta_uf)": "agr_grad",
    "A(alpha, beta)": "agr_normal",
    "xi(alpha, beta_uf)": "xi_unif",
    "xi(beta_uf, beta_px)": "xi_px",
    "xi(beta_uf, beta_logistic)": "xi_logistic",
    "xi(delta, beta_uf)": "xi_grad",
    "xi(alpha, beta)": "xi_normal",
    "xi*": "best_perf",
}
"""Our names, and the original's."""


def original_runs(part, accuracy, rows_of):
    """Golden data as scores: `rows_of` gives an item's rows, each a list of source words and a sign."""
    steps = sorted({int(key.split("|")[1]) for key in part["metas"]})
    rows = [(item, row) for item in part["data"] for row in rows_of(item)]
    lengths = np.array([len(row["src"]) for _, row in rows])

    def gathered(run, name):
        per_step = []
        for step in steps:
            vectors = []
            for item, row in rows:
                values = item[f"{run}|{step}|{name}"]
                values = values if values is None or row["target"] is None else values[row["target"]]
                vector = np.full(len(row["src"]), np.nan) if values is None else np.array(values, dtype=float)
                vectors.append(vector * (row["sign"] if name == "beta" else 1))
            per_step.append(np.concatenate(vectors))
        return np.stack(per_step)

    return {
        run: RunScores(
            lengths,
            np.array(steps),
            *(gathered(run, name) for name in ("alpha", "beta", "grad")),
            accuracy=np.array([part["metas"][f"{run}|{step}|{accuracy}"] for step in steps]),
        )
        for run in dict.fromkeys(key.split("|")[0] for key in part["metas"])
    }, [row for _, row in rows]


def classification(split, accuracy):
    part = GOLDEN["classification"]
    part = part | {"data": [item for item in part["data"] if item["split"] == split]}
    runs, rows = original_runs(
        part, accuracy, lambda item: [item | {"target": None, "sign": 2 * item["trg"] - 1}]
    )
    for name in ("embedding", "logistic"):
        weights = np.array(part[f"beta_{name}"])
        beta = np.concatenate([weights[row["src"]] * row["sign"] for row in rows])
        runs[name] = RunScores(runs["uniform"].lengths, np.array([0]), beta=beta[None])
    return runs


def translation():
    part = GOLDEN["translation"]
    runs, rows = original_runs(
        part,
        "val_acc",
        lambda item: [
            {"src": item["src"], "target": place, "sign": 1, "word": word}
            for place, word in enumerate(item["trg"][1:])
        ],
    )
    matrix = np.array(part["beta_matrix"])
    beta = np.concatenate([matrix[row["src"], row["word"]] for row in rows])
    return runs | {"embedding": RunScores(runs["uniform"].lengths, np.array([0]), beta=beta[None])}


def assert_equals_the_originals(table, theirs):
    ours = table.set_index("metric")["value"]
    wanted = {name: theirs[key] for name, key in NAMES.items() if key in theirs}
    assert set(ours.index) == {*wanted, "A_hat", "A_hat, expected"}
    for name, value in wanted.items():
        assert ours[name] == pytest.approx(np.inf if value is None else value, abs=1e-12), name


@pytest.mark.parametrize("key", GOLDEN["classification"]["stats"])
def test_classification_is_the_originals(key):
    measure, split, accuracy = key.split("|")
    measure = "kendall" if measure.startswith("kendall") else "top match"
    settings = AgreementSettings(measure, as_published=True, shuffles=60)
    runs, theirs = classification(split, accuracy), GOLDEN["classification"]["stats"][key]
    assert_equals_the_originals(Agreements.of(runs, settings=settings).table(), theirs)
    curve = Agreements.of(runs, settings=settings).over_training().query("metric == 'A(alpha, alpha_t)'")
    np.testing.assert_allclose(curve["value"], theirs["alpha_corrs"], atol=1e-12)
    np.testing.assert_allclose(curve["accuracy"], theirs["alpha_perfs"])
    assert list(curve["step"]) == theirs["iterations"]


@pytest.mark.parametrize("key", GOLDEN["translation"]["stats"])
def test_translation_is_the_originals(key):
    measure = "kendall" if key.startswith("kendall") else "top match"
    settings = AgreementSettings(measure, as_published=True, flip_delta=False, shuffles=30)
    table = Agreements.of(translation(), settings=settings).table()
    assert_equals_the_originals(table, GOLDEN["translation"]["stats"][key])


def planted(seed=0, n_rows=300, n_steps=5, keys=("normal_A", "normal_B", "normal_C")):
    """Runs whose attention and relevance find the same true relevance ever better."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 40, n_rows)
    truth, tokens = rng.normal(size=lengths.sum()), lengths.sum()
    steps = np.arange(n_steps) * 50
    signal = np.linspace(0, 3, n_steps)[:, None]
    runs = {
        name: RunScores(
            lengths,
            steps,
            alpha=np.exp(signal * truth + rng.normal(size=(n_steps, tokens))),
            beta=signal * truth + rng.normal(size=(n_steps, tokens)),
            delta=signal * truth + rng.normal(size=(n_steps, tokens)),
            right=rng.random((n_steps, n_rows)) < np.linspace(0.5, 0.95, n_steps)[:, None],
        )
        for name in (*keys, "uniform")
    }
    runs["uniform"] = replace(runs["uniform"], alpha=None, delta=None)
    for name in ("embedding", "logistic"):
        runs[name] = RunScores(lengths, np.array([0]), beta=(truth + rng.normal(size=tokens))[None])
    return runs


@pytest.fixture(scope="module")
def runs():
    return planted()


@pytest.fixture(scope="module")
def parts(runs):
    return split_rows(runs)


def test_parts_share_no_row_and_lose_none(runs, parts):
    first, second = (part["normal_A"] for part in parts)
    whole = runs["normal_A"]
    assert len(first.lengths) + len(second.lengths) == len(whole.lengths)
    pooled = np.concatenate([first.scores("alpha").values, second.scores("alpha").values], axis=1)
    np.testing.assert_array_equal(np.sort(pooled), np.sort(whole.scores("alpha").values))
    assert first.accuracy is not None and second.accuracy is not None
    both = (first.accuracy * len(first.lengths) + second.accuracy * len(second.lengths)) / len(whole.lengths)
    np.testing.assert_allclose(both, whole.accuracy)


def test_groups_are_not_split(runs):
    groups = np.arange(300) // 7
    first, second = split_rows({"a": replace(runs["normal_A"], groups=groups)}, share=0.3)
    assert not set(first["a"].groups) & set(second["a"].groups)


def test_every_number_is_that_of_its_definition(parts):
    selection, evaluation = parts
    table = Agreements.of(evaluation, selection).table().set_index("metric")["value"]
    best = int(np.argmax(selection["normal_A"].accuracy))

    def score(run, name, at, where):
        return where[run].scores(name).at(at)

    def chosen(x, y):
        def mean(t, where):
            a, b = (score(run, name, t if at is None else at, where) for run, name, at in (x, y))
            return np.nanmean(top_match(a, b))

        return mean(int(np.argmax([mean(t, selection) for t in range(5)])), evaluation)

    alpha, beta_uf = ("normal_A", "alpha", best), ("uniform", "beta", None)
    assert table["A(alpha, beta_uf)"] == pytest.approx(chosen(alpha, beta_uf))
    assert table["A(delta, beta_uf)"] == pytest.approx(chosen(("normal_A", "delta", best), beta_uf))
    assert table["A(alpha, beta)"] == pytest.approx(chosen(alpha, ("normal_B", "beta", None)))
    assert table["A(beta_uf, beta_px)"] == pytest.approx(chosen(beta_uf, ("embedding", "beta", 0)))
    assert table["A(beta_px, beta_uf)"] == pytest.approx(chosen(("embedding", "beta", 0), beta_uf))
    assert table["A(beta_uf, beta_logistic)"] == pytest.approx(chosen(beta_uf, ("logistic", "beta", 0)))
    assert table["xi*"] == pytest.approx(evaluation["normal_A"].accuracy[best])
    gold = score(*alpha, evaluation)
    curve = [
        [np.nanmean(top_match(gold, evaluation[run].scores("alpha").at(t))) for t in range(5)]
        for run in ("normal_B", "normal_C")
    ]
    accuracy = [evaluation[run].accuracy for run in ("normal_B", "normal_C")]
    for name in ("alpha, beta_uf", "beta_uf, beta_px", "delta, beta_uf", "alpha, beta"):
        theirs = xi(curve, accuracy, table[f"A({name})"])
        assert table[f"xi({name})"] == pytest.approx(np.inf if theirs is None else theirs)


def test_intervals_hold_their_numbers_and_the_chance_is_found(parts):
    selection, evaluation = parts
    table = Agreements.of(evaluation, selection).table()
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()
    rows = table.set_index("metric")
    exact, shuffled = rows.loc["A_hat, expected", "value"], rows.loc["A_hat"]
    assert abs(shuffled["value"] - exact) < shuffled["high"] - shuffled["low"]
    assert shuffled["n"] == 1000
    again = Agreements.of(evaluation, selection).table()
    assert table.equals(again)


def test_no_two_checkpoints_are_shuffled_alike(parts, monkeypatch):
    module, seeds = sys.modules[Agreements.__module__], []

    def shuffled(*asked, seed, **options):
        seeds.append(seed)
        return shuffled_agreements(*asked, seed=seed, **options)

    monkeypatch.setattr(module, "shuffled_agreements", shuffled)
    Agreements.of(parts[1], parts[0]).table()
    assert len({*seeds}) == len(seeds) == 2 * 5  # of two other seeds, at five checkpoints


def test_never_is_infinite_and_in_intervals_too(parts):
    selection, evaluation = ({**part, "uniform": part["normal_A"]} for part in parts)
    never = Agreements.of(evaluation, selection).table().set_index("metric").loc["xi(delta, beta_uf)"]
    assert not np.isnan(never["low"])
    exact = {
        name: replace(run, beta=run.alpha) if name == "uniform" else run for name, run in evaluation.items()
    }
    table = Agreements.of(exact, exact).table().set_index("metric").loc["xi(alpha, beta_uf)"]
    assert list(table[["value", "low", "high"]]) == [np.inf] * 3  # nothing agrees better than with itself


def test_over_seeds_is_the_mean_of_each_seed_as_the_gold_one(parts):
    selection, evaluation = parts
    over = Agreements.of(evaluation, selection).over_seeds().set_index("metric")
    each = [
        Agreements.of(evaluation, selection, gold=name).table().set_index("metric")["value"]
        for name in ("normal_A", "normal_B", "normal_C")
    ]
    assert (over["n"] == 3).all()
    for name in ("A(alpha, beta_uf)", "A_hat, expected", "xi*"):
        assert over.loc[name, "value"] == pytest.approx(np.mean([table[name] for table in each]))
    name = "xi(alpha, beta_uf)"
    assert over.loc[name, "value"] == pytest.approx(np.median([table[name] for table in each]))
    xis = over.index.str.startswith("xi(")
    assert over.loc[xis, ["low", "high"]].isna().all(axis=None)  # every seed is in each of them
    assert (over["low"] < over["value"])[~xis].all() and (over["value"] < over["high"])[~xis].all()


def test_nothing_is_over_seeds_where_no_seed_varies(parts):
    selection, evaluation = parts
    made = Agreements.of(evaluation, selection)
    without = {*made.table()["metric"]} - {*made.over_seeds()["metric"]}
    pairs = "beta_uf, beta_px", "beta_px, beta_uf", "beta_uf, beta_logistic", "beta_logistic, beta_uf"
    assert without == {"A_hat", *(f"A({pair})" for pair in pairs)}


def test_pairs_of_seeds_are_all_there_is_of_them_and_left_out_with_either(parts):
    selection, evaluation = parts
    seeds = [name for name in evaluation if name.startswith("normal")]
    pairs = {}
    for gold in seeds:
        for other in {*seeds} - {gold}:
            alone = [
                {name: part[name] for name in (gold, other, "uniform")} for part in (evaluation, selection)
            ]
            table = Agreements.of(*alone, gold=gold).table().set_index("metric")
            pairs[gold, other] = table.loc["A(alpha, beta)", "value"]
    over = Agreements.of(evaluation, selection).over_seeds().set_index("metric").loc["A(alpha, beta)"]
    assert over["value"] == pytest.approx(np.mean([*pairs.values()])) and over["n"] == len(seeds)
    left_out = [np.mean([value for both, value in pairs.items() if seed not in both]) for seed in seeds]
    low, high = over_left_out(left_out)[1:3]
    assert over["low"] < low and high < over["high"]  # rows are drawn again as well

    two = [{name: part[name] for name in (*seeds[:2], "uniform")} for part in (evaluation, selection)]
    over = Agreements.of(*two).over_seeds().set_index("metric").loc["A(alpha, beta)"]
    assert over["value"] == pytest.approx((pairs[seeds[0], seeds[1]] + pairs[seeds[1], seeds[0]]) / 2)
    assert over[["low", "high"]].isna().all()  # one pair


def test_a_checkpoint_at_which_nothing_can_be_ranked_is_not_chosen():
    lengths, up, steps = np.full(4, 5), np.tile(np.arange(5.0), 4), np.arange(2)
    both, accuracy = np.stack([up, up]), np.ones(2)
    runs = {
        name: RunScores(lengths, steps, alpha=both, beta=both, accuracy=accuracy)
        for name in ("gold", "normal_B")
    }
    ranked = np.stack([0 * up, -up])  # all alike at first, and then the reverse of what is attended to
    runs["uniform"] = RunScores(lengths, steps, beta=ranked, accuracy=accuracy)
    found = Agreements.of(runs, runs, gold="gold", settings=AgreementSettings("kendall"))
    assert found.chosen["alpha, beta_uf"] == 1
    assert found.table().set_index("metric").loc["A(alpha, beta_uf)", "value"] == pytest.approx(-1)


def test_curves_over_training_rise_where_attention_learns(parts):
    selection, evaluation = parts
    table = Agreements.of(evaluation, selection).over_training()
    assert [*table["metric"].unique()] == ["A(alpha, alpha_t)", "A(alpha_t, beta_uf)", "A(alpha_t, beta_t)"]
    for _, curve in table.groupby("metric"):
        assert curve["value"].iloc[-1] > curve["value"].iloc[0] + 0.2
        assert (curve["low"] <= curve["value"]).all() and (curve["value"] <= curve["high"]).all()
    first = table[table["metric"] == "A(alpha, alpha_t)"]["value"]
    np.testing.assert_allclose(
        first, np.nanmean(Agreements.of(evaluation, selection)._seed_curve, axis=(0, 2))
    )


def test_where_all_rows_agree_at_a_step_the_rest_stays_open():
    """Twelve rows of twelve are no certainty, over training as little as in the table."""
    lengths, steps, rows = np.full(12, 3), np.arange(2), np.tile([0.7, 0.2, 0.1], 12)
    both, accuracy = np.stack([rows, rows]), np.ones(2)
    run = RunScores(lengths, steps, alpha=both, beta=both, accuracy=accuracy)
    runs = {"gold": run, "normal_B": run, "uniform": replace(run, alpha=None)}
    found = Agreements.of(runs, runs, gold="gold")
    last = found.table().set_index("metric").loc["A(alpha, beta_uf)"]
    for table in (found.over_training(), found.stages()):
        equal = table[table["metric"].str.startswith("A(") & table["value"].eq(1)]
        assert len(equal) and (equal["low"] == last["low"]).all() and last["low"] < 0.8


def test_spread_is_1_where_attention_is_even_and_0_on_one_token():
    two = Ragged(np.array([0.5, 0.5, 1.0, 0.0]), np.array([2, 2]))
    np.testing.assert_allclose(attention_spread(two), [1, 0], atol=1e-12)


def test_rows_with_a_nan_or_no_token_count_nowhere(runs):
    hole = runs["normal_B"].alpha.copy()
    where = runs["normal_B"].scores("alpha").starts[7]
    hole[2, where] = np.nan
    holed = runs | {"normal_B": replace(runs["normal_B"], alpha=hole)}
    settings = AgreementSettings(as_published=True, shuffles=30)
    without = {name: run.take(np.arange(300) != 7) for name, run in runs.items()}
    found, expected = (Agreements.of(each, settings=settings).table() for each in (holed, without))
    assert found.equals(expected)
    assert found.set_index("metric").loc["xi*", "n"] == 299


def test_what_is_missing_has_no_row(runs):
    few = {name: runs[name] for name in ("normal_A", "normal_B", "uniform")}
    few["normal_A"] = replace(few["normal_A"], delta=None)
    metrics = Agreements.of(few, few).table()["metric"]
    assert [name for name in metrics if name.startswith("A(")] == ["A(alpha, beta_uf)", "A(alpha, beta)"]


def nowhere(run):
    return replace(run, alpha=run.alpha * np.nan)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda runs: {"normal_A": runs["normal_A"], "uniform": runs["uniform"]}, "runs"),
        (lambda runs: runs | {"normal_B": runs["normal_B"].take(np.arange(5))}, "'normal_B'"),
        (lambda runs: runs | {"normal_B": replace(runs["normal_B"], steps=np.arange(5))}, "'normal_B'"),
        (lambda runs: runs | {"normal_B": replace(runs["normal_B"], alpha=None)}, "a run must have alpha"),
        (lambda runs: runs | {"uniform": replace(runs["uniform"], beta=None)}, "'uniform' must have beta"),
        (lambda runs: runs | {"normal_A": replace(runs["normal_A"], right=None, accuracy=None)}, "gold"),
        (lambda runs: runs | {"normal_A": nowhere(runs["normal_A"])}, "at least one row"),
    ],
)
def test_runs_that_do_not_fit_are_refused(runs, change, name):
    changed = change(runs)
    with pytest.raises(ValueError, match=f"^{name}.*; got "):
        Agreements.of(changed, changed).table()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda runs: Agreements.of(runs), "selection"),
        (lambda runs: Agreements.of(runs, runs, settings=AgreementSettings(as_published=True)), "selection"),
        (lambda runs: Agreements.of(runs, runs | {"uniform": later(runs["uniform"])}), "selection"),
        (lambda runs: Agreements.of(runs, runs, gold="normal_Z"), "runs"),
        (lambda runs: split_rows(runs, share=1.0), "share"),
        (lambda runs: replace(runs["normal_A"], beta=None, delta=None, alpha=np.zeros((5, 3))), "alpha"),
        (lambda runs: later(runs["normal_A"], [0, 50, 50, 60, 70]), "steps"),
    ],
)
def test_what_does_not_fit_together_is_refused(runs, call, name):
    with pytest.raises(ValueError, match=f"^{name} must "):
        call(runs)


def later(run, steps=range(5)):
    return replace(run, steps=np.array(steps))


def test_an_interval_over_seeds_can_be_made_again_of_each():
    made = Agreements.of(classification("val", "test_acc"), classification("train", "train_acc"))
    each, over = made.each_seed(), made.over_seeds().set_index("metric")
    assert set(each["metric"]) == set(over.index) and set(each["seed"]) == set(made.runs.seeds)
    shares = each[each["metric"].isin(["A(alpha, beta_uf)", "A(delta, beta_uf)"])]
    means = shares.groupby("metric")["value"].mean()
    pd.testing.assert_series_equal(means, over.loc[means.index, "value"])


def test_all_tables_are_of_their_splits_and_ways():
    test, validation = classification("val", "test_acc"), classification("train", "train_acc")
    tables = agreement_tables({"train": validation, "validation": validation, "test": test})
    made = Agreements.of(test, validation)
    pd.testing.assert_frame_equal(tables["test", "held out", "documents"], made.table())
    pd.testing.assert_frame_equal(tables["test", "held out", "seeds"], made.over_seeds())
    in_sample = Agreements.of(validation, validation).table()
    pd.testing.assert_frame_equal(tables["train", "held out", "documents"], in_sample)
    published = Agreements.of(test, settings=AgreementSettings(as_published=True)).table()
    pd.testing.assert_frame_equal(tables["test", "as published", "documents"], published)


def test_agreement_in_every_row_leaves_open_what_its_groups_do(runs):
    scores, groups = runs["normal_A"].beta, np.arange(300) // 30
    alike = {
        name: replace(run, alpha=scores, beta=scores, right=np.ones_like(run.right), groups=groups)
        for name, run in runs.items()
        if run.right is not None
    }
    asked = ["A(alpha, beta_uf)", "xi*"]
    found = Agreements.of(alike, settings=AgreementSettings(as_published=True))
    table = found.table().set_index("metric").loc[asked, ["value", "low", "high", "n"]]
    assert table.to_numpy() == pytest.approx(np.array([[*proportion(10, 10)[:3], 300]] * 2))
    seeds = found.over_seeds().set_index("metric").loc[asked, "low"]
    assert seeds.to_numpy() == pytest.approx(proportion(10, 10).low)

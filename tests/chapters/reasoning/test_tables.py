"""Positions, lengths and seeds of the reasoning chapter, and the tables over all that is recorded."""

import numpy as np
import pandas as pd
import pytest

from attnlib import plots
from attnlib.generators.algorithmic import TooFewTexts
from book.chapters.reasoning import AlgorithmicReasoning, AttentionIntervention, figures
from book.chapters.reasoning.algorithmic_reasoning import ReasoningRun
from book.chapters.reasoning.attention_intervention import READ
from book.chapters.reasoning.tables import (
    CAUSE,
    FINE_TUNED,
    LLAMA,
    OWN_BLOCKS,
    apart,
    by_kind,
    correlations,
    counted,
    extrapolation,
    kinds_judged,
    of_seeds,
    over_seeds,
    recorded,
    recorded_gains,
    shares_of_seeds,
    verdict_tables,
)
from book.chapters.records import came_with_the_book, runs
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of

QUICK = defaults_of("algorithmic_reasoning")
TINY = {"model": "transformer", "tasks": ["string_reversal"], "supervised": [], "width": 16, "device": "cpu"}


def params(**change):
    return AlgorithmicReasoning.checked(QUICK | change)


def tiny(**change):
    return params(**TINY | {"steps": 2, "batch_size": 4, "test_samples": 8, **change})


# ---- positions, seeds ------------------------------------------------------------------------------------


def test_every_kind_of_position_is_a_model_and_nothing_else_differs():
    p = tiny(positions=["learned", "rotary", "none"], supervised=["string_reversal"], seeds=[0, 3])
    assert [run.name for run in p.runs()][:4] == [
        "string reversal, learned positions, seed 0",
        "string reversal, learned positions, seed 3",
        "string reversal, learned positions, supervised, seed 0",
        "string reversal, learned positions, supervised, seed 3",
    ]
    models = {run.positions: p.setup(run).model for run in p.runs()}
    assert {kind: model.config.positions for kind, model in models.items()} == {k: k for k in models}
    table = p.run_table()
    assert table["kind"].nunique() == 6 and table["setting"].nunique() == 6
    assert set(table["model"]) >= {"rotary positions", "rotary positions, supervised"}
    plans = {p.plan(run) for run in p.runs() if run.seed == 3}
    assert len(plans) == 1


def test_without_a_choice_models_are_as_they_were():
    assert tiny().runs() == [ReasoningRun("string reversal", 0, "string_reversal", False)]
    assert tiny().setup(tiny().runs()[0]).model.config.positions == "learned"
    assert list(params().run_table()["model"]) == ["llama", "llama", "supervised", "llama"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "llama", "positions": ["rotary"]}, r"\(model='transformer'\); got \['rotary'\] for llama"),
        ({"positions": ["rotary"], "width": 12}, "rotary positions need an even width / n_heads; got 12 / 4"),
    ],
)
def test_positions_that_cannot_be_are_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        tiny(**change)


# ---- lengths ---------------------------------------------------------------------------------------------


def test_lengths_go_from_the_shortest_to_three_times_the_longest_trained_on():
    p = params()
    assert p.lengths("long_addition") == list(range(1, 13))
    assert p.lengths("successor") == list(range(2, 13))
    assert p.lengths("string_reversal") == [1, 4, 7, 10, 13, 16, 19, 22, 25, 28]
    assert params(reversal="study").lengths("string_reversal") == list(range(5, 61, 5))
    assert params(longest=0.0).lengths("string_reversal") == []


def test_texts_of_a_length_have_it_and_were_never_trained_on():
    p = params(test_samples=40)
    tests = p.tests_by_length("long_addition")
    assert list(tests) == p.lengths("long_addition")
    trained = {s.text for s in p.generator("long_addition", "train").samples(500)}
    for length, batches in tests.items():
        said = p.tokenizer.batch_decode(batches[0].input_ids, skip_special_tokens=True)
        assert not trained & set(said)
        digits = {max(len(n.rstrip("0")) for n in text.split("=")[0].split("+")) for text in said}
        assert max(digits) == length


def test_lengths_without_an_unseen_text_are_left_out():
    p = params(tasks=["flip_flop"], supervised=[])
    tests = p.tests_by_length("flip_flop")
    assert p.lengths("flip_flop")[:2] == [1, 4] and 4 in tests
    for length in set(p.lengths("flip_flop")) - set(tests):
        with pytest.raises(TooFewTexts):
            p.generator("flip_flop", "train", split="test", length=(length, length)).samples(1)


def test_accuracy_by_length_is_a_row_per_model_length_and_metric():
    p = tiny(positions=["rotary"], longest=1.0, override={"string_reversal": {"train": {"length": [2, 4]}}})
    models, _ = p.train_all()
    rows = p.accuracy_by_length(models)
    assert set(rows["up_to"]) == set(p.lengths("string_reversal")) and set(rows["length"]) == {4}
    assert set(rows["metric"]) == {"accuracy", "exact match"} and set(rows["model"]) == {"rotary positions"}
    figure = plots.accuracy_by_length(rows.query("metric == 'accuracy'"), "task", "model").figure
    assert [axis.get_title() for axis in figure.axes] == ["string_reversal"]


def test_details_are_of_the_first_seeds_models():
    p = tiny(seeds=[3, 1], positions=["none"])
    table = pd.DataFrame({"run": [run.name for run in p.runs()], "value": [1.0, 2.0]})
    assert p.of_first_seed(table).to_numpy().tolist() == [["string reversal, no positions", 1.0]]
    assert tiny().of_first_seed(table[:0]).empty


# ---- numbers over seeds, and over records ------------------------------------------------------------------


def numbers(values, **about):
    rows = [
        {"seed": seed, "value": value, "low": value - 0.1, "high": value + 0.1, "n": 50, **about}
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_of_several_seeds_intervals_are_students_of_one_the_texts():
    several = over_seeds(numbers([0.8, 0.9, 1.0], task="t"), ["task"])
    assert several.loc[0, "value"] == pytest.approx(0.9) and several.loc[0, "n"] == 3
    assert several.loc[0, "low"] == pytest.approx(0.9 - 4.30265 * 0.1 / np.sqrt(3), abs=1e-4)
    assert list(several["of"]) == ["seeds"] and several.loc[0, "high"] == 1, "a share is 1 at most"
    one = over_seeds(numbers([0.8], task="t"), ["task"])
    assert one.loc[0, ["task", "value", "n", "of"]].tolist() == ["t", 0.8, 50, "texts"]
    assert one.loc[0, ["low", "high"]].tolist() == pytest.approx([0.7, 0.9])
    missing = numbers([0.4, 0.5], task="t").assign(value=["not enough data", 0.5])
    assert over_seeds(missing, ["task"]).loc[0, "value"] == 0.5


def test_what_has_no_number_is_not_recorded():
    table = numbers([0.5, 0.6], run="a", split="OOD", uniform=0.1)
    table["value"] = [0.5, "not enough data"]
    found = recorded(table, "rollout, {split}", "uniform")
    assert found.to_dict("records") == [
        {"run": "a", "metric": "rollout, OOD", "value": 0.5, "low": 0.4, "high": 0.6, "n": 50, "uniform": 0.1}
    ]


def made_up():
    """Records: in each of two tasks, the more on the reference the better; a third has no mass recorded."""
    rows = []
    for task, base in (("sums", 0.1), ("strings", 0.5)):
        for seed in range(4):
            about = {"record": "r", "run": f"{task} {seed}", "task": task, "model": "llama", "seed": seed}
            about["ranges"] = "length 1-4; OOD length 5-9"
            found = {
                "teacher-forced accuracy OOD": 0.2 + 0.1 * seed,
                "rollout, OOD": base + 0.01 * seed,
                "rollout, ID": base + 0.02 * seed,
            }
            rows += [about | {"metric": m, "value": v, "uniform": 0.05} for m, v in found.items()]
    old = {"record": "old", "run": "sums", "task": "sums", "model": "llama", "seed": 0, "uniform": np.nan}
    old["ranges"] = "length 1-4; OOD length 5-9"
    return pd.DataFrame([*rows, old | {"metric": "teacher-forced accuracy OOD", "value": 0.1}])


def each_a_kind(models):
    """The models of `made_up`, as if they were not seeds of one kind."""
    return models.assign(model=models["record"] + models["run"])


def test_a_model_is_a_point_and_older_records_are_left_out():
    models = extrapolation(made_up())
    assert len(models) == 8 and set(models["record"]) == {"r"}
    first = models.iloc[0]
    assert (first["accuracy"], first["mass"], first["mass ID"]) == (0.2, 0.1, 0.1)
    assert first["above uniform"] == pytest.approx(0.05)
    assert extrapolation(made_up().drop(columns="uniform")).empty
    again = made_up().assign(record="again", run=lambda rows: rows["run"] + ", seed 0")
    assert extrapolation(pd.concat([made_up(), again], ignore_index=True)).equals(models)
    found = correlations(each_a_kind(models)).set_index(["attention", "over"])
    assert found.loc[("mass", "within tasks"), "value"] == pytest.approx(1)
    assert found.loc[("mass", "all models"), "value"] < 0.9
    assert found.loc[("mass", "sums"), "n"] == 4
    figure = figures.extrapolation(models).figure
    assert [axis.get_title() for axis in figure.axes] == ["strings\nn = 4", "sums\nn = 4"]
    assert {axis.get_xlabel() for axis in figure.axes} == {"rollout"}
    assert [len(axis.lines[0].get_xdata()) for axis in figure.axes] == [4, 4]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["llama"]


def test_seeds_of_a_kind_are_one_in_the_correlation():
    models = each_a_kind(extrapolation(made_up()))
    worse = models.assign(seed=9, accuracy=models["accuracy"] - 0.15)
    both = pd.concat([models, worse], ignore_index=True)
    assert by_kind(both)["accuracy"].tolist() == pytest.approx((models["accuracy"] - 0.075).tolist())
    assert correlations(both).equals(correlations(models))


def test_two_tests_of_a_task_are_two_panels_named_by_what_differs():
    shorter = (
        made_up().query("task == 'strings'").assign(ranges="length 5-9, digits 2; OOD length 1-4, digits 2")
    )
    both = pd.concat([made_up(), shorter.assign(record="s", seed=9)], ignore_index=True)
    axes = figures.extrapolation(extrapolation(both)).figure.axes
    strings = ["strings\nlength 1-4 to 5-9, n = 4", "strings\nlength 5-9 to 1-4, n = 4"]
    assert [axis.get_title() for axis in axes] == [*strings, "sums\nn = 4"]


def test_models_are_ranked_with_those_of_the_same_test():
    strings = made_up().query("task == 'strings'")
    harder = strings.assign(
        record="s",
        seed=9,
        ranges="length 5-9; OOD length 1-4",
        value=strings["value"].where(strings["metric"] != "rollout, OOD", strings["value"] + 0.5) / 2,
    )
    models = extrapolation(pd.concat([strings, harder], ignore_index=True))
    found = correlations(each_a_kind(models)).set_index(["attention", "over"])["value"]
    assert found["mass", "strings"] == found["mass", "within tasks"] == pytest.approx(1)
    assert found["mass", "all models"] < 0.9


def test_no_two_kinds_of_model_look_alike_and_no_point_is_lost():
    rows = came_with_the_book("algorithmic_reasoning")
    models = extrapolation(rows[rows["setting"].str.contains("from scratch")])
    axes = figures.extrapolation(models).figure.axes
    kinds = models["model"].nunique()
    assert len({(line.get_color(), line.get_marker()) for line in axes[0].lines[:kinds]}) == kinds
    assert sum(len(line.get_xdata()) for axis in axes for line in axis.lines[:kinds]) == len(models)


def test_the_verdicts_that_are_judged_are_of_models_from_scratch_of_several_seeds():
    rows = came_with_the_book("algorithmic_reasoning")
    several, by_positions = verdict_tables(rows)
    assert several["seeds"].min() >= 3 and by_positions["seeds"].min() >= 3
    assert several["kind"].value_counts()["long multiplication"] == 1, "of two trainings, the better"
    assert by_positions["kind"].str.endswith(" positions").all() and len(by_positions) == 12
    others = ["flip flop", "string reversal", "string reversal, supervised"]
    assert sorted(several.loc[apart(several), "kind"]) == others
    assert not of_seeds(rows)["setting"].str.contains("fine-tuned").any()
    assert shares_of_seeds(rows)["value"].between(0, 1).all() and len(shares_of_seeds(rows))
    assert recorded_gains(rows[rows["metric"].eq("accuracy")]).empty
    assert verdict_tables(pd.DataFrame(columns=["run", "setting", "kind", "ranges", "metric"]))[0].empty


def test_every_kind_is_judged_in_its_family_and_drawn_with_its_verdict():
    judged = kinds_judged(came_with_the_book(READ))
    assert judged["models"].value_counts().to_dict() == {OWN_BLOCKS: 12, LLAMA: 7, FINE_TUNED: 6}
    assert not apart(judged).any()
    assert judged.loc[judged["models"] != FINE_TUNED, "kind"].is_unique, "the page tells of them by kind"
    tuned = judged[judged["models"] == FINE_TUNED].set_index("kind")["verdict"]
    assert tuned[tuned.eq(CAUSE)].index.tolist() == ["string reversal"]
    assert tuned["long addition"] == "no significant loss", "tested on shorter sums"
    shares, gains = figures.verdicts(judged).figure.axes
    assert [text.get_text() for text in gains.texts] == judged["verdict"].tolist()
    names = [label.get_text() for label in shares.get_yticklabels()]
    assert names == [*judged["kind"], LLAMA, OWN_BLOCKS, FINE_TUNED]
    assert len({*shares.get_yticks()}) == len(names), "a line each"
    alone = next(line for line in shares.lines if line.get_label() == "longer inputs")
    assert list(alone.get_xdata()) == judged["OOD"].tolist()


def test_a_caption_counts_what_intervals_are_over():
    rows = pd.DataFrame({"n": [3, 3], "of": "seeds"})
    assert counted(rows) == "3 seeds" and counted(rows.assign(n=[38, 200], of="texts")) == "38 to 200 texts"


# ---- the page that judges them -----------------------------------------------------------------------------


def judging(**change):
    return AttentionIntervention.checked(defaults_of("attention_intervention") | change)


def test_a_readers_own_runs_are_judged_if_they_are_to_count(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path))
    rows = came_with_the_book(READ)
    own = rows[rows["run"].str.startswith("successor") & rows["record"].str.startswith("llama")]
    columns = own.columns.difference(["record", "device", "commit", "recorded"])
    runs.record(own[columns], notebook=READ, label="mine", params={"tasks": []}, device="CPU")
    assert judging(own_runs=True).rows()["record"].str.startswith("mine-").any()
    assert not judging().rows()["record"].str.startswith("mine-").any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"enough": 1.5}, "less than or equal to 1"),
        ({"attention": "mean"}, "'above uniform', 'mass' or 'mass ID'"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        judging(**change)

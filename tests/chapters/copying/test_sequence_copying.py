"""The chapter on copying: its parameters, runs and what it records."""

import numpy as np
import pytest
import torch

from book.chapters.copying import SequenceCopying, tables
from book.chapters.records import paper_figures
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of, profile, smallest

QUICK = defaults_of("sequence_copying")
PAPER = QUICK | profile("sequence_copying", "paper")
SMALL = QUICK | profile("sequence_copying", "smoke") | {"device": "cpu"}


@pytest.fixture(scope="module")
def chapter(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        p = SequenceCopying.checked(SMALL | {"learned": 0.3})
        p.train_all()
        yield p


@pytest.fixture(scope="module")
def found(chapter):
    curves = chapter.curves(*chapter.groups)
    times, shares, hints = chapter.learning(curves)
    return curves, times, shares, hints


def test_the_papers_scale_is_the_studys():
    p = SequenceCopying.checked(PAPER)
    assert (p.hard.name, p.easy.name) == ("permutations of 40", "40 of 60")
    assert p.repeated.name == "40 of 40, repeated"
    tasks = paper_figures().query("table == 'Sequence copying, seeds that learn within 200 steps'")["task"]
    assert set(tasks) == {p.hard.name, p.easy.name}


def test_seeds_stand_side_by_side_as_asked():
    p = SequenceCopying.checked(QUICK | {"seeds": 5, "stacked": 2})
    names = [run.name for run in p.runs() if run.group == p.hard.name]
    assert names == [f"permutations of 20, {seeds}" for seeds in ("seeds 0 to 1", "seeds 2 to 3", "seed 4")]


def test_options_change_what_they_say():
    p = SequenceCopying.checked(SMALL | {"options": ["both directions", "without context"]})
    by_group = {run.group: p.setup(run).model.config for run in p.runs() if not run.after}
    assert by_group["permutations of 4, both directions"].bidirectional
    assert by_group["4 of 6, without context"].context == "none"
    assert by_group["4 of 5, uniform"].context == "uniform"
    plain = by_group["4 of 6"]
    assert (plain.context, plain.bidirectional) == ("attention", False)


def test_a_head_start_begins_with_the_easy_tasks_weights(chapter):
    (run,) = (run for run in chapter.runs() if run.after)
    begun = chapter.setup(run).model
    easy = chapter.kept("4 of 6, seeds 0 to 1").at(run.after)
    assert all(torch.equal(weight, easy.state_dict()[name]) for name, weight in begun.state_dict().items())
    assert chapter.setup(run).batches(0).source.max() == 6  # the end, behind six symbols
    control = next(run for run in chapter.runs() if run.group == chapter.control)
    assert control.steps == run.steps + run.after and control.task == run.task


def test_models_are_looked_at_on_sequences_that_training_does_not_see(chapter):
    run = chapter.runs()[1]
    batch = chapter.setup(run).hooks[0].batch
    for step in range(3):
        assert not torch.equal(chapter.setup(run).batches(step).source[:, :4], batch.source)


def test_what_is_seen_covers_every_model_and_step(chapter, found):
    curves = found[0]
    assert set(curves["task"]) == set(chapter.groups)
    for task, part in curves.groupby("task"):
        last = 10 if "uniform" in task else 30 if task == chapter.control else 20
        assert part["seed"].unique().tolist() == [0, 1] and part["step"].max() == last
    assert curves.loc[curves["task"].str.contains("uniform"), "auc"].notna().all()


def test_the_explorer_gets_one_sequence_in_two_models(chapter):
    parts = chapter.explored([(chapter.easy.name, 0), (chapter.hard.name, 1)])
    assert parts["source"][-1] == "<end>" and sorted(parts["source"][:-1]) == ["0", "1", "2", "3"]
    assert list(parts["scores"]) == ["4 of 6, seed 0", "permutations of 4, seed 1"]
    for name, score in parts["scores"].items():
        assert score.shape == (3, 5, 5) and len(parts["written"][name]) == 3
        np.testing.assert_allclose(score.sum(-1), 1, rtol=1e-5)


def test_dose_and_response_go_from_the_hard_to_the_easy_task(chapter, found):
    _, times, shares, hints = found
    table = chapter.dose_response(shares, times, hints)
    assert table["name"].tolist() == ["4", "5", "6"]
    assert ((table["y_low"] <= table["y"]) & (table["y"] <= table["y_high"])).all()
    at = hints[(hints["metric"] == "auc") & (hints["step"] == 10)].set_index("task")["value"]
    assert table["x"].tolist() == [at["permutations of 4"], at["4 of 5"], at["4 of 6"]]


def test_steps_of_a_head_start_count(chapter, found):
    times = found[1]
    starts = chapter.with_head_start(times).set_index(["task", "seed"])["step"]
    plain = times.set_index(["task", "seed"])["step"]
    ahead = chapter.head_start(10)
    assert starts[chapter.control, 0] == plain[chapter.control, 0]
    assert starts[ahead, 1] == plain[ahead, 1] + 10
    assert {task for task, _ in starts.index} == {chapter.control, ahead}


def test_rows_are_finite_and_say_what_they_are(chapter, found):
    _, times, shares, hints = found
    rows = chapter.rows(shares, times, hints)
    assert np.isfinite(rows["value"]).all() and rows["setting"].nunique() == 1
    metrics = {"learned", "hint (AUC)", "largest relevance", "learned, less permutations of 4"}
    assert metrics <= set(rows["metric"])
    assert not rows.duplicated(["metric", "task", "budget", "step"]).any()


def test_the_set_up_says_in_words_what_was_trained_in_half_precision():
    said = {name: smallest("sequence_copying", precision=name).setting for name in ("float32", "bf16")}
    assert said["bf16"] == said["float32"] + "; bf16"


def test_what_is_recorded_is_of_all_models_and_of_heads(chapter, found):
    curves, times, shares, hints = found
    assert times.equals(tables.learned_at(curves, 0.3)) and set(hints["task"]) < set(times["task"])
    graded = chapter.grade_heads()
    heads = chapter.head_results(graded, chapter.train_together(graded))
    rows, of_heads = chapter.all_rows(curves, heads), heads.rows()
    of_models = chapter.rows(shares, times, hints)
    assert len(of_heads) and rows["value"].tolist() == [*of_models["value"], *of_heads["value"]]
    assert rows["setting"].unique().tolist() == [chapter.setting, chapter.heads_setting]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symbols": 19}, "symbols should be at least length = 20"),
        ({"symbols": 30}, "fewer than more_symbols = 30; got 30"),
        ({"between": [20]}, "between should be numbers between symbols = 20 and more_symbols = 30; got .20."),
        ({"between": [25, 21]}, "between: should grow"),
        ({"budgets": [300]}, "budgets should be from 1 to steps = 200; got .300."),
        ({"head_starts": [0]}, "head_starts should be from 1 to steps = 200; got .0."),
        ({"early": 15}, "early should be a step at which models are looked at, .* got 15"),
        ({"options": ["both"]}, "options.0: should be one of both directions; without context; got 'both'"),
    ],
)
def test_impossible_parameters_are_named(change, message):
    with pytest.raises(ParameterError, match=message):
        SequenceCopying.checked(QUICK | change)

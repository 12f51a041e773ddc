"""How the algorithmic tasks are learned: recipes, curricula, and what stands in their place if asked."""

import pytest

from attnlib.generators.algorithmic import TASKS
from attnlib.generators.order import in_stages
from book.chapters.reasoning import AlgorithmicReasoning
from book.chapters.reasoning.recipes import RECIPES, Recipe, Stage
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of, profile

QUICK = defaults_of("algorithmic_reasoning")


def params(**change):
    return AlgorithmicReasoning.checked(QUICK | change)


def of_one(name, **own):
    return params(tasks=[name], supervised=[], override={name: own} if own else {})


def texts(p, name, step):
    """The texts of a training batch."""
    (run,) = p.runs()
    batch = p.setup(run).batches(step)
    return p.tokenizer.batch_decode(
        [ids[mask] for ids, mask in zip(batch.input_ids, batch.attention_mask, strict=True)],
        skip_special_tokens=True,
    )


# ---- stages --------------------------------------------------------------------------------------------


def test_every_step_is_of_the_stage_it_is_in_and_counted_as_training_counts():
    batch_at = in_stages([(2, lambda s: ("a", s)), (0, lambda s: ("b", s)), (3, lambda s: ("c", s))])
    assert [batch_at(s) for s in (0, 1, 2, 4, 9)] == [("a", 0), ("a", 1), ("c", 2), ("c", 4), ("c", 9)]
    alone = in_stages([(5, lambda s: s)])
    assert [alone(s) for s in (0, 7)] == [0, 7]
    with pytest.raises(ValueError, match="stages must be one or more"):
        in_stages([(-1, lambda s: s), (2, lambda s: s)])


def test_of_other_steps_stages_and_warmup_last_in_proportion():
    recipe = Recipe(steps=100, warmup=10, stages=(Stage(50, {"length": (1, 1)}), Stage(30)))
    shorter = recipe.changed({"steps": 10})
    assert (shorter.steps, shorter.warmup, shorter.ends) == (10, 1, [5, 8])
    assert shorter.stages[0].ranges == {"length": (1, 1)}
    assert len(recipe.changed({"steps": 1}).stages) <= 1, "a stage of no steps is none"
    assert recipe.changed({"width": 16}).ends == recipe.ends
    assert recipe.changed({"steps": 10, "warmup": 3}).warmup == 3


@pytest.mark.parametrize("name", TASKS)
def test_every_recipe_is_possible_and_ends_with_all_of_the_ranges(name):
    p = of_one(name)
    recipe, stages = p.recipe(name), p.stages()
    assert recipe == RECIPES[name]
    assert stages["to step"].iloc[-1] == recipe.steps and recipe.ends[-1:] <= [recipe.steps]
    assert stages["texts"].iloc[-1] == p.described(name, "train")
    assert (stages["from step"].iloc[1:].array == stages["to step"].iloc[:-1].array).all()


# ---- what a reader says instead -------------------------------------------------------------------------


def test_what_the_parameters_leave_open_is_the_tasks_own_way():
    p = params(width=64, n_heads=2, batch_size=8, schedule="constant")
    addition = p.recipe("long_addition")
    assert (addition.width, addition.n_layers, addition.steps) == (64, 3, 1600)
    assert (addition.batch_size, addition.schedule) == (8, "constant")
    assert params(weight_decay=0.0).recipe("successor").weight_decay == 0
    assert params().recipe("successor").weight_decay == 0.3


def test_a_task_may_have_a_model_of_its_own():
    own = {"n_layers": 3, "steps": 50, "weight_decay": 0.1}
    p = params(width=32, override={"successor": {"model": own, "ood": {"length": [9, 9]}}})
    assert (p.sizes("successor").n_layers, p.sizes("string_reversal").n_layers) == (3, 2)
    assert p.sizes("successor").width == p.sizes("string_reversal").width == 32
    steps = {run.task: p.plan(run).steps for run in p.runs()}
    assert (steps["successor"], steps["string_reversal"]) == (50, 700)
    assert {p.plan(run).weight_decay for run in p.runs() if run.task == "successor"} == {0.1}
    assert p.settings("successor", "ood")["length"] == (9, 9)


def test_ones_own_curriculum_or_none():
    stages = [{"steps": 5, "length": [2, 3]}]
    own = of_one("flip_flop", stages=stages, model={"steps": 20})
    assert own.recipe("flip_flop").stages == (Stage(5, {"length": [2, 3]}),)
    assert {len(text) // 3 for text in texts(own, "flip_flop", 4)} == {2, 3}
    none = of_one("flip_flop", stages=[])
    assert not none.recipe("flip_flop").stages and none.recipe("flip_flop").steps == 3400
    assert not params(tasks=["flip_flop"], supervised=[], ranges="finetune").recipe("flip_flop").stages


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"steps": 5, "length": [2, 11]}], "stage 1 has length 2-11, and training 1-10"),
        ([{"steps": 5, "num_registers": [1, 2]}], "stage 1 has num_registers 1-2, and training 2"),
        ([{"steps": 5, "length": [3, 2]}], "stage 1 of the curriculum of flip_flop cannot be: length must"),
        ([{"steps": 5, "size": [3, 2]}], r"override may set length, .* of flip_flop; got \['size'\]"),
        ([{"steps": 9}, {"steps": 3401}], "no longer than training; its stages take 3410 steps, of 3400"),
        ([{"length": [2, 3]}], "flip_flop cannot be: steps should be greater than or equal to 1; got 0"),
    ],
)
def test_a_curriculum_that_leaves_the_task_is_refused(stages, message):
    with pytest.raises(ParameterError, match=message):
        of_one("flip_flop", stages=stages)


def test_curricula_are_of_the_tasks_characters_and_of_all_that_is_trained_on():
    with pytest.raises(ParameterError, match="stage 1 has charset_from abcdef!"):
        of_one("value_assignment", stages=[{"steps": 5, "charset_from": "abcdef!"}])
    with pytest.raises(ParameterError, match=r"stage 1 has length 3-5, and training 1; .*'stages': \[\]"):
        of_one("value_assignment", train={"length": [1, 1]})
    assert of_one("value_assignment", train={"length": [1, 1]}, stages=[]).runs()


# ---- the study's own direction, and what was there before ------------------------------------------------


def test_reversal_in_the_studys_own_direction():
    p, ours = params(reversal="study"), params()
    lengths = {part: p.settings("string_reversal", part)["length"] for part in ("train", "id", "ood")}
    assert lengths == {"train": (10, 20), "id": (10, 20), "ood": (1, 10)}
    assert ours.settings("string_reversal", "ood")["length"] == (11, 20)
    assert params(ranges="finetune").settings("string_reversal", "train")["length"] == (1, 20)
    other = params(override={"string_reversal": {"ood": {"length": [30, 30]}}})
    assert other.settings("string_reversal", "ood")["length"] == (30, 30)
    assert other.settings("string_reversal", "train")["length"] == (1, 10)


@pytest.mark.parametrize("name", TASKS)
def test_the_paper_profile_trains_without_a_curriculum(name):
    p = params(**profile("algorithmic_reasoning", "paper"))
    recipe = p.recipe(name)
    assert not recipe.stages and (recipe.steps, recipe.batch_size, recipe.width) == (1500, 4, 2048)
    assert p.settings("string_reversal", "train")["length"] == (10, 20)

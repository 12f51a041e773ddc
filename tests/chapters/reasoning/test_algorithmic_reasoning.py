"""Parameters of the chapter on algorithmic reasoning: the study's ranges, and what is refused."""

import pytest
from torch import nn

from attnlib.generators.algorithmic import TASKS
from attnlib.generators.base import IGNORE
from attnlib.measures import evaluate_rows, generate_answers
from attnlib.models.pretrained import TINY
from book.chapters import demands
from book.chapters.readings import reading
from book.chapters.reasoning import AlgorithmicReasoning, tables
from book.chapters.reasoning.measures import all_ranked, best_head, changed_attention, over_all, pushed
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of

QUICK = defaults_of("algorithmic_reasoning")


@pytest.fixture(autouse=True)
def a_large_machine(monkeypatch):
    """What fits into a machine does not depend on the one that the tests run on."""
    monkeypatch.setattr(demands, "memory_here", lambda _: 64 * 10**9)


def params(**change):
    return AlgorithmicReasoning.checked(QUICK | change)


def own(name, **settings):
    """A task's own settings."""
    return {"override": {name: settings}}


LONG = {"tasks": ["string_reversal"], "few_shot": True, "instruction": True}
LONG |= own("string_reversal", ood={"length": [900, 900]})


def test_the_runs_of_the_default_parameters():
    assert [(run.task, run.supervised) for run in params().runs()] == [
        ("long_addition", False),
        ("string_reversal", False),
        ("string_reversal", True),
        ("successor", False),
    ]
    assert "long addition, seed 2" in [run.name for run in params(seeds=[1, 2]).runs()]


def test_ranges_are_the_studys_until_overridden():
    p = params(override={"successor": {"train": {"length": [3, 4]}, "ood": {"length": [9, 9]}}})
    assert p.settings("long_addition", "ood") == {"length": (5, 10), "num_of_nums": (2, 2)}
    assert p.settings("successor", "train") == {"start_number_range": (1, 90), "length": (3, 4)}
    assert p.settings("successor", "id")["length"] == (3, 4)
    assert p.settings("successor", "ood") == {"start_number_range": (100, 900), "length": (9, 9)}
    assert params(ranges="finetune").settings("flip_flop", "train")["length"] == (10, 10)
    assert p.described("long_addition", "ood") == "length 5-10, num_of_nums 2"


@pytest.mark.parametrize("name", TASKS)
def test_no_test_text_is_ever_trained_on(name):
    p = params(tasks=[name], supervised=[], test_samples=40, reversal="study")
    trained = {s.text for s in p.generator(name, "train").samples(200)}
    texts = {part: [s.text for s in p.samples(name, part)] for part in ("valid", "id", "ood")}
    for found in texts.values():
        assert found and len(set(found)) == len(found)
        assert not trained & set(found)
    assert not set(texts["valid"]) & set(texts["id"])


def test_what_is_trained_from_scratch_is_known_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/config.json").write_text("{}")
    names = ("llama", "gpt2", "transformer", "tiny-random", "owner/model", "./folder")
    assert [name for name in names if params(model=name).from_scratch] == ["llama", "gpt2", "transformer"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "./nowhere"}, r"a folder that is there.*got '\./nowhere'"),
        ({"tasks": ["adition"]}, "got 'adition'; did you mean 'long_addition'"),
        ({"ranges": "grok"}, "ranges grok are of flip_flop only; got tasks .'long_addition', "),
        ({"model": "lama"}, "got 'lama'; did you mean 'llama'"),
        ({"steps": 50, "warmup": 50}, "warmup should be less than steps = 50, .*; got 50"),
        ({"width": 4}, "the model of long_addition cannot be: width should be greater .* 8; got 4"),
        ({"chat": True}, "chat needs a model with a chat template; got llama"),
        ({"n_heads": 5}, "multiple of n_heads; got width .* and n_heads 5"),
        ({"reinforced_heads": 99}, "reinforced_heads should be at most n_layers x n_heads = .*; got 99"),
        ({"model": "tiny-random", "seeds": [0, 1]}, r"nothing is trained: .* got \[0, 1\] and steps 0"),
        (own("long_addition", ood={"digits": 9}), r"got \['digits'\] for ood"),
        (own("long_addition", ood={"length": [9, 2]}), r"the ood settings .* cannot be: .*; got \(9, 2\)"),
        (own("successor", train={"length": [0, 0]}), "the train settings .* cannot be: .* asks nothing"),
        (
            {"tasks": ["flip_flop"], "supervised": []} | own("flip_flop", train={"num_registers": [1, 12]}),
            "a register is one digit",
        ),
        (own("successor", model={"width": 17}), "width should be even .* for successor"),
        ({"text": "1240+4335=5576"}, "'1240.4335=5576' is not right: .* '1240.4335=5575'"),
        ({"model": "bert"}, "bert is not causal as configured"),
        ({"model": "gptj"}, "gptj cannot be built with"),
        (LONG, "reads 2,048 characters; .*leave out instruction and few_shot"),
        ({"tasks": ["long_multiplication"], "longest": 12.0}, "of up to 5,475: make length"),
    ],
)
def test_what_is_not_allowed_is_told_what_is(change, message):
    with pytest.raises(ParameterError, match=message):
        params(**change)


def test_a_texts_prompt_is_surrounded_as_asked():
    p = params(instruction=True, few_shot=True)
    sample = p.samples("long_addition", "id")[0]
    plain = p.generator("long_addition", "id", plain=True).samples(1)[0]
    assert len(sample.input_ids) > len(plain.input_ids) + 50
    assert sample.answer == plain.answer


def test_a_language_model_is_fine_tuned_on_texts_with_the_studys_prompts_and_asked_for_the_answers_alone():
    given = {"model": TINY, "ranges": "finetune", "tasks": ["successor"], "steps": 3, "batch_size": 4}
    batches, p = [], params(**given)
    for around in ({}, {"instruction": True}, {"instruction": True, "few_shot": True}):
        p = params(**given | around)
        setup = p.setup(p.runs()[0])
        assert setup.plan is not None and setup.plan.steps == 3
        assert p.is_trained("successor")
        batches.append(setup.batches(0))
    bare, told, shown = batches
    assert bare.input_ids.shape[1] < told.input_ids.shape[1] < shown.input_ids.shape[1]
    for batch in (told, shown):  # of the same texts the same tokens are learned
        for row, other in zip(batch.target_ids, bare.target_ids, strict=True):
            assert row[row != IGNORE].tolist() == other[other != IGNORE].tolist()
    text = p.tokenizer.decode(shown.input_ids[0])
    generator = p.generator("successor", "train")
    assert generator.INSTRUCTION in text and generator.FEW_SHOT_PROMPT[0] in text


def test_a_language_model_without_a_chat_template_is_refused_for_chats(monkeypatch):
    p = params(model=TINY, chat=True, supervised=[])
    model, tokenizer = p.obtain("successor")
    tokenizer.chat_template = None
    monkeypatch.setattr(AlgorithmicReasoning, "obtain", lambda *_: (model, tokenizer))
    with pytest.raises(ValueError, match="tiny-random has none: leave chat False"):
        p.samples("successor", "id")


# ---- doors -----------------------------------------------------------------------------------------------


def test_tasks_may_be_chosen_without_a_word_on_supervision(caplog):
    """The page's own `supervised` names a task; without that one it is the same run as with none."""
    p = params(tasks=["long_addition"])
    assert p.supervised == [] and [run.name for run in p.runs()] == ["long addition"]
    assert "string_reversal" in caplog.text
    assert p.model_dump() == params(tasks=["long_addition"], supervised=[]).model_dump()
    with pytest.raises(ParameterError, match="did you mean 'string_reversal'"):
        params(tasks=["long_addition"], supervised=["string_reversl"])


def test_what_is_asked_of_no_model_is_said(caplog):
    given = {"tasks": ["string_reversal"], "supervised": ["string_reversal"]}
    params(**given, **own("string_reversal", train={"length": [1, 5]}))
    assert not caplog.text
    params(**given, **own("flip_flop", train={"length": [2, 5]}))
    assert "not overridden, since not among tasks = ['string_reversal']: flip_flop" in caplog.text
    params(**given, model=TINY)
    assert "not supervised, since not trained (steps 0): string_reversal" in caplog.text


def test_without_steps_a_given_model_is_only_evaluated():
    """Once, and not a second time called "supervised"; what is fine-tuned is called so by its own steps."""
    tasks = {"model": TINY, "tasks": ["string_reversal", "successor"]}
    p = params(**tasks)
    assert [run.name for run in p.runs()] == ["string reversal", "successor"]
    assert all(p.setup(run).plan is None for run in p.runs())
    assert p.run_table()["setting"].str.startswith(f"{TINY}, as it is").all()
    one = params(**tasks, supervised=[], override={"successor": {"model": {"steps": 2}}})
    ways = one.run_table().set_index("task")["setting"]
    assert ways.to_dict() == {"string_reversal": f"{TINY}, as it is", "successor": f"{TINY}, fine-tuned"}


class Plain(nn.Module):
    """Any PyTorch module that returns logits and attentions."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, input_ids, attention_mask):
        return self.inside(input_ids, attention_mask, output_attentions=True)


def test_a_plain_module_goes_through_the_chapter():
    """Trained, evaluated, writing, by length, head by head, in an explorer; what cannot be pushed is not."""

    class Mine(AlgorithmicReasoning):
        def obtain(self, name, seed=0, positions=""):
            model, tokenizer = super().obtain(name, seed, positions)
            return Plain(model), tokenizer

    small = {"model": "transformer", "tasks": ["string_reversal"], "supervised": [], "width": 16}
    small |= {"steps": 2, "batch_size": 4, "test_samples": 8, "n_layers": 1, "longest": 1.0, "device": "cpu"}
    p = Mine.checked(QUICK | small)
    models, _ = p.train_all()
    rows, written = (over_all(p, models, way) for way in (evaluate_rows, generate_answers))
    accuracy = tables.accuracies(p, {"teacher-forced": rows, "generated": written})
    by_group, whole = tables.masses(rows)
    ranked, by_length = all_ranked(p, models), p.accuracy_by_length(models)
    best_heads = best_head(p, models, ranked)
    assert pushed(p, models, ranked) is None and changed_attention(p, models) is None
    made = {"accuracy": accuracy, "by_group": by_group, "whole": whole, "best_heads": best_heads}
    recorded = tables.to_record(p, **made, by_length=by_length)
    assert {"generated exact match OOD", "rollout, ID", "best head, OOD"} <= set(recorded["metric"])
    seen = reading(models["string reversal"], p.tokenizer, p.samples("string_reversal", "id")[0])
    assert seen["attentions"].shape[0] == 1

"""The settings of `attribution_benchmark`: whose models they take, and that each of them can be asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from book.chapters.attribution_benchmark.questions import predicted
from book.chapters.attribution_benchmark.settings import FURTHER, MOST_SEEDS, SETTINGS, chapter_with
from book.chapters.attribution_benchmark.single_head import SINGLE_HEAD

ROOT = Path(__file__).parents[3]
SMALL = [name for name in SETTINGS if name not in ("reverse", "string reversal, supervised")]
"""Those that the `smoke` profiles have models of."""


BLANKED = SINGLE_HEAD["blank-out"]


def wanted(models, train_more=False, questions=3):
    return SimpleNamespace(models=models, train_more=train_more, questions=questions)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Models of these tests are kept for these tests only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        chapter_with.cache_clear()
        yield
        chapter_with.cache_clear()


def test_the_pipeline_knows_what_the_settings_need():
    declared = yaml.safe_load((ROOT / "notebooks/needs.yaml").read_text())
    needed = sorted({setting.needs for setting in SETTINGS.values() if setting.needs})
    assert declared["attribution_benchmark"] == needed
    for name in needed:
        assert (ROOT / f"notebooks/{name}.ipynb").exists()


def test_seeds_are_those_of_the_chapters_and_further_ones_are_asked_for():
    own = {name: setting.seeds(wanted("quick")) for name, setting in SETTINGS.items()}
    assert own["sort"] == own["addition"] == [0] and own["multiplication"] == own["flip flop"] == []
    assert own["arithmetic"] == [0, 1] and own["copying"] == [0, 1, 2] and own["translation"] == [20, 13, 14]
    more = {name: setting.seeds(wanted("quick", train_more=True)) for name, setting in SETTINGS.items()}
    assert more["sort"] == more["multiplication"] == [0, 1, 2]
    assert more["translation"] == own["translation"] and more["sort, compiled"] == more["needle"] == [0]
    assert max(map(len, more.values())) == MOST_SEEDS
    single_head = [SETTINGS[name] for name in SETTINGS if not SETTINGS[name].transformer]
    uniform = [
        run.uniform
        for each in single_head
        for run in each.runs(each.chapter(wanted("quick")))
        if hasattr(run, "uniform")
    ]
    assert uniform and not any(uniform)  # what attends evenly has nothing to be asked


@pytest.mark.parametrize("name", SMALL)
def test_every_setting_can_be_asked(name):
    p, setting = wanted("smoke", train_more=name in FURTHER), SETTINGS[name]
    model, questions = setting.make(p, setting.seeds(p)[0])
    assert questions.setting == setting.title == name
    assert 0 < len(questions) <= 2 * p.questions and questions.truth.any(1).all()
    assert not questions.candidates[torch.arange(len(questions)), questions.query].any()
    assert (questions.foil != questions.target).all()
    differs = questions.input_ids != questions.counterfactual
    assert (differs & questions.truth).any(1).all()
    words = setting.words(p, questions.input_ids[0][questions.attention_mask[0]])
    assert len(words) == questions.attention_mask[0].sum() and all(isinstance(word, str) for word in words)
    methods = setting.methods(["rollout", "blank-out"])
    assert methods == {"rollout": "rollout", "blank-out": "blank-out" if setting.transformer else BLANKED}
    said = predicted(model, questions.input_ids, questions.attention_mask, questions.query)
    assert torch.equal(said == questions.target, questions.right)
    questions = setting.make(p, setting.seeds(p)[0], others=True)[1]  # in prompts of their own, all differs
    assert (questions.foil != questions.target).all()
    differs = (questions.input_ids != questions.counterfactual) & questions.candidates
    assert (differs & questions.truth).any(1).all()
    assert (differs & ~questions.truth).any() or name == "arithmetic"  # of few digits, all are sources


@pytest.mark.parametrize(
    "name, ids, words",
    [
        ("sort", [1, 4, 6], ["<bos>", "a", "c"]),
        ("documents", [1, 3, 2], ["<bos>", "<unk>", "<eos>"]),
        ("copying", [5, 0, 6, 9 + 5], ["5", "0", "<end>", "5"]),
        ("needle", [5, 6], ["1", "2"]),
    ],
)
def test_tokens_are_called_what_they_stand_for(name, ids, words):
    assert SETTINGS[name].words(wanted("smoke"), torch.tensor(ids)) == words


def test_what_is_not_kept_is_trained_and_said_once(capsys):
    p, setting = wanted("smoke", train_more=True), SETTINGS["reverse"]
    model, questions = setting.make(p, 1)
    assert "rasp_languages: reverse, seed 1 was trained here" in capsys.readouterr().out
    again, same = setting.make(p, 1)
    assert again is model and "trained here" not in capsys.readouterr().out
    assert torch.equal(same.input_ids, questions.input_ids)
    chapter_with.cache_clear()
    kept = setting.make(p, 1)[0]
    assert "trained here" not in capsys.readouterr().out
    assert torch.equal(kept.embedding.weight, model.embedding.weight)


def test_data_and_models_without_known_sources_are_refused():
    with pytest.raises(ValueError, match=r"rasp_languages has the profiles paper, .*got 'best'"):
        SETTINGS["sort"].seeds(wanted("best"))
    with pytest.raises(ValueError, match="seed should be one of"):
        SETTINGS["copying"].make(wanted("smoke"), 77)
    other = {"documents": "imdb", "translation": "multi30k", "addition": "HuggingFaceTB/SmolLM2-135M"}
    for name, data in other.items():
        setting = SETTINGS[name]
        field = "model" if name == "addition" else "data"
        chapter = chapter_with(setting.needs, "smoke").model_copy(update={field: data})
        with pytest.raises(ValueError, match=data):
            setting.check(chapter)
        setting.check(chapter_with(setting.needs, "smoke"))

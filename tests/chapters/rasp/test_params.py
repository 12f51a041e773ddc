"""Parameters: what is allowed passes, and everything else is told what was."""

import json

import pandas as pd
import pytest
from papermill.cli import _resolve_type

from attnlib import plots
from attnlib.generators import rasp
from attnlib.measures import sample_scores
from book.chapters.generative import GenerativeRollout
from book.chapters.rasp import RaspLanguages
from book.chapters.rasp.recipes import Size
from book.chapters.readings import reading
from book.chapters.refusals import ParameterError
from tests.parameters import CHAPTERS, defaults_of

QUICK = defaults_of("rasp_languages")


def test_the_runs_of_the_default_parameters_and_of_several_seeds():
    runs = RaspLanguages.checked(QUICK).runs()
    assert [(run.name, run.language.name, run.supervised, run.seed) for run in runs] == [
        ("sort", "sort", False, 0),
        ("sort, supervised", "sort", True, 0),
        ("reverse", "reverse", False, 0),
        ("hist, supervised", "hist", True, 0),
    ]
    p = RaspLanguages.checked(QUICK | {"also": [], "seeds": [3, 4]})
    names = [f"{kind}, seed {seed}" for kind in ("sort", "sort, supervised") for seed in (3, 4)]
    assert [run.name for run in p.runs()] == list(p.run_table()["run"]) == names


@pytest.mark.parametrize(
    ("name", "language", "symbols", "bos"),
    [
        ("reverse_100", "reverse", 100, False),
        ("sort_26_bos_with_attns", "sort", 26, True),
        ("dyck2_ptf_bos", "dyck2_ptf", QUICK["alphabet_size"], True),
    ],
)
def test_the_originals_name_of_a_language_asks_for_that_one_alone(name, language, symbols, bos):
    p = RaspLanguages.checked(QUICK | {"language": name})
    assert (p.language, p.alphabet_size, p.bos, p.languages) == (language, symbols, bos, [language])
    with pytest.raises(ParameterError, match="got 'reverse_11'"):
        RaspLanguages.checked(QUICK | {"language": "reverse_11"})


def test_a_model_without_room_for_the_program_is_trained_unsupervised():
    p = RaspLanguages.checked(QUICK | {"n_layers": 1})
    assert p.size(p.lang("sort")) == Size(1, 1, 64)
    assert "sort, supervised" not in [run.name for run in p.runs()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"language": "srot"}, r"got 'srot'; did you mean 'sort'\?"),
        ({"colour": "red"}, "no parameter 'colour'; there are device, language, language_file, also"),
        ({"n_layers": "two"}, "n_layers: should be a valid integer; got 'two'"),
        ({"n_heads": 3}, "got width 64 and n_heads 3 for sort .n_heads may be 1, 2, 4, 8, 16"),
        ({"alphabet_size": 11}, "should be 10, 26, 52 or 100; got 11"),
        ({"supervision": -1}, "supervision: should be greater than 0; got -1"),
        ({"sequence": "cat"}, "symbols 'abcdefghij'; 'cat' has 't'"),
        ({"length": 3, "sequence": "abcd"}, "at most length = 3 symbols; got 'abcd'"),
        ({"supervised": ["sort"], "n_layers": 1}, "leave room for the heads that sort supervises"),
        ({"also": ["dyck1_ptf"], "supervised": ["dyck1_ptf"]}, "supervised should .*; got dyck1_ptf"),
    ],
)
def test_what_is_not_allowed_is_told_what_is(change, message):
    with pytest.raises(ParameterError, match=message) as caught:
        RaspLanguages.checked(QUICK | change)
    assert caught.value.__cause__ is None and caught.value.__context__ is None  # no traceback of pydantic's


def test_missing_parameters_are_named():
    with pytest.raises(ParameterError, match="width is missing: give it a value"):
        RaspLanguages.checked({name: value for name, value in QUICK.items() if name != "width"})


def test_a_notebooks_names_are_read_and_its_other_names_left_alone():
    names = {**QUICK, "_private": 1, "In": [""], "Out": {}, "json": json, "helper": len, "__name__": ""}
    p = RaspLanguages.from_notebook(names)
    assert p.model_dump() == RaspLanguages.checked(QUICK).model_dump()
    with pytest.raises(ParameterError, match="no parameter 'epochs'"):
        RaspLanguages.from_notebook({**names, "epochs": 5})
    # the cell run again by a reader, after later cells have defined names of their own
    assert RaspLanguages.from_notebook({**names, "p": p, "text": "cab", "width": 32}).width == 32


ROLLOUT = defaults_of("generative_rollout")


def test_the_rollout_chapter_is_told_what_is_allowed():
    assert GenerativeRollout.checked(ROLLOUT | {"needles": 40}).needles == 40
    with pytest.raises(ParameterError, match="facts should be numbers from 2 to 20"):
        GenerativeRollout.checked(ROLLOUT | {"facts": [1]})
    with pytest.raises(ParameterError, match="names should be 0, or 2 to 55, to be told from each other"):
        GenerativeRollout.checked(ROLLOUT | {"names": 1})


# ---- models ------------------------------------------------------------------------------------------


def small(**changes):
    tiny = {"also": [], "length": 8, "width": 16, "train_samples": 100, "test_samples": 20, "steps": 3}
    return RaspLanguages.checked(QUICK | tiny | {"device": "cpu"} | changes)


def shift(back):
    """A language of one's own: the symbol `back` places before."""

    def before(s):
        return s.symbols.gather(1, (s.positions - back).clamp(min=0).expand_as(s.symbols))

    looks = rasp.Pattern(lambda s: rasp.select(s.positions, (s.positions - back).clamp(min=0)))
    return rasp.Definition("shift", "an earlier symbol", before, heads={(0, 0): looks})


def test_a_language_of_ones_own_is_trained_kept_and_drawn():
    p = small()
    run = p.run(shift(1), supervised=True)
    assert run.name == "shift, supervised" and p.size(run.language) == Size(3, 2, 16)
    trained = p.train(run)
    assert p.trained[run.name] is trained and trained.history.rows[-1]["step"] == 3
    assert (trained.history.folder / "best.safetensors").exists()
    again = small().train(run).history
    assert again.folder == trained.history.folder and again.rows == trained.history.rows
    assert len(sample_scores(trained.model, p.tests(run.language))) == 20
    example = reading(trained.model, run.language.tokenizer, run.language.annotate("cabbage"))
    assert list(example["references"]) == [(0, 0)] and example["attentions"].shape == (3, 2, 8, 8)
    plots.attention_grid({run.name: example["attentions"]}, example["tokens"], example["references"])


def test_two_languages_of_one_name_are_two_models():
    p = small()
    folders = {p.train(p.run(each)).history.folder for each in ("sort", shift(1), shift(2))}
    assert len(folders) == 3


def test_a_chapter_trains_all_its_runs_and_records_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path))
    p = small()
    models, histories = p.train_all()
    assert list(models) == list(histories) == ["sort", "sort, supervised"]
    rows = pd.DataFrame({"metric": ["accuracy"], "value": [0.5], "low": [0.4], "high": [0.6], "n": [20]})
    path = p.record(rows)
    assert path.parent == tmp_path / "rasp_languages" and path.stem.startswith("sort-")
    provenance = json.loads(path.with_suffix(".json").read_text())
    assert provenance["parameters"] == p.recorded_parameters and provenance["device"] == "CPU"
    done = [found.history for found in p.trained.values()]
    assert provenance["steps"] == sum(each.steps for each in done) == 2 * p.steps
    again = small()
    again.train_all()  # keeps the models of the first time, and what they took
    path.unlink()
    told = json.loads(again.record(rows).with_suffix(".json").read_text())
    assert told["training"] == provenance["training"] and told["seconds"] == provenance["seconds"]


# ---- as a command says them --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameter", "text", "meant"),
    [
        ("rasp_languages", "bos", "false", False),
        ("rasp_languages", "seeds", "[0, 1, 2]", [0, 1, 2]),
        ("rasp_languages", "grid", '{"learning_rate": [0.5]}', {"learning_rate": [0.5]}),
        ("rasp_languages", "sequence", "[]", None),  # a text is a text, also where it could be a list
        ("arithmetic_lens", "tensorboard", "true", True),
        ("generative_rollout", "chat", "true", True),
        ("generative_rollout", "ignore", '["is", "of"]', ["is", "of"]),
    ],
)
def test_a_command_says_booleans_and_lists_in_words(name, parameter, text, meant):
    """Papermill knows True and False, numbers, and texts; it hands on anything else as a text."""
    chapter, handed_on = CHAPTERS[name], _resolve_type(text)
    assert handed_on == text
    if meant is None:
        with pytest.raises(ParameterError, match=r"symbols 'abcdefghij'; '\[\]' has '\['"):
            chapter.checked(defaults_of(name) | {parameter: text})
    else:
        assert getattr(chapter.checked(defaults_of(name) | {parameter: text}), parameter) == meant


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bos": "maybe"}, r"bos: should be True or False; got 'maybe'$"),
        ({"also": "hist"}, r"valid list, as in -y 'also: \[a, b\]' or -p also '\[.*\]'; got 'hist'"),
        ({"also": "[hist]"}, r"also: should be a valid list, .*; got '\[hist\]'$"),
        ({"also": "[" * 999}, "also: should be a valid list"),
        ({"seeds": "[0, Infinity]"}, "seeds.1: should be a valid integer; got inf"),
    ],
)  # fmt: skip
def test_what_is_neither_is_refused_as_it_was_given(change, message):
    with pytest.raises(ParameterError, match=message):
        RaspLanguages.checked(QUICK | change)


@pytest.mark.parametrize(
    "name", [name for name in CHAPTERS if isinstance(defaults_of(name).get("seeds"), list)]
)
def test_no_model_is_counted_twice(name):
    good = defaults_of(name) | {"device": "cpu"}
    with pytest.raises(ParameterError, match=r"seeds: should be different ones; got \[0, 0, 0\]"):
        CHAPTERS[name].checked(good | {"seeds": [0, 0, 0]})
    assert CHAPTERS[name].checked(good | {"seeds": [2, 0]}).seeds == [2, 0]

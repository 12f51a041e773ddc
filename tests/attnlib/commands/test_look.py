"""`attnlib look`: a page of every kind, and one line for everything that cannot be done."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
)

from attnlib.attribution import METHODS, attribute
from attnlib.commands import main
from attnlib.commands.looking import ROLLOUTS, Seen, look, tokens_of
from attnlib.files import CheckpointError
from attnlib.generators import char_tokenizer
from attnlib.generators.prompts import continued
from attnlib.models.pretrained import load_language_model
from attnlib.rollout import generate_with_rollout
from attnlib.widgets import GenerationExplorer, MeasureExplorer, ModelExplorer
from tests.pretrained import trained_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """Folders of tiny random models: one that writes, an encoder, one without attention."""
    folder, tokenizer = tmp_path_factory.mktemp("models"), char_tokenizer()
    size = {"vocab_size": len(tokenizer), "hidden_size": 32}
    deep = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    made = {
        "writer": GPT2LMHeadModel(
            GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=64)
        ),
        "encoder": BertForMaskedLM(BertConfig(**size, **deep)),
        "recurrent": MambaForCausalLM(MambaConfig(**size, num_hidden_layers=2, state_size=4)),
    }
    for name, model in made.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def quiet(line: str) -> None:
    """Progress that nobody reads."""


def refusal(capsys, *arguments: str) -> str:
    """What a command that cannot be done says, in its last line."""
    assert main(["look", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err.strip().splitlines()[-1]


def test_it_writes_one_page_and_says_on_stdout_only_where(models, tmp_path, capsys) -> None:
    page = tmp_path / "page.html"
    assert main(["look", str(models / "writer"), "the cat", "--new-tokens", "3", "-o", str(page)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{page}\n"
    assert "Loading" in err and "Writing up to 3" in err and "Done: GenerationExplorer" in err
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and "writer: rollout" in text
    assert str(models) not in text, "the page is sent to others: it does not say where the folder lies"


def test_the_page_has_the_rollout_of_what_the_model_writes(models) -> None:
    seen = look(str(models / "writer"), "the cat", new_tokens=4, say=quiet)
    explorer = seen.explorer
    assert isinstance(explorer, GenerationExplorer)
    assert [each["label"] for each in explorer.items] == ["rollout", "rollout over null"]
    model, tokenizer = load_language_model(str(models / "writer"))
    ids = tokenizer("the cat", return_tensors="pt")["input_ids"]
    result = generate_with_rollout(model, ids, 4, tokenizer=tokenizer, do_sample=False)
    direct = GenerationExplorer.of(result, tokenizer)
    assert explorer.items[0] | {"label": ""} == direct.items[0]
    assert explorer.weights.startswith(direct.weights)


@pytest.mark.parametrize("method", ROLLOUTS)
def test_every_variant_of_rollout_is_shown_first_if_asked(models, method: str) -> None:
    explorer = look(str(models / "writer"), "the cat", method, 2, say=quiet).explorer
    assert explorer.items[explorer.item]["label"] == method


def test_another_measure_asks_a_question_per_written_token(models, monkeypatch) -> None:
    asked = []

    def spied(model, input_ids, **options):
        asked.append((input_ids, options["target"]))
        return METHODS["gradient norm"](model, input_ids, **options)

    monkeypatch.setitem(METHODS, "blank-out", spied)
    explorer = look(str(models / "writer"), "the cat", "blank-out", 3, say=quiet).explorer
    assert isinstance(explorer, MeasureExplorer) and explorer.first == "blank-out"
    assert explorer.names == ["blank-out", "rollout", "mean attention", "raw attention, last layer"]
    assert len(explorer.items) == 3 == len(asked)
    model, _ = load_language_model(str(models / "writer"))
    for (ids, target), shown in zip(asked, explorer.items, strict=True):
        assert model(ids).logits[0, -1].argmax() == target, "the likeliest token is what is asked about"
        assert len(shown["tokens"]) == ids.shape[1] and shown["query"] == ids.shape[1] - 1
        assert shown["truth"] is None and shown["missing"] == {}


def test_tokens_that_a_measure_leaves_out_are_no_candidates(models) -> None:
    model, tokenizer = load_language_model(str(models / "writer"))
    ids = tokenizer("the cat", return_tensors="pt")["input_ids"]
    scores = attribute(model, ids, method="blank-out")
    assert torch.isnan(scores[-1]) and torch.isfinite(scores[:-1]).all()
    shown = look(str(models / "writer"), "the cat", "blank-out", 1, say=quiet).explorer.items[0]
    assert shown["candidates"] == list(range(ids.shape[1] - 1))


def test_a_model_that_came_with_the_book_is_computed_in_the_page(tmp_path) -> None:
    explorer = look("rasp_languages/sort", "cabbage", say=quiet).explorer
    assert isinstance(explorer, ModelExplorer) and explorer.text == "cabbage"


def test_what_cannot_be_done_is_said_in_a_line(models, tmp_path, capsys) -> None:
    writer, there = str(models / "writer"), ("-o", str(tmp_path / "page.html"))
    said = refusal(capsys, writer, "a", "--method", "rolout", *there)
    assert "no method 'rolout'; did you mean 'rollout'? There are" in said and "; blank-out;" in said
    assert "there is no folder ./nowhere" in refusal(capsys, "./nowhere", "a", *there)
    assert "no config.json" in refusal(capsys, str(models), "a", *there)
    assert "is no folder, is not in Hugging Face's cache" in refusal(capsys, "nobody/nothing", "a", *there)
    assert "the prompt is empty" in refusal(capsys, writer, " ", *there)
    assert "at least one token" in refusal(capsys, writer, "a", "--new-tokens", "0", *there)
    assert "more than the model's context of 64" in refusal(capsys, writer, "a", "--new-tokens", "99", *there)
    assert "no chat template" in refusal(capsys, writer, "a", "--chat", *there)
    assert "has no place" in refusal(capsys, writer, "a", "--method", "activation patching", *there)
    assert "there is no method ''" in refusal(capsys, writer, "a", "--method", "", *there)
    assert "it is an encoder" in refusal(capsys, str(models / "encoder"), "the cat", *there)
    assert "by recurrence" in refusal(capsys, str(models / "recurrent"), "the cat", *there)
    assert "did you mean 'sort'?" in refusal(capsys, "rasp_languages/sortt", "abc", *there)
    for more in (["--method", "rollout"], ["--new-tokens", "0"]):
        assert "are for language models" in refusal(capsys, "rasp_languages/sort", "abc", *more)
    assert "'A', 'B'" in refusal(capsys, "rasp_languages/sort", "AB", *there)
    assert "there is no folder ~nouser/x" in refusal(capsys, "~nouser/x", "a", *there)
    assert "there is no folder ~nouser/x" in refusal(capsys, "~nouser/x", "a", "--live", *there)
    assert len(refusal(capsys, "x" * 5000, "a", *there)) < 2100
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("\udcff", "a"), "model"),
        (("writer", "a\udcff"), "prompt"),
        (("writer", "a", "--continuation", "\udcff"), "continuation"),
        (("writer", "a", "--span", "\udcff"), "span"),
        (("writer", "a", "--method", "\udcff"), "method"),
        (("writer", "a", "-o", "\udcff"), "output"),
    ],
)
def test_bytes_that_are_no_text_are_refused(capsys, arguments, what) -> None:
    assert f"the {what} should be text in UTF-8; its character" in refusal(capsys, *arguments)


def test_a_model_whose_weights_are_no_numbers_is_refused(models, tmp_path, capsys) -> None:
    model = GPT2LMHeadModel.from_pretrained(models / "writer")
    model.transformer.wte.weight.data[0] = torch.nan
    for saved in (model, char_tokenizer()):
        saved.save_pretrained(tmp_path / "nan")
    for method in ("rollout", "blank-out"):
        said = refusal(capsys, str(tmp_path / "nan"), "a", "--method", method, "-o", str(tmp_path / "p.html"))
        assert "computes what is no number" in said


def test_stopped_it_leaves_nothing_and_says_so(models, tmp_path, capsys, monkeypatch) -> None:
    def stopped(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlib.commands.looking.generate_with_rollout", stopped)
    assert main(["look", str(models / "writer"), "a", "-o", str(tmp_path / "page.html")]) == 130
    assert "stopped; nothing was written" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_a_real_model_is_shown_from_a_shell(tmp_path) -> None:
    command = [sys.executable, "-m", "attnlib", "look", str(trained_model()), "Once upon a time"]
    done = subprocess.run(
        [*command, "--new-tokens", "5"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "look.html\n"
    assert "Once" in (tmp_path / "look.html").read_text()


def test_a_full_disk_leaves_the_older_page_whole(tmp_path, monkeypatch) -> None:
    page = tmp_path / "page.html"
    page.write_text("older")
    explorer = GenerationExplorer(["a"], ["b"], torch.ones(1, 1, 1))
    opened = Path.open

    def full(self, mode="r", *rest, **how):
        file = opened(self, mode, *rest, **how)
        if "w" not in mode:
            return file
        file.write("<!DOC" if "b" not in mode else b"<!DOC")
        file.close()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    for write in (lambda: Seen(explorer, "T", "note").save(page), lambda: explorer.save_html(page)):
        with pytest.raises(CheckpointError, match=r"No space left .* previous version is intact"):
            write()
        assert page.read_text() == "older" and list(tmp_path.iterdir()) == [page]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("{}/no/page.html", "there is no folder"),
        ("{}", "is a folder"),
        ("/proc/self/look.html", "cannot be written into /proc/self"),
        ("/dev/null", "is no file that a page"),
    ],
)
def test_where_no_page_can_be_written_is_said_before_the_work(
    monkeypatch, tmp_path, capsys, place, reason
) -> None:
    monkeypatch.setattr("attnlib.commands.look", lambda *given, **how: pytest.fail("worked first"))
    assert reason in refusal(capsys, "any", "text", "-o", place.format(tmp_path))


@pytest.mark.parametrize("method", ["rollout", "mean attention"])
def test_words_that_are_given_take_the_place_of_the_models(models, method, tmp_path, capsys) -> None:
    seen = look(str(models / "writer"), "the cat", method, continuation=" sat", say=quiet)
    assert "its continuation was given" in seen.note
    if isinstance(seen.explorer, GenerationExplorer):
        model, tokenizer = load_language_model(str(models / "writer"))
        ids, forced = continued("the cat", " sat", tokenizer)
        result = generate_with_rollout(model, ids, continuation=forced, tokenizer=tokenizer)
        expected = GenerationExplorer.of(
            {"rollout": result, "rollout over null": result.over_null()}, tokenizer
        )
        assert seen.explorer.items == expected.items
    else:
        assert len(seen.explorer.items) == len(" sat")
    page = str(tmp_path / "page.html")
    assert main(["look", str(models / "writer"), "a", "--continuation", " b", "-o", page]) == 0
    capsys.readouterr()
    both = ("--continuation", " b", "--new-tokens", "3", "-o", page)
    assert "leave out --new-tokens" in refusal(capsys, str(models / "writer"), "a", *both)
    assert "at least one character" in refusal(
        capsys, str(models / "writer"), "a", "--continuation", "", "-o", page
    )


def test_a_span_is_asked_about_as_a_whole_first(models, tmp_path, capsys) -> None:
    writer = str(models / "writer")
    seen = look(writer, "the cat", "gradient x embedding", continuation=" sat on it", span="at on", say=quiet)
    labels = [item["label"] for item in seen.explorer.items]
    assert labels[:2] == ["'at on', as a whole", "'at on', through what was written before it"]
    assert len(labels) == 2 + len(" sat on it")
    whole, through = seen.explorer.items[:2]
    assert "".join(whole["tokens"]) == "<bos>the cat s" and "".join(through["tokens"]) == "<bos>the cat"
    assert whole["predicted"] == through["predicted"] == "at on"
    page = str(tmp_path / "page.html")
    asked = (writer, "the cat", "--continuation", " sat", "-o", page, "--span")
    assert main(["look", *asked, "at"]) == 0  # rollout, too
    assert "as a whole" in Path(page).read_text()
    capsys.readouterr()
    assert "should be a part of what was written, ' sat'; got 'dog'" in refusal(capsys, *asked, "dog")


@pytest.mark.parametrize(
    ("span", "place"), [("a", (0, 1)), (" dog", (1, 3)), ("o", (2, 3)), ("do", (1, 3)), ("ag", (3, 5))]
)
def test_the_tokens_of_a_span_are_those_that_hold_any_of_it(span, place) -> None:
    words = ["a cat", " d", "og", " wa", "gs"]
    first, stop = tokens_of(span, words, start=10)
    assert (first - 10, stop - 10) == place

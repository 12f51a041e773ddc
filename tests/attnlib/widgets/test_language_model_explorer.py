"""What the page of a language model explorer holds: its file, prompts, what was recorded, markup as text."""

import base64
import gzip
import hashlib
import re
from dataclasses import asdict
from pathlib import Path

import torch

from attnlib.models.pretrained import load_language_model
from attnlib.rollout import generate_with_rollout
from attnlib.widgets import LanguageModelExplorer
from attnlib.widgets.language_model_explorer import BOOK, PIECE, ModelFile, Trial, packed
from tests.explorers import HOSTILE, is_harmless, state_of
from tests.pretrained import books_file


def test_its_state_is_what_the_page_needs() -> None:
    trials = [Trial("one", "The sky", " is", word="is", note="Look."), Trial("two", "Rome", chat=True)]
    explorer = LanguageModelExplorer(trials=trials, title="T")
    state = state_of(explorer.to_html())
    assert state["asked"] == "" and state["items"] == []
    assert state["file"] == {**BOOK._asdict(), "inside": False}
    assert state["trials"] == [asdict(trial) for trial in trials]
    assert "the" in state["ignore"] and "LiveModel" in explorer._esm
    assert repr(explorer) == "LanguageModelExplorer 'T': SmolLM2-135M-Instruct, 98 MB, nothing recorded"


def test_what_was_recorded_is_shown_without_a_model() -> None:
    model, tokenizer = load_language_model("tiny-random")
    result = generate_with_rollout(
        model, tokenizer("The sky", return_tensors="pt")["input_ids"], 3, tokenizer=tokenizer
    )
    explorer = LanguageModelExplorer({"rollout": result, "over null": result.over_null()}, tokenizer)
    assert [item["label"] for item in explorer.items] == ["rollout", "over null"]
    assert explorer.items[0]["shape"] == list(result.matrix.shape)
    explorer.generated = 40  # a word of the reader's own text, which is longer
    assert [*explorer.addressed] == ["colours", "filtered", "generated", "item", "key", "layer"]


def test_markup_in_prompts_is_text() -> None:
    trials = [Trial(text, text, text, note=text) for text in HOSTILE]
    assert is_harmless(LanguageModelExplorer(trials=trials, title="</script><b>").to_html())


def test_a_file_inside_a_page_comes_out_as_it_was(tmp_path: Path) -> None:
    content = (
        torch.randint(256, (PIECE,), dtype=torch.uint8).numpy().tobytes()
    )  # more than one piece in base64
    path = tmp_path / "own.Q8_0.gguf"
    path.write_bytes(content)
    explorer = LanguageModelExplorer(file=ModelFile.of(path), inside=path)
    file = ModelFile("own", "own.Q8_0.gguf", PIECE, hashlib.sha256(content).hexdigest())
    assert explorer.file == file._asdict() | {"inside": True}
    pieces = re.findall(r'<script type="text/x-attnlib-model">([^<]+)</script>', explorer.to_html())
    assert pieces == re.findall(">([^<]+)<", "".join(packed(path))) and len(pieces) == 2
    assert gzip.decompress(b"".join(base64.b64decode(piece) for piece in pieces)) == content


def test_the_books_file_is_the_one_that_is_fetched() -> None:
    assert ModelFile.of(books_file(), BOOK.name)._replace(file=BOOK.file) == BOOK

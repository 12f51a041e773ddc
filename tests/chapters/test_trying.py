"""Stored models to try: which of them a page has room for, and what they are asked."""

from types import SimpleNamespace

import pytest
import torch

from attnlib.generators import rasp
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.stored import stored_models
from attnlib.widgets import ModelExplorer
from book.chapters.trying import EXAMPLES, ROOM, text_for, texts_for, to_try, why_not


def kept(name, language=None, max_length=31, bos=True, alphabet_size=10):
    torch.manual_seed(0)
    task = rasp.language(language or name.partition(",")[0], alphabet_size, bos)
    sizes = {"n_layers": 1, "n_heads": 1, "width": 8, "max_length": max_length}
    model = Transformer(TransformerConfig(len(task.tokenizer), len(task.classes), **sizes)).eval()
    return SimpleNamespace(name=name, model=model, task=task, note=f"note of {name}")


def stored(*names):
    return {name: kept(name) for name in names}


ALL = stored("dyck1_ptf", "hist, supervised", "reverse", "sort", "sort, supervised", "hist2, supervised")


def weights(name):
    return sum(weight.numel() for weight in ALL[name].model.parameters())


def test_the_chapters_language_comes_first_then_one_of_each_then_the_others():
    found = to_try(ALL, "sort")
    others = ["reverse", "hist, supervised", "hist2, supervised", "dyck1_ptf"]
    assert list(found.models) == ["sort, supervised", *others, "sort"]
    assert found.left_out == []
    assert next(iter(to_try(ALL, "dyck1_ptf").models)) == "dyck1_ptf"
    assert next(iter(to_try(ALL, "sort_by_freq").models)) == "reverse"  # none of that one is stored
    assert ModelExplorer(found.models).text == "cabbage"


def test_what_there_is_no_room_for_is_named_and_what_is_smaller_still_fits():
    room = weights("sort") + weights("reverse") + weights("hist, supervised")
    found = to_try(ALL, "sort", room=room)
    assert list(found.models) == ["sort, supervised", "reverse", "hist, supervised"]
    assert found.left_out == ["hist2, supervised", "dyck1_ptf", "sort"]
    assert weights("dyck1_ptf") < weights("hist2, supervised")
    found = to_try(ALL, "sort", room=room + weights("dyck1_ptf"))
    assert list(found.models)[-1] == "dyck1_ptf" and found.left_out == ["hist2, supervised", "sort"]
    assert list(to_try(ALL, "sort", room=0).models) == ["sort, supervised"]
    assert found.note.startswith("The explorer leaves out hist2, s")
    assert to_try(ALL, "sort").note == ""


def test_the_stored_models_of_the_chapter_fit_into_its_page():
    """The limit of the page as a whole is tested with the book."""
    found = to_try(stored_models("rasp_languages"), "sort")
    assert found.models and len(ModelExplorer(found.models).to_html()) < 2.4 * ROOM + 120_000


def test_a_text_is_offered_where_it_can_be_asked():
    assert texts_for(ALL["sort"], "badge") == ["badge", *EXAMPLES]
    assert texts_for(ALL["sort"], "cabbage") == texts_for(ALL["sort"]) == texts_for(ALL["sort"], "xyz")
    drawn = texts_for(ALL["dyck1_ptf"], "cabbage")
    assert len(drawn) == 2 and all(set(text) <= set("()a") for text in drawn)
    assert texts_for(ALL["dyck1_ptf"], "(a)(()") == ["(a)(()", *drawn]
    assert all(len(text) <= 4 for text in texts_for(kept("dyck1_ptf", max_length=5)))
    short = kept("sort", max_length=9, bos=False)
    assert texts_for(short, "a" * 10) == ["cabbage"]
    assert text_for(ALL["sort"], "abcde") == ("abcde", "")  # without a word
    assert text_for(ALL["sort"]) == ("cabbage", "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("xyz", "sort is written with the symbols 'abcdefghij'; 'xyz' has 'x', 'y', 'z'"),
        ("a" * 31, f"{'a' * 31!r} has 32 tokens, and this model was built for at most max_length=31"),
    ],
)
def test_a_text_that_cannot_be_asked_is_refused_in_words(text, why):
    own, said = text_for(ALL["sort"], text)
    assert own == "cabbage"
    assert said.startswith(f"The stored model 'sort' cannot read {text!r}: {why}")
    assert said.endswith(". Shown is 'cabbage'.") and "\n" not in said
    assert why_not(ALL["sort"], "") == "sort is written with the symbols 'abcdefghij'; the text is empty"

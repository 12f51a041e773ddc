"""The explorer of models in the page without a browser: what it refuses, and what it packs."""

import numpy as np
import pytest
import torch
import traitlets
from torch import nn

from attnlib.generators import rasp
from attnlib.generators.algorithmic import StringReversalGenerator
from attnlib.generators.arithmetic import arithmetic
from attnlib.generators.tokenizer import char_tokenizer
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.stored import stored_models
from attnlib.widgets import ModelExplorer
from tests.explorers import raw, state_of

SORT = rasp.language("sort", 10, bos=True)


def transformer(task=SORT, half=False, **settings):
    torch.manual_seed(0)
    classes = len(task.classes) if isinstance(task, rasp.Language) else None
    sizes = {"n_layers": 2, "n_heads": 2, "width": 8, "max_length": 12, **settings}
    model = Transformer(TransformerConfig(len(task.tokenizer), classes, **sizes)).eval()
    if half:
        for weight in model.state_dict().values():
            weight.copy_(weight.half().float())
    return model


def parts(**changes):
    return {"model": transformer(), "task": SORT, "texts": ["cabbage", "bad"], **changes}


def explorer(**settings):
    return ModelExplorer({"sort": parts()}, **settings)


def test_it_opens_at_the_head_that_looks_hardest_at_one_token():
    kept = stored_models("rasp_languages")["sort, supervised"]
    shown = {"sort": {"model": kept.model, "task": kept.task, "texts": ["cabbage", "b"]}}
    assert ModelExplorer(shown).layer == 1, "where it finds the symbol of a place; before, it counts"
    assert ModelExplorer(shown, head=0).layer == 0
    assert ModelExplorer(shown, text="b").head == 0


def unpacked(widget, index=0):
    """The weights by name, as the front end reads them."""
    example = widget.items[index]
    kind = np.dtype(np.float16 if example["half"] else np.float32)
    stacked = raw(widget, index).reshape(kind.itemsize, -1).T
    numbers = np.ascontiguousarray(stacked).view(kind)[:, 0]
    ends = np.cumsum([size for _, size in example["tensors"]])
    return {
        name: part for (name, _), part in zip(example["tensors"], np.split(numbers, ends[:-1]), strict=True)
    }


def test_lines_are_on_heads_that_there_are():
    line = {"heads": {"L1H0": "reads \u202e"}}
    assert ModelExplorer({"sort": parts(**line)}).items[0]["heads"] == {"L1H0": "reads U+202E"}


@pytest.mark.parametrize("half", [True, False])
def test_weights_travel_without_loss_and_in_half_precision_where_that_loses_none(half):
    model = transformer(half=half)
    widget = ModelExplorer({"other": parts(), "sort": parts(model=model)}, item=1)
    assert widget.items[1]["half"] is half
    found = unpacked(widget, 1)
    assert list(found) == list(model.state_dict())
    for name, weight in model.state_dict().items():
        assert (found[name].astype(np.float32) == weight.flatten().numpy()).all()


def test_what_the_page_needs_of_a_language_is_there():
    task = explorer().items[0]["task"]
    ids = SORT.annotate("ab").input_ids.tolist()
    assert [task["bos"], task["first"], task["first"] + 1] == ids
    assert task["classes"] == list(SORT.classes) and task["program"] == "sort"
    assert task["texts"] == [{"text": "cabbage"}, {"text": "bad"}]


def test_a_language_of_your_own_brings_what_is_right_of_its_texts():
    own = rasp.Definition("sort", "mine", lambda s: s.symbols, heads=rasp.LANGUAGES["hist"].heads)
    task = rasp.language(own, 10, bos=True)
    told = ModelExplorer({"mine": parts(task=task, texts=["ba"])}).items[0]["task"]
    assert told["program"] is None
    assert told["texts"] == [{"text": "ba", "right": ["b", "a"], "targets": {"L0H0": "100110101"}}]


def test_it_begins_with_the_first_text_and_what_is_shown_can_be_set():
    widget = explorer(title="T")
    assert (widget.text, widget.swaps, repr(widget)) == ("cabbage", {}, "ModelExplorer 'T': 1 model, sort")
    widget = explorer(text="fee", layer=1, head=-1, swaps={"L1H0": "even"})
    assert (widget.text, widget.layer, widget.head, widget.swaps) == ("fee", 1, -1, {"L1H0": "even"})
    assert state_of(widget.to_html())["swaps"] == {"L1H0": "even"}


ADDS = arithmetic("+", (1, 99))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": nn.Linear(2, 2)}, r"model 'sort': the page computes an attnlib.* Linear"),
        ({"model": transformer(positions="rotary")}, r"model's are rotary.*AttentionExplorer"),
        ({"heads": {"L2H0": "reads"}}, "model 'sort': heads must be one of"),
        ({"task": rasp.language("sort", 26)}, r"reads 14 ids and scores 10 classes, but sort has 30 and 26"),
        ({"texts": "cab"}, "texts must be a list"),
        ({"texts": ["cab", "cabz"]}, "model 'sort': sort is written with the symbols .*'cabz' has 'z'"),
        ({"texts": [""]}, "the text is empty"),
        ({"texts": ["a" * 12]}, "has 13 tokens, and this model was built for at most max_length=12"),
        ({"words": []}, "must hold model, task and texts, and may hold note"),
    ],
)
def test_what_is_wrong_is_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        ModelExplorer({"sort": parts(**changes)})


def test_weights_that_are_not_finite_are_refused():
    model = transformer()
    with torch.no_grad():
        model.classify.bias[0] = torch.nan
    with pytest.raises(ValueError, match=r"weights must be finite; .*classify\.bias"):
        ModelExplorer({"sort": parts(model=model)})


def test_a_text_that_cannot_be_asked_at_first_is_refused():
    for given, fragment in ({"text": "x"}, "sort is written with"), ({"first": "strength"}, "^first must"):
        with pytest.raises(ValueError, match=fragment):
            explorer(**given)
    model = transformer(ADDS, causal=True)
    adding = {"adds": {"model": model, "task": ADDS, "texts": ["58+67", "1+2="]}}
    assert ModelExplorer(adding, text="3+4").text == "3+4"
    assert [each["text"] for each in ModelExplorer(adding).items[0]["task"]["texts"]] == ["58+67", "1+2"]
    with pytest.raises(ValueError, match=r"model 'adds': '58=' is not a problem of this task"):
        ModelExplorer(adding, text="58")


def reversal(**settings):
    return StringReversalGenerator(tokenizer=char_tokenizer(), **settings)


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        (reversal(), "a-b", "string reversal"),
        (reversal(), "a" * 41, "has 41 symbols; the page reverses at most 40"),
        (reversal(), "a" * 30, "has 62 tokens, and this model was built for at most max_length=60"),
        (reversal(use_instruction=True), "abc", "strings must be without instruction"),
    ],
)
def test_a_string_that_cannot_be_reversed_in_the_page_is_refused(task, text, message):
    model = transformer(task, causal=True, max_length=60)
    with pytest.raises(ValueError, match=message):
        ModelExplorer({"reverses": {"model": model, "task": task, "texts": [text]}})


@pytest.mark.parametrize(("head", "swap"), [("L2H0", "even"), ("L0H0", "mine")])
def test_what_does_not_exist_cannot_be_swapped(head, swap):
    with pytest.raises(traitlets.TraitError):
        explorer(swaps={head: swap})


def test_only_models_that_reverse_strings_can_have_the_slider_first():
    with pytest.raises(ValueError, match="first must be strength for string reversal only"):
        ModelExplorer({"sort": parts()}, first="strength")

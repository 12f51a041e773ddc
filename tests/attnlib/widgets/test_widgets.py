"""The explorers without a browser: what they refuse, how they store weights, and what the page holds."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib.widgets import AttentionExplorer
from attnlib.widgets.encoding import dequantise, quantise
from attnlib.widgets.static import StaticTwin
from tests.explorers import HOSTILE, is_harmless, raw, state_of


def attention(layers: int = 2, heads: int = 3, queries: int = 4, keys: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.softmax(torch.randn(layers, heads, queries, keys, generator=generator), dim=-1)


# ---- storing


@given(st.floats(0, 1))
def test_a_stored_weight_is_off_by_no_more_than_promised(weight):
    stored = dequantise(quantise(np.array([weight])))[0]
    assert abs(stored - weight) <= np.sqrt(weight) / 255 + 1 / 255**2
    assert (stored == 0) == (weight == 0)


def test_every_byte_survives_a_round_trip():
    steps = np.arange(256, dtype=np.uint8)
    assert (quantise(dequantise(steps)) == steps).all()


@pytest.mark.parametrize(
    "convert", [torch.Tensor.numpy, torch.Tensor.double, torch.Tensor.bfloat16, torch.Tensor.requires_grad_]
)
def test_arrays_of_any_kind_are_accepted(convert):
    explorer = AttentionExplorer(list("abcd"), convert(attention()))
    stored = dequantise(raw(explorer)).reshape(2, 3, 4, 4)
    assert np.abs(stored - attention().numpy()).max() < 0.008  # bfloat16 itself rounds to 1/256


def test_equal_references_are_stored_once_and_found_again():
    one, other = torch.eye(4).bool(), torch.eye(4).flip(0).bool()
    references = {(0, 1): one, (0, 2): other, (1, 0): one}
    explorer = AttentionExplorer(list("abcd"), attention(), references=references)
    assert explorer.items[0]["mask_of"] == [[-1, 0, 1], [0, -1, -1]]
    masks = np.unpackbits(np.frombuffer(explorer.masks, np.uint8)).reshape(2, 4, 4)
    assert (masks == np.stack([one, other])).all()


# ---- refusing


def broken(place, value):
    weights = attention()
    weights[place] = value
    return weights


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({"tokens": list("abc")}, "attentions"),
        ({"tokens": "abcd"}, "tokens"),
        ({"tokens": []}, "tokens"),
        ({"attentions": attention()[0]}, "attentions"),
        ({"attentions": attention()[:, :0]}, "attentions"),
        ({"attentions": broken((1, 2, 3, 0), float("nan"))}, "attentions"),
        ({"attentions": broken((0, 0, 0, 0), 1.5)}, "attentions"),
        ({"attentions": broken((0, 0, 0, 0), -0.2)}, "attentions"),
        ({"references": torch.eye(4)}, "the reference of layer 0, head 0"),
        ({"references": {(0, 3): torch.eye(4).bool()}}, "references"),
    ],
)
def test_input_that_cannot_be_shown_is_refused(parts, name):
    valid = {"tokens": list("abcd"), "attentions": attention()}
    with pytest.raises(ValueError, match=f"^{name} must "):
        AttentionExplorer(**(valid | parts))


def test_what_rounding_leaves_outside_the_range_is_accepted():
    explorer = AttentionExplorer(list("abcd"), broken((0, 0, 0, 0), 1 + 1e-6))
    assert raw(explorer)[0] == 255


@pytest.mark.parametrize(
    ("examples", "name"),
    [
        ({}, "examples must"),
        ({"a": {"tokens": ["x"], "attentions": attention(), "reference": None}}, "example 'a' must"),
        ({"a": {"tokens": ["x"], "attentions": attention()}}, "example 'a': attentions must"),
    ],
)
def test_an_example_that_cannot_be_shown_is_named(examples, name):
    with pytest.raises(ValueError, match=f"^{name} "):
        AttentionExplorer.from_examples(examples)


# ---- several examples


def two_examples(**settings) -> AttentionExplorer:
    return AttentionExplorer.from_examples(
        {
            "long": {"tokens": list("abcd"), "attentions": attention()},
            "short": {"tokens": list("ab"), "attentions": attention(1, 2, 3, 2), "query_tokens": list("xyz")},
        },
        **settings,
    )


def test_examples_of_different_sizes_lie_one_after_the_other():
    explorer = two_examples()
    assert [example["shape"] for example in explorer.items] == [[1, 2, 3, 4, 4], [1, 1, 2, 3, 2]]
    assert (raw(explorer, 1) == quantise(attention(1, 2, 3, 2).numpy()).ravel()).all()


def test_a_smaller_example_keeps_layer_head_and_query_within_it():
    explorer = two_examples(layer=1, head=2, query=3)
    explorer.item = 1
    assert (explorer.layer, explorer.head, explorer.query) == (0, 1, -1)


def test_it_opens_where_a_head_looks_most_at_its_reference():
    weights = attention(2, 3, 5, 5)
    weights[1, 2] = torch.eye(5).roll(1, 1)
    weights[1, 2, 3] = 0.2
    reference = torch.eye(5).roll(1, 1).bool()
    reference[0] = False  # a query that is not asked
    opened = AttentionExplorer(list("abcde"), weights, references=reference)
    assert (opened.layer, opened.head, opened.query) == (1, 2, 1)
    one = AttentionExplorer(list("abcde"), weights, references={(0, 1): reference})
    assert (one.layer, one.head) == (0, 1) and one.query > 0
    for chosen in ({"layer": 0}, {"head": 0}, {"query": -1}):
        plain = AttentionExplorer(list("abcde"), weights, references=reference, **chosen)
        assert (plain.layer, plain.head, plain.query) == (0, 0, -1)
    without = AttentionExplorer(list("abcde"), weights)
    assert (without.layer, without.head, without.query) == (0, 0, -1)


def test_the_summary_tells_the_sizes():
    assert repr(two_examples(title="T")) == (
        "AttentionExplorer 'T': 4 tokens, 2 layers x 3 heads, 2 examples"
    )


# ---- the page


def test_no_token_can_end_the_script_or_open_a_tag():
    tokens = [*HOSTILE, "'\"`\\"]
    page = AttentionExplorer(tokens, attention(1, 1, 5, 5), title="</script><b>").to_html()
    assert is_harmless(page)
    assert state_of(page)["items"][0]["tokens"] == tokens


def test_a_lone_surrogate_can_be_saved(tmp_path):
    explorer = AttentionExplorer(["\ud83d", "é"], attention(1, 1, 2, 2))
    explorer.save_html(tmp_path / "page.html")


def test_sixty_tokens_in_four_layers_of_eight_heads_stay_under_300_kb(tmp_path):
    references = {(layer, head): torch.rand(60, 60) > 0.5 for layer in range(4) for head in range(8)}
    explorer = AttentionExplorer(["token"] * 60, attention(4, 8, 60, 60), references=references)
    assert explorer.save_html(tmp_path / "page.html").stat().st_size < 300_000


def test_a_notebook_gets_the_live_view_and_the_static_twin():
    explorer = AttentionExplorer(list("abcd"), attention())
    data, _ = explorer._repr_mimebundle_()
    assert data["text/html"] == explorer.to_html()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == "AttentionExplorer: 4 tokens, 2 layers x 3 heads"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u202egnp.exe", "U+202Egnp.exe"),
        ("a\u2066b\u2069\0", "aU+2066bU+2069U+0000"),
        ("\ud800", "U+D800"),
        ("keys, عربي, 👩\u200d🔬", "keys, عربي, 👩\u200d🔬"),
    ],
)
def test_titles_and_labels_turn_no_text_around(text, shown):
    examples = {text: {"tokens": list("abcd"), "attentions": attention()}}
    explorer = AttentionExplorer.from_examples(examples, title=text)
    assert explorer.title == shown and explorer.items[0]["label"] == shown
    assert shown in state_of(explorer.to_html())["title"]
    explorer.title = f"{text}: again"
    assert explorer.title == f"{shown}: again"


@pytest.mark.parametrize("source", ["function render() {}", "'</script>';\nexport default { render };\n"])
def test_a_front_end_that_would_break_the_page_is_refused(source):
    class Broken(StaticTwin):
        _esm, _css = source, ""

        def _state(self):
            return {}

    with pytest.raises(ValueError, match=r"^the front end must "):
        Broken().to_html()

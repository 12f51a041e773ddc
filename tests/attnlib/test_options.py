"""Options of another kind than they should be are refused in words by every verb, before anything is done."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import attnlib
from attnlib.attribution import METHODS, attribute, attributions, span_attributions
from attnlib.generators.prompts import continued, encode
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import causal_null, heads_ablated, reinforced
from attnlib.models.pretrained import load_language_model
from attnlib.options import KINDS
from attnlib.rollout import (
    attention_flow,
    generate_with_rollout,
    rollout,
    rollout_of,
    stream_with_rollout,
    uniform_causal_rollout,
)

BAD = {
    "int": [None, "3", 2.5, [1], True, float("nan"), np.array([1.5])],
    "float": [None, "3", [1.0], object(), np.array([1.5])],
    "bool": [None, "yes", 2],
    "str": [None, 3, ["a"]],
    "torch.dtype": [None, "float32"],
}

VERBS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        *(
            attribute,
            attributions,
            span_attributions,
            continued,
            encode,
            causal_null,
            heads_ablated,
            reinforced,
        ),
        *(load_language_model, attention_flow, generate_with_rollout, rollout, rollout_of),
        *(stream_with_rollout, uniform_causal_rollout),
    )
} | {f"METHODS[{name!r}]": method for name, method in METHODS.items()}


def plain(verb: Callable[..., Any]) -> dict[str, list[str]]:
    """The options of a verb with an annotation of plain types; of a measure, its own."""
    parameters = inspect.signature(verb).parameters.values()
    if verb in METHODS.values():
        parameters = [each for each in parameters if each.kind == each.KEYWORD_ONLY]
    named = {each.name: str(each.annotation).split(" | ") for each in parameters}
    return {name: parts for name, parts in named.items() if all(part in KINDS for part in parts)}


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("name", VERBS)
def test_options_of_another_kind_are_refused_in_words(name: str) -> None:
    verb, ids = VERBS[name], torch.tensor([[5, 6, 7]])
    model = Transformer(TransformerConfig(9, causal=True))
    good = {
        "model": model,
        "input_ids": ids,
        "methods": "rollout",
        "attentions": torch.eye(3).expand(1, 1, 1, 3, 3),
    }
    good |= {"span": (1, 2), "heads": [], "reference": torch.ones(1, 3, 3, dtype=torch.bool), "strength": 0.5}
    good |= {"text": "a", "continuation": "b", "tokenizer": None, "n": 3, "layers": 1, "max_new_tokens": 1}
    good = {each: value for each, value in good.items() if each in inspect.signature(verb).parameters}
    if verb in METHODS.values():
        good = {"model": model, "input_ids": ids, "counterfactual": ids}
    for option, parts in plain(verb).items():
        bad = [value for value in BAD[parts[0]] if not any(KINDS[part][1](value) for part in parts)]
        assert bad
        for value in bad:
            with pytest.raises(ValueError, match=f"^{option} must be"):
                verb(**good | {option: value})


def test_kinds_take_what_they_should() -> None:
    for kind, values in {
        "int": [0, np.int64(3), torch.tensor(2)],
        "float": [0, 0.5, np.float32(1), torch.tensor(0.5), float("inf")],
        "bool": [True, np.bool_(False)],
        "str": ["", "a"],
        "torch.dtype": [torch.float16],
        "None": [None],
    }.items():
        assert all(KINDS[kind][1](value) for value in values)


@pytest.mark.usefixtures("without_type_checks")
def test_what_is_not_iterated_and_no_tensors_are_refused_in_words() -> None:
    model, ids = Transformer(TransformerConfig(9, causal=True)), torch.tensor([[5, 6, 7]])
    looks = torch.ones(1, 3, 3)
    refused: dict[Callable[[], Any], str] = {
        lambda: attributions(model, ids, None): "methods must be",
        lambda: attribute(model, ids[None]): "input_ids must be one prompt",
        lambda: attribute(model, ids, counterfactual=ids[None]): "counterfactual must be",
        lambda: attribute(model, ids[0], counterfactual=ids.repeat(2, 1)): "counterfactual must",
        lambda: span_attributions(model, None, (1, 2), "rollout"): "input_ids must be one text",
        lambda: rollout(3): "attentions must be a tensor",
        lambda: reinforced(model, None, looks, 0.5).__enter__(): r"\[batch query key\]; got torch.float32 of",
        lambda: causal_null(looks[0] > 0): r"got torch.bool of shape \(3, 3\)",
        lambda: attnlib.language(3): "language must be one of",
    }
    for ask, said in refused.items():
        with pytest.raises(ValueError, match=said):
            ask()

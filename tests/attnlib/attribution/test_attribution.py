"""Measures of attribution: what all of them promise, and each against what it is defined as, the long way."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import transformers as hf

from attnlib.attribution import METHODS, attribute, attributions
from attnlib.attribution.attention import one_pass, shares_a_pass
from attnlib.attribution.perturbation import activation_patching, attention_knockout, blank_out
from attnlib.attribution.prompts import Prompts
from attnlib.attribution.registry import SIGNED
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.pretrained import load_language_model
from attnlib.rollout import attention_flow, null_ratio, rollout, rollout_of, uniform_causal_rollout
from tests.attnlib.small_models import sharpened
from tests.pretrained import trained_model

N, QUERY = 11, 6
IDS = torch.randint(4, 90, (2, 19), generator=torch.Generator().manual_seed(1))[:, :N]
OTHER = IDS.clone()
OTHER[:, [1, 4, 6, 9]] = 5
SIZE = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZE |= {"intermediate_size": 48, "max_position_embeddings": 64}


def _scaled(model):
    return sharpened(model, 8).eval()  # so that attention is far from even


def _gpt2():
    torch.manual_seed(0)
    sizes = {"vocab_size": 90, "n_positions": 64, "n_embd": 32, "n_layer": 3, "n_head": 4}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, initializer_range=0.3)).eval()


def _own():
    torch.manual_seed(0)
    sizes = {"n_layers": 3, "n_heads": 4, "width": 32, "max_length": 64, "positions": "learned"}
    return Transformer(TransformerConfig(90, causal=True, dropout=0.1, **sizes)).eval()


def _encoder():
    torch.manual_seed(0)
    return _scaled(hf.BertForMaskedLM(hf.BertConfig(**SIZE)))


def _llama():
    torch.manual_seed(0)
    return _scaled(hf.LlamaForCausalLM(hf.LlamaConfig(**SIZE, num_key_value_heads=2)))


def _gemma2():
    torch.manual_seed(0)
    config = hf.Gemma2Config(**SIZE, num_key_value_heads=2, head_dim=8, sliding_window=6)
    return _scaled(hf.Gemma2ForCausalLM(config))


def _stories():
    model = load_language_model(str(trained_model()), device="cpu")[0]
    model.config.num_hidden_layers = min(5, model.config.num_hidden_layers)  # the book's own has 30
    model.model.layers = model.model.layers[: model.config.num_hidden_layers]
    return model


MODELS = {
    "own": _own,
    "llama": _llama,
    "gpt2": _gpt2,
    "gemma2": _gemma2,
}  # the last: attention of its own kind


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.fixture(params=["llama", "gpt2", "gemma2", "stories"])
def language_model(request):
    return (MODELS | {"stories": _stories})[request.param]()


def close(found, expected, atol=1e-5):
    torch.testing.assert_close(found, expected, atol=atol, rtol=1e-4, equal_nan=True)


# ---- what every measure promises: a new one is tested by standing in METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_measure_keeps_what_all_promise(model, name):
    method = partial(METHODS[name], counterfactual=OTHER)
    scores = method(model, IDS, query=QUERY)
    assert scores.shape == IDS.shape and scores.dtype == torch.float32
    assert torch.isfinite(scores[:, :QUERY]).all()  # the query itself may be NaN: what cannot be asked
    assert (scores[:, QUERY + 1 :] == 0).all() and (scores[:, :QUERY] != 0).any()
    later = IDS.clone()
    later[:, QUERY + 1 :] = 7
    close(method(model, later, query=QUERY - N), scores)
    close(attribute(model, IDS[1], query=QUERY, method=name, counterfactual=OTHER[1]), scores[1])
    seen = slice(QUERY + 1)
    close(METHODS[name](model, IDS[:, seen], counterfactual=OTHER[:, seen]), scores[:, seen])


@pytest.mark.parametrize(("make", "side"), [(_own, "left"), (_own, "right"), (_llama, "left")])
def test_padding_changes_nothing_and_scores_nothing_and_many_at_once_are_each_alone(make, side):
    model, lengths, width = make(), [9, 6, 9], N
    ids, other, mask = (torch.zeros(3, width, dtype=torch.long) for _ in range(3))
    for row, length in enumerate(lengths):
        at = slice(width - length, width) if side == "left" else slice(length)
        ids[row, at], other[row, at], mask[row, at] = IDS[row % 2, :length], OTHER[row % 2, :length], 1
    aims = {"target": torch.tensor([5, 6, 7]), "foil": 8, "counterfactual": other}
    found = attributions(model, ids, reversed(METHODS), mask.bool(), query=-2, **aims)
    assert [*found] == [*METHODS][::-1]
    for name, scores in found.items():
        assert (scores[mask == 0] == 0).all(), name
        close(METHODS[name](model, ids, mask, query=-2, **aims), scores)
        one, instead = (each[1, None, :6] for each in (IDS, OTHER))
        alone = METHODS[name](model, one, query=-2, target=6, foil=8, counterfactual=instead)
        close(scores[1, mask[1] == 1], alone[0])


def test_what_watches_attention_takes_one_pass(model):
    passes = []
    attributions(model, IDS, "rollout")  # what a model is like is found out first
    getattr(model, "base_model", model).register_forward_hook(lambda *args: passes.append(1))
    together = [name for name, method in METHODS.items() if shares_a_pass(method)]
    found = attributions(model, IDS, together)
    assert len(passes) == 1 and [*found] == together and "rollout" in together


class Echo(torch.nn.Module):
    """A model without attention: says every token again."""

    def forward(self, input_ids, attention_mask=None):
        return SimpleNamespace(logits=torch.nn.functional.one_hot(input_ids, 99).float())


def test_logits_alone_are_had_of_a_model_without_attention():
    scores, logits = one_pass(Echo(), Prompts(IDS[:1], 5), {}, logits_from=3)
    assert scores == {} and torch.equal(logits.argmax(-1), IDS[:1, 3:])


def test_a_plain_name_stands_before_its_variants():
    names = [*METHODS]
    assert min(i for i, name in enumerate(names) if "rollout" in name) == names.index("rollout")


def test_a_function_of_your_own_is_as_good():
    model = _own()

    def nearest(model, input_ids, attention_mask=None, query=-1, target=None, foil=None):
        assert attention_mask is None
        return -(torch.arange(input_ids.shape[1]) - query).abs().float().expand(input_ids.shape)

    mask = torch.ones_like(IDS)
    mask[0, :4] = 0
    expected = -(torch.arange(N) - 10).abs().float()
    assert attribute(model, IDS[:1], method=nearest).tolist() == expected.tolist()
    mixed = attributions(model, IDS, ["rollout", nearest], mask, counterfactual=OTHER)  # not for it
    assert [*mixed] == ["rollout", "nearest"]
    assert mixed["nearest"].tolist() == [[0] * 4 + expected[4:].tolist(), expected.tolist()]
    by_name = attributions(model, IDS[1], {"mine": nearest, "theirs": "rollout"})
    assert by_name["mine"].tolist() == expected.tolist()
    close(by_name["theirs"], mixed["rollout"][1])
    with pytest.raises(ValueError, match="each by a name of its own"):
        attributions(model, IDS, [nearest, nearest])
    with pytest.raises(ValueError, match=r"^scores of 'mine' must be of the shape \(2, 11\)"):
        attributions(model, IDS, {"mine": lambda model, ids, **asked: ids[:, 1:].float()})


def test_one_prompt_has_a_mask_of_its_own():
    model, mask = _own(), torch.ones_like(IDS[0])
    mask[:4] = 0
    (expected,) = attributions(model, IDS[:1], "rollout", mask[None]).values()
    for given in (mask, mask.bool(), mask[None]):
        assert torch.equal(attributions(model, IDS[0], "rollout", given)["rollout"], expected[0])


def test_targets_and_foils():
    model, ids = _own(), IDS[:1]
    with torch.no_grad():
        likeliest = int(model(input_ids=ids).logits[0, 9].argmax())
    for name in ("gradient x embedding", "blank-out"):
        of = {target: METHODS[name](model, ids, query=9, target=target) for target in (likeliest, 3)}
        close(METHODS[name](model, ids, query=9), of[likeliest])
        assert not torch.allclose(of[3][:, :9], of[likeliest][:, :9])
        difference = METHODS[name](model, ids, query=9, target=likeliest, foil=3)
        close(difference, of[likeliest] - of[3], atol=1e-4)
        close(METHODS[name](model, ids, query=9, foil=3), difference)
    close(METHODS["rollout"](model, ids, target=3), METHODS["rollout"](model, ids))


# ---- each measure is what it is defined as


def eager_attentions(model, ids):
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            return torch.stack(model(ids, output_attentions=True).attentions, 1)
    finally:
        model.set_attn_implementation(before)


def test_what_watches_attention_is_what_eager_attention_says(language_model):
    model, attention = language_model, eager_attentions(language_model, IDS)
    layers, at = attention.shape[1], {"rows": [7]}
    rolled, free = rollout(attention, **at), rollout(attention, sink=[0], **at)
    expected = {
        "raw attention, last layer": attention[:, -1].mean(1)[:, [7]],
        "mean attention": attention.mean((1, 2))[:, [7]],
        "rollout": rolled,
        "sink-free rollout": free,
        "rollout over null": null_ratio(rolled, uniform_causal_rollout(N, layers, **at).expand_as(rolled)),
        "sink-free over null": null_ratio(
            free, uniform_causal_rollout(N, layers, sink=[0], **at).expand_as(free)
        ),
        "flow": attention_flow(attention, **at).float(),
    }
    found = attributions(model, IDS, [*expected], query=7)
    for name, scores in expected.items():
        close(found[name], scores[:, 0])
    close(rolled, rollout_of(model, IDS, rows=[7]))
    model.set_attn_implementation("eager")
    for name, scores in attributions(model, IDS, [*expected], query=7).items():
        close(scores, found[name])


@pytest.mark.parametrize("make", [_own, _llama, _gpt2, _stories])  # not Gemma 2: its window counts tokens
@pytest.mark.parametrize("batch_size", [1, 4])
def test_blank_out_is_what_hiding_a_key_from_every_later_query_does(make, batch_size):
    model = make()
    drop = blank_out(model, IDS, batch_size=batch_size)
    assert drop[:, -1].isnan().all() and drop[:, :-1].abs().max() > 1e-3
    hidden = attention_knockout(model, IDS, queries="all")  # which is held against attention by hand
    close(drop[:, :-1], hidden[:, :-1], atol=1e-4)


def test_blank_out_with_a_replacement_is_patching_with_it(model):
    aim = {"query": QUERY, "target": 7, "batch_size": 4}
    found = activation_patching(model, IDS, counterfactual=torch.full_like(IDS, 5), **aim)
    close(blank_out(model, IDS, replacement=5, **aim), found, atol=1e-4)


def test_blank_out_of_an_encoder_asks_at_the_position_itself():
    model = _encoder()
    drop = blank_out(model, IDS[:1], query=8, target=7, batch_size=5)[0]
    with torch.no_grad():
        whole = model(IDS[:1]).logits[0, 8].log_softmax(-1)[7]
        for token in (0, 7, 9, 10):
            left = torch.arange(N) != token
            logits = model(IDS[:1, left], position_ids=torch.arange(N)[None, left]).logits
            expected = whole - logits[0, 8 - (token < 8)].log_softmax(-1)[7]
            torch.testing.assert_close(drop[token], expected, atol=1e-4, rtol=1e-4)
    assert drop.isnan().nonzero().flatten().tolist() == [8]


# ---- what is not touched, and what is refused


def test_the_model_is_as_it_was():
    for make in (_gpt2, _own):
        ids, other = IDS[:1, :6], OTHER[:1, :6]
        expected = attributions(make(), ids, METHODS, counterfactual=other)
        model = make().train()
        with torch.inference_mode():
            found = attributions(model, ids, METHODS, counterfactual=other)
        for name, scores in found.items():
            close(scores, expected[name])
        assert all(module.training for module in model.modules())
        assert all(parameter.grad is None for parameter in model.parameters())
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_method_says_why_a_model_cannot_give_it():
    bert = _encoder()
    with pytest.raises(ValueError, match="null model looks at earlier tokens only, and this model"):
        attributions(bert, IDS, ["rollout", "rollout over null"])
    size = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2}
    mamba = hf.MambaForCausalLM(hf.MambaConfig(**size)).eval()
    with pytest.raises(ValueError, match="attention of MambaForCausalLM, if it has any, does not go"):
        attribute(mamba, IDS[0])
    assert attribute(mamba, IDS[0], method="blank-out")[:-1].isfinite().all()
    body = hf.LlamaModel(hf.LlamaConfig(**SIZE)).eval()
    with pytest.raises(ValueError, match="LlamaModel predicts no token"):
        attribute(body, IDS[0], method="blank-out")
    t5 = hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=97, d_model=8, num_layers=1, num_heads=1))
    with pytest.raises(ValueError, match="encoder-decoder"):
        attribute(t5, IDS[0])


@pytest.mark.parametrize(
    ("ids", "asked", "message"),
    [
        (IDS[0], {"method": "rolout"}, "methods must be one of"),
        (IDS, {}, "input_ids must be one prompt"),
        (IDS[0], {"query": N}, "query must be positions"),
        (IDS[0, :0], {}, "empty prompt"),
        (torch.ones(65, dtype=torch.long), {}, "context of 64"),
        (IDS[0, :1], {"method": "blank-out"}, "^the prediction must read a token besides"),
        (IDS[0], {"method": "blank-out", "target": -1}, "^target must be token ids"),
        (IDS[0], {"method": "activation patching"}, "^activation patching needs .*counterfactual="),
        (IDS[0], {"counterfactual": IDS[0, 1:]}, "^counterfactual must be of the shape input"),
        (IDS[0], {"counterfactual": IDS[0] + 999}, "^counterfactual must be token ids"),
        (IDS[0], {"method": "attention knockout", "query": 0}, "^the prediction must read"),
        (IDS[0], {"target": True}, "^target must be a token"),
        (IDS[0], {"method": "blank-out", "foil": 10_000}, "^foil must be token ids"),
        (IDS[0, :1], {"method": "ContextCite"}, "^the prediction must read"),
        (IDS[0, :1], {"method": "ReAGent"}, "^the prediction must read"),
        (IDS[0], {"method": partial(METHODS["ReAGent"], steps=0)}, "^steps must be at least 1"),
        (IDS[0], {"method": partial(METHODS["ReAGent"], replaced=1.0)}, "^replaced must be above 0"),
        (IDS[0], {"method": partial(METHODS["ContextCite"], ablations=1)}, "^ablations must be at least 2"),
    ],
)
def test_prompts_that_cannot_be(ids, asked, message):
    with pytest.raises(ValueError, match=message):
        attribute(_gpt2(), ids, **asked)


def test_arguments_of_another_kind_are_refused_in_words():
    """As a reader meets them: the tests check every annotation, and would be there first."""
    code = """
import torch
from attnlib.attribution import attribute, attributions
from attnlib import look
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention.interface import heads_by_layer
from attnlib.rollout import rollout_of
model, ids = Transformer(TransformerConfig(9, causal=True)), torch.ones(2, 5, dtype=torch.long)
for wrong in ({"target": 2.5}, {"foil": torch.tensor([1, 2, 3])}, {"input_ids": ids.float()},
              {"input_ids": [[1, 2]]}, {"query": 1.5}, {"query": None}, {"target": "ball"},
              {"counterfactual": ids.tolist()}, {"counterfactual": ids.numpy()},
              {"counterfactual": ids.float()}):
    try:
        attributions(model, **({"input_ids": ids, "methods": "blank-out"} | wrong))
    except ValueError as error:
        print(error)
for asks, given, how in ((rollout_of, ids[0], {}), (attribute, [1, 2], {}), (rollout_of, ids, {"rows": {0}}),
                         (rollout_of, ids, {"keys": "first"}), (rollout_of, ids, {"sink": slice(0, 2)}),
                         (attribute, ids[0], {"counterfactual": [1] * 5}),
                         (attribute, ids[0], {"target_span": 4}),
                         (attribute, ids[0], {"target_span": (2.0, 4)}), (heads_by_layer, (0, 1), {}),
                         (heads_by_layer, ["L0H0"], {}), (heads_by_layer, 5, {}), (look, "a", {})):
    try:
        asks(model, given, **how)
    except ValueError as error:
        print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = ["target", "foil", "input_ids", "input_ids", "query", "query", "target", *["counterfactual"] * 3]
    names += ["input_ids", "input_ids", "rows", "keys", "sink", "counterfactual", "span", "span"]
    names += [*["heads"] * 3, "name"]
    assert [line.split(" must be ")[0] for line in said.splitlines()] == names


SHAPES = """
import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel
from attnlib.attribution import attribute, attributions, span_attributions
from attnlib.models import Transformer, TransformerConfig
from attnlib.rollout import generate_with_rollout, rollout_of
gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=1)).eval()
bert = BertForMaskedLM(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
own = Transformer(TransformerConfig(9, causal=True))
ids = torch.arange(1, 6)
for model in (gpt2, bert.eval(), own):
    for shaped in (ids.expand(2, 1, 5), ids.expand(1, 2, 5), ids.view(1, 1, 5), ids[0], torch.tensor(3)):
        for verb in (attribute, lambda *given: attributions(*given, "blank-out"), rollout_of,
                     lambda *given: attributions(*given, ["rollout", "gradient norm"]),
                     lambda *given: generate_with_rollout(*given, 2),
                     lambda *given: span_attributions(*given, (2, 3), "rollout")):
            try:
                verb(model, shaped)
            except ValueError as error:
                print(str(error).startswith("input_ids must be ") and str(tuple(shaped.shape)) in str(error))
            else:
                print(False)
"""


def test_ids_of_three_dimensions_or_none_are_not_flattened():
    """As a reader meets them, of three kinds of models and by every verb."""
    done = subprocess.run([sys.executable, "-c", SHAPES], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 3 * 5 * 6


@pytest.mark.parametrize("causal", [True, False])
def test_the_measures_that_are_called_signed_are_those_with_scores_below_zero(causal) -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocabulary=12, causal=causal, n_layers=2)).eval()
    ids, other = torch.randint(12, (2, 4, 6))
    names = [name for name in METHODS if causal or "null" not in name]
    found = attributions(model, ids, names, target=3, foil=4, counterfactual=other)
    assert {name for name, scores in found.items() if bool((scores < 0).any())} == set(SIGNED)

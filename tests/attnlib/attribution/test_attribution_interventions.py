"""Measures that disturb a model, token by token: each against a plain loop over eager attention."""

from __future__ import annotations

import inspect

import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.attribution import METHODS, attribute, attributions, perturbation_engine
from attnlib.attribution.perturbation import (
    activation_patching,
    atman,
    attention_knockout,
    attribution_patching,
)
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention.inputs import inputs_changed, keys_hidden
from attnlib.models.causal import is_causal
from tests.attnlib.attribution.test_attribution import (
    IDS,
    MODELS,
    OTHER,
    QUERY,
    SIZE,
    N,
    _gpt2,
    _llama,
    _own,
    _scaled,
    close,
)

DISTURBING = ["AtMan", "attention knockout", "activation patching"]


def encoder():
    torch.manual_seed(0)
    sizes = {"n_layers": 3, "n_heads": 4, "width": 32, "max_length": 64, "norm": "pre"}
    return Transformer(TransformerConfig(90, n_classes=5, **sizes)).eval()


def attention_by_hand(change):
    """Both kinds of attention function, with scores `[batch head query key]` changed before the softmax."""

    def own(q, k, v, allowed=None, *, causal=False, dropout=0.0, need_weights=False):
        scores = change(q @ k.mT / q.shape[-1] ** 0.5)
        if causal:
            scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
        return scores.softmax(-1) @ v, None

    def eager(module, q, k, v, attention_mask, scaling, **kwargs):
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        scores = change(q @ k.mT * scaling) + attention_mask
        return (scores.softmax(-1) @ v).transpose(1, 2), None

    return own, eager


def log_p(model, ids, query, target, change, monkeypatch):
    """The target's log probability, with attention by hand in every layer."""
    own, eager = attention_by_hand(change)
    with monkeypatch.context() as patch, torch.no_grad():
        if isinstance(model, Transformer):
            for layer in model.layers:
                patch.setattr(layer.attention, "attend", own)
        else:
            patch.setattr(inspect.getmodule(type(model)), "eager_attention_forward", eager)
            model.set_attn_implementation("eager")
        logits = model(input_ids=ids[None]).logits
        if not isinstance(model, Transformer):
            model.set_attn_implementation("sdpa")
    return logits[0, query].log_softmax(-1)[target]


MADE = {"own": _own, "encoder": encoder, "gpt2": _gpt2, "llama": _llama}


@pytest.fixture(params=MADE)
def made(request):
    return MADE[request.param]()


def by_hand(model, change_of, query, monkeypatch):
    """`s - s(disturbed)` for every token, one after the other."""
    whole = log_p(model, IDS[0], query, 3, lambda scores: scores, monkeypatch)
    seen = range(N if model.config.__dict__.get("causal") is False else query + 1)
    falls = torch.zeros(N)
    for token in seen:
        falls[token] = whole - log_p(model, IDS[0], query, 3, change_of(token), monkeypatch)
    assert falls.isfinite().all() and falls.abs().max() > 1e-3
    return falls


@pytest.mark.parametrize("suppression", [0.9, 0.3, 1.0])
def test_atman_multiplies_the_scores_of_a_key(made, monkeypatch, suppression):
    def change_of(token):
        factor = torch.ones(N)
        factor[token] = 1 - suppression
        return lambda scores: scores * factor

    expected = by_hand(made, change_of, QUERY, monkeypatch)
    found = atman(made, IDS[:1], query=QUERY, target=3, suppression=suppression, batch_size=5)[0]
    close(found, expected, atol=1e-4)


@pytest.mark.parametrize("queries", ["query", "all"])
def test_knockout_hides_a_key(made, monkeypatch, queries):
    def change_of(token):
        hidden = torch.zeros(N, N)
        rows = [QUERY] if queries == "query" else [row for row in range(N) if row != token]
        hidden[rows, token] = -torch.inf
        return lambda scores: scores + hidden

    expected = by_hand(made, change_of, QUERY, monkeypatch)
    found = attention_knockout(made, IDS[:1], query=QUERY, target=3, queries=queries, batch_size=2)[0]
    close(found, expected, atol=1e-4)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.mark.parametrize("name", DISTURBING)
def test_going_on_from_what_is_remembered_is_starting_again(model, name, monkeypatch):
    aim = {"query": 9, "target": 3, "counterfactual": OTHER}
    found = METHODS[name](model, IDS, **aim)

    def nothing(model, ids, query, *_):
        return None, prefilled(model, ids, query)[1]

    prefilled = perturbation_engine.prefill_cache
    monkeypatch.setattr(perturbation_engine, "prefill_cache", nothing)
    close(found, METHODS[name](model, IDS, **aim))
    close(found, METHODS[name](model, IDS, batch_size=1, **aim))


# ---- patching


def test_patching_an_embedding_is_replacing_the_token(model):
    found = activation_patching(model, IDS, query=QUERY, target=3, counterfactual=OTHER)
    with torch.no_grad():
        whole = model(input_ids=IDS).logits[:, QUERY].log_softmax(-1)[:, 3]
        for token in range(N):
            ids = IDS.clone()
            ids[:, token] = OTHER[:, token]
            there = model(input_ids=ids).logits[:, QUERY].log_softmax(-1)[:, 3]
            close(found[:, token], whole - there if token <= QUERY else 0 * whole, atol=1e-4)


@pytest.mark.parametrize("layer", [1, 3])
def test_patching_behind_a_layer_goes_on_from_there(layer):
    model, query, other = encoder(), QUERY, OTHER[:1]

    def streams(ids):
        x = model.embedding(ids) + model.positions[:N]
        for each in model.layers[:layer]:
            x, _ = each(x)
        return x.detach()

    def score(x):
        for each in model.layers[layer:]:
            x, _ = each(x)
        return model.classify(model.norm(x))[:, query].log_softmax(-1)[:, 3]

    clean, patch = streams(IDS[:1]), streams(other)
    expected, leaf = torch.zeros(N), clean.clone().requires_grad_()
    for token in range(N):
        patched = clean.clone()
        patched[:, token] = patch[:, token]
        expected[token] = (score(clean) - score(patched)).detach()
    aim = {"query": query, "target": 3, "counterfactual": other, "layer": layer}
    close(activation_patching(model, IDS[:1], **aim)[0], expected, atol=1e-4)
    (gradient,) = torch.autograd.grad(score(leaf).sum(), leaf)
    close(attribution_patching(model, IDS[:1], **aim)[0], ((clean - patch) * gradient).sum(-1)[0], atol=1e-4)


class Linear(torch.nn.Module):
    """Logits are linear in embeddings: attribution patching is then no estimate."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.classify = torch.nn.Embedding(90, 8), torch.nn.Linear(8, 90)

    def get_input_embeddings(self):
        return self.embedding

    def forward(self, input_ids, attention_mask=None):
        logits = self.classify(self.embedding(input_ids).cumsum(1))
        return hf.modeling_outputs.CausalLMOutput(logits=logits)


def test_attribution_patching_is_exact_where_all_is_linear():
    model, aim = Linear(), {"query": QUERY, "target": 3, "foil": 4}  # a difference of logits: no softmax
    found = attributions(
        model, IDS, ["attribution patching", "activation patching"], counterfactual=OTHER, **aim
    )
    assert (found["activation patching"] != 0).any()
    steps = model.classify.weight[3] - model.classify.weight[4]
    moved = ((model.embedding(IDS) - model.embedding(OTHER)) @ steps).detach()
    moved[:, QUERY + 1 :] = 0
    close(found["attribution patching"], moved)
    # this one has no causal mask to tell of, so every position is patched
    close(found["activation patching"], moved)


@settings(max_examples=10)
@given(st.sets(st.integers(0, 9)), st.integers(0, 9))
def test_what_is_the_same_in_both_prompts_scores_nothing(places, query):
    ids, other = IDS[:, :10], IDS[:, :10].clone()
    other[:, [*places]] = 95 - other[:, [*places]]
    for name in ("attribution patching", "activation patching"):
        scores = METHODS[name](TINY, ids, query=query, counterfactual=other)
        differ = (ids != other) & (torch.arange(10) <= query)
        assert ((scores != 0) == differ).all(), name


TINY = _own()


# ---- what is refused


def test_a_model_that_can_generate_but_sees_later_tokens_is_asked_on_the_whole_prompt():
    torch.manual_seed(0)
    model = _scaled(hf.BertLMHeadModel(hf.BertConfig(**SIZE, is_decoder=False)))
    ids = torch.arange(1, 7)
    assert model.can_generate() and not is_causal(model)

    def log_p(mask=None):
        with torch.no_grad():
            return model(input_ids=ids[None], attention_mask=mask).logits[0, 1].log_softmax(-1)[9]

    masks = 1 - torch.eye(6, dtype=torch.long)[:, None]
    expected = torch.stack([log_p() - log_p(mask) for mask in masks])
    found = attribute(model, ids, query=1, target=9, method="blank-out")
    others = torch.arange(6) != 1
    assert expected[2:].abs().min() > 1e-3
    close(found[others], expected[others])
    hidden = attribute(model, ids, query=1, target=9, method="attention knockout")
    assert hidden[2:].abs().min() > 1e-3


def test_who_is_causal_is_seen_not_said():
    assert is_causal(_llama()) and is_causal(_gpt2()) and not is_causal(encoder())
    decoder = hf.BertLMHeadModel(hf.BertConfig(**SIZE, is_decoder=True))
    assert is_causal(decoder) and not is_causal(torch.nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("method", "option", "values"),
    [
        ("AtMan", "suppression", [1.5]),
        ("attention knockout", "queries", ["later"]),
        ("blank-out", "replacement", [-1, 97]),
        ("integrated gradients", "baseline", [-1, 97]),
        ("integrated gradients", "steps", [0]),
        ("ReAGent", "replaced", [1.5]),
        ("AtMan", "batch_size", [0, 2.5]),
    ],
)
def test_options_that_cannot_be(method, option, values):
    for value in values:
        with pytest.raises(ValueError, match=f"^{option} must be "):
            METHODS[method](_own(), IDS, **{option: value})


def test_a_model_without_attention_can_be_patched_but_has_no_eyes_to_turn():
    torch.manual_seed(0)
    mamba = hf.MambaForCausalLM(hf.MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2)).eval()
    with pytest.raises(ValueError, match="attention of MambaForCausalLM, if it has any, does not go"):
        attribute(mamba, IDS[0], method="AtMan")
    found = attribute(mamba, IDS[0], target=3, method="activation patching", counterfactual=OTHER[0])
    changed = IDS[0].clone()
    changed[6] = OTHER[0, 6]
    with torch.no_grad():
        scores = mamba(torch.stack([IDS[0], changed])).logits[:, -1].log_softmax(-1)[:, 3]
    close(found[6], scores[0] - scores[1], atol=1e-4)


@pytest.mark.parametrize("name", ["AtMan", "attention knockout", "ContextCite", "KernelSHAP"])
def test_layers_that_share_their_weights_are_disturbed_as_layers_of_equal_weights(name):
    sizes = SIZE | {"num_hidden_layers": 2, "embedding_size": 16}
    torch.manual_seed(0)
    shared = _scaled(hf.AlbertForMaskedLM(hf.AlbertConfig(**sizes)).eval())
    apart = hf.AlbertForMaskedLM(hf.AlbertConfig(**sizes, num_hidden_groups=2)).eval()
    group = "albert_layer_groups."
    again = {key.replace(f"{group}0", f"{group}1"): value for key, value in shared.state_dict().items()}
    apart.load_state_dict(again | shared.state_dict())
    found, expected = (attribute(model, IDS[0], 5, 3, method=name) for model in (shared, apart))
    assert found.abs().max() > 1e-3
    close(found, expected)


def test_the_door_to_what_goes_into_attention_closes(model):
    with torch.no_grad():
        before = model(input_ids=IDS).logits
        with inputs_changed(model, lambda query, key, value: (query, key, 0 * value)):
            assert not torch.allclose(model(input_ids=IDS).logits, before)
        with keys_hidden(model, lambda call: torch.zeros_like(call.visible())):
            close(model(input_ids=IDS).logits, before)
        close(model(input_ids=IDS).logits, before, atol=0)


@pytest.mark.parametrize("kind", ["Roberta", "XLMRoberta"])
def test_positions_that_begin_behind_a_row_for_padding_are_kept(kind):
    """What is left of a prompt without a token is what a mask on it leaves, and copies do not change it."""
    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = getattr(hf, f"{kind}Config")(**sizes, intermediate_size=32, is_decoder=True)
    ids, other = torch.tensor([5, 9, 13, 7, 21, 17]), torch.tensor([5, 9, 13, 8, 21, 17])
    for make in (f"{kind}ForMaskedLM", f"{kind}ForCausalLM"):
        config.is_decoder = make.endswith("CausalLM")
        torch.manual_seed(0)
        model = _scaled(getattr(hf, make)(config).eval())
        found = attribute(model, ids, target=4, method="blank-out")
        with torch.no_grad():
            masks = 1 - torch.eye(6, dtype=torch.long)[:5]
            tokens = ids.expand(5, -1)
            # the mask alone: positions stay those of the whole prompt
            hidden = model(tokens, attention_mask=masks).logits[:, -1].log_softmax(-1)[:, 4]
            whole = model(ids[None]).logits[0, -1].log_softmax(-1)[4]
        torch.testing.assert_close(found[:5], whole - hidden, atol=1e-4, rtol=1e-4)
        if config.is_decoder:
            alone, both = (
                activation_patching(model, ids[None], target=4, counterfactual=other[None], batch_size=size)
                for size in (1, 8)
            )
            torch.testing.assert_close(alone, both, atol=1e-5, rtol=1e-5)

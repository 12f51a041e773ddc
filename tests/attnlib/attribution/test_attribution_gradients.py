"""Measures by gradients, against autograd, captum and lxt; and what relevance has to keep."""

from __future__ import annotations

import contextvars
from functools import partial
from threading import Thread

import pytest
import torch
import transformers as hf

from attnlib.attribution import METHODS, attribute, lrp
from attnlib.attribution.gradients import integrated_gradients
from attnlib.attribution.lrp import attention_constant_lrp, attn_lrp
from attnlib.attribution.stream import stream_of
from attnlib.models import Transformer, TransformerConfig
from tests.attnlib.attribution.test_attribution import IDS, MODELS, QUERY, SIZE, N, _gpt2, _own, close


def llama(**more):
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SIZE, num_key_value_heads=2, **more)).eval()


def by_formula(model):
    """Weights that no generator of random numbers makes: the same everywhere."""
    for number, weight in enumerate(model.parameters()):
        wave = torch.sin((number + 1) * torch.arange(1.0, weight.numel() + 1) ** 1.1).view_as(weight)
        weight.data = 0.3 * wave if weight.ndim > 1 else 1 + 0.1 * wave
    return model.eval()


def score_of_embeddings(model, target, query=-1):
    """`s` as a function of input embeddings, in ways of the model's own."""

    def score(embedded):
        if not isinstance(model, Transformer):
            logits = model(inputs_embeds=embedded).logits
        else:
            x = embedded + model.positions[: embedded.shape[1]]
            for layer in model.layers:
                x, _ = layer(x)
            logits = model.classify(model.norm(x))
        return logits[:, query].log_softmax(-1)[:, target]

    return score


def embeddings(model, ids):
    return (model.embedding if isinstance(model, Transformer) else model.get_input_embeddings())(ids).detach()


# ---- gradients


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def test_gradients_are_autograds(model):
    embedded = embeddings(model, IDS).requires_grad_()
    (gradient,) = torch.autograd.grad(score_of_embeddings(model, 7, QUERY)(embedded).sum(), embedded)
    close(METHODS["gradient norm"](model, IDS, query=QUERY, target=7), gradient.square().sum(-1).sqrt())
    product = (gradient * embedded.detach()).sum(-1)
    close(METHODS["gradient x embedding"](model, IDS, query=QUERY, target=7), product)


@pytest.mark.parametrize("baseline", [None, 5])
@pytest.mark.parametrize("make", [_own, _gpt2, llama])
def test_integrated_gradients_are_captums(make, baseline):
    captum = pytest.importorskip("captum.attr")
    torch.manual_seed(0)
    model = make()
    embedded = embeddings(model, IDS)
    start = 0 * embedded if baseline is None else embeddings(model, torch.full_like(IDS, baseline))
    asked = {"method": "gausslegendre", "n_steps": 20, "internal_batch_size": 8}
    other = captum.IntegratedGradients(score_of_embeddings(model, 7)).attribute(embedded, start, **asked)
    ours = integrated_gradients(model, IDS, target=7, baseline=baseline, batch_size=7)
    torch.testing.assert_close(ours, other.sum(-1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("baseline", [None, 5])
def test_integrated_gradients_sum_to_what_the_whole_line_makes(baseline):
    torch.manual_seed(0)
    sizes = {"n_layers": 2, "n_heads": 2, "width": 16, "activation": "gelu", "norm": "pre"}
    model = Transformer(TransformerConfig(90, causal=True, positions="learned", max_length=32, **sizes))
    with torch.no_grad():
        model.positions.mul_(20)  # so that a norm does not turn sharply where embeddings are 0
    model = model.eval()
    scores = integrated_gradients(model, IDS, target=7, foil=8, baseline=baseline, steps=100)
    embedded = embeddings(model, IDS)
    start = 0 * embedded if baseline is None else embeddings(model, torch.full_like(IDS, baseline))
    with torch.no_grad():
        ends = [
            score_of_embeddings(model, 7)(x) - score_of_embeddings(model, 8)(x) for x in (embedded, start)
        ]
    close(scores.sum(1), ends[0] - ends[1], atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("steps", [20, 120])
def test_the_line_is_divided_as_finely_where_a_model_is_in_half_precision(dtype, steps):
    torch.manual_seed(0)
    model = llama()
    whole = integrated_gradients(model, IDS, target=7, steps=steps)
    half = integrated_gradients(model.to(dtype), IDS, target=7, steps=steps)
    assert torch.linalg.norm(half.float() - whole) < 0.25 * torch.linalg.norm(whole)


# ---- relevance


def own(norm="pre", activation="gelu", **options):
    torch.manual_seed(0)
    sizes = {"n_layers": 3, "n_heads": 4, "width": 32, "ff_width": 48, "max_length": 64} | options
    return Transformer(TransformerConfig(90, norm=norm, activation=activation, **sizes)).eval()


def without_biases(model):
    for name, weight in model.named_parameters():
        weight.data *= "bias" not in name
    return model


BIAS_FREE = {"llama": lambda: llama(attention_bias=False, mlp_bias=False)}
BIAS_FREE |= {
    f"{norm} {activation} {causal}": partial(own, norm, activation, positions="none", causal=causal)
    for norm, activation, causal in [("pre", "relu", True), ("post", "gelu", True), ("post", "relu", False)]
}


@pytest.mark.parametrize("foil", [None, 8])
@pytest.mark.parametrize("make", BIAS_FREE.values(), ids=BIAS_FREE)
def test_relevance_is_conserved_without_biases_if_attention_is_constant(make, foil):
    model = without_biases(by_formula(make()))
    with torch.no_grad():
        logits = model(input_ids=IDS).logits[:, QUERY]
    explained = logits[:, 7] - (0 if foil is None else logits[:, foil])
    aim = {"query": QUERY, "target": 7, "foil": foil}
    close(attention_constant_lrp(model, IDS, **aim).sum(1), explained, atol=1e-4)
    assert ((attn_lrp(model, IDS, **aim).sum(1) - explained).abs() > 1e-3).all()


@torch.no_grad()
def test_relevance_of_our_own_is_that_of_a_gpt2_with_its_weights():
    """Which is held against lxt's, below; pre-norm, whose activation is a function, and no module."""
    model = by_formula(own(causal=True, positions="learned"))
    model.classify.bias.zero_()
    sizes = {"vocab_size": 90, "n_positions": 64, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_inner": 48}
    config = hf.GPT2Config(**sizes, activation_function="gelu", tie_word_embeddings=False)
    other = hf.GPT2LMHeadModel(config).eval()
    body, linear = other.transformer, {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}
    pairs = [(body.wte, model.embedding), (body.ln_f, model.norm), (other.lm_head, model.classify)]
    body.wpe.weight.copy_(model.positions)
    for theirs, ours in zip(body.h, model.layers, strict=True):
        names = {"ln_1": ours.attention_norm, "attn.c_attn": ours.attention.qkv, "ln_2": ours.ff_norm}
        names |= {"attn.c_proj": ours.attention.out, "mlp.c_fc": ours.up, "mlp.c_proj": ours.down}
        for name, module in names.items():
            given = theirs.get_submodule(name)
            given.weight.copy_(module.weight.T if name in linear else module.weight)
            given.bias.copy_(module.bias)
    for theirs, ours in pairs:
        theirs.load_state_dict({name: getattr(ours, name) for name in theirs.state_dict()})
    close(other(IDS).logits, model(IDS).logits, atol=1e-4)
    for method in (attn_lrp, attention_constant_lrp):
        close(method(model, IDS, target=7), method(other, IDS, target=7), atol=1e-4)


GOLDEN = {
    ("llama", "AttnLRP"): [
        *(-0.132050, 0.093727, -0.142407, -0.030232),
        *(-0.052226, 0.210567, -0.048912, 0.233420),
    ],
    ("llama", "LRP, attention held constant"): [
        *(0.017211, 0.148156, -0.160027, -0.092533),
        *(-0.083951, 0.210446, -0.107884, 0.182424),
    ],
    ("gpt2", "AttnLRP"): [
        *(0.031434, -0.034217, 0.003252, -0.007258),
        *(0.106214, 0.009168, 0.019169, 0.196103),
    ],
    ("gpt2", "LRP, attention held constant"): [
        *(0.060356, -0.037459, -0.001497, -0.019497),
        *(0.124397, 0.021322, 0.038725, 0.156567),
    ],
}
"""Of the eighth token's next: per kind of model, and method."""


@pytest.mark.parametrize(("kind", "method"), GOLDEN)
def test_relevance_is_lxts(kind, method):
    """Made with lxt 2.1 (`lxt.efficient`) on these very models, its imports mended for this transformers."""
    make = {"llama": llama, "gpt2": _gpt2}[kind]
    model = by_formula(make())
    found = METHODS[method](model, IDS[:1, :8], target=7)[0]
    torch.testing.assert_close(found, torch.tensor(GOLDEN[kind, method]), atol=1e-4, rtol=1e-4)


def test_other_threads_see_nothing_of_the_rules(monkeypatch):
    model, found = _own(), list[torch.Tensor]()
    expected = attribute(model, IDS[0], method="gradient x embedding")
    relevance = attribute(model, IDS[0], method="AttnLRP")

    def meanwhile(*asked, **options):
        def other():
            found.append(attribute(model, IDS[0], method="gradient x embedding"))

        thread = Thread(target=contextvars.Context().run, args=(other,))
        thread.start()
        thread.join()
        return slopes(*asked, **options)

    slopes = lrp.slopes
    monkeypatch.setattr(lrp, "slopes", meanwhile)
    close(attribute(model, IDS[0], method="AttnLRP"), relevance, atol=0)
    close(found[0], expected, atol=0)
    close(attribute(model, IDS[0], method="gradient x embedding"), expected, atol=0)


def test_places_in_the_stream():
    model = _own()
    with pytest.raises(ValueError, match=r"^layer must be from 1 to 3"):
        stream_of(model, IDS, 3, layer=4)
    with torch.no_grad():
        x = model.embedding(IDS) + model.positions[:N]
        for number, layer in enumerate(model.layers, 1):
            x, _ = layer(x)
            close(stream_of(model, IDS, 3, number)[0], x)

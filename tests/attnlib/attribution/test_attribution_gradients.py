"""Measures by gradients, against captum, plain loops, and relevance handed back by hand."""

from __future__ import annotations

import contextvars
from threading import Thread

import pytest
import torch
import transformers as hf
from test_attribution import IDS, MODELS, SIZE, _gpt2, _own, close

from attnlib.attribution import METHODS, attribute, lrp
from attnlib.attribution.gradients import integrated_gradients
from attnlib.attribution.lrp import attention_constant_lrp, attn_lrp
from attnlib.attribution.stream import stream_of
from attnlib.models import Transformer, TransformerConfig


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


def test_the_norm_of_the_gradient(model):
    embedded = embeddings(model, IDS).requires_grad_()
    (gradient,) = torch.autograd.grad(score_of_embeddings(model, 7, 11)(embedded).sum(), embedded)
    close(METHODS["gradient norm"](model, IDS, query=11, target=7), gradient.square().sum(-1).sqrt())


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


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


def test_integrated_gradients_are_the_integral_point_by_point(model):
    steps, score, embedded = 3, score_of_embeddings(model, 7), embeddings(model, IDS)
    points = [0.5 - 0.15**0.5, 0.5, 0.5 + 0.15**0.5]  # Gauss and Legendre's three, from a table
    total = torch.zeros(IDS.shape)
    for point, weight in zip(points, [5 / 18, 4 / 9, 5 / 18], strict=True):
        there = (point * embedded).requires_grad_()
        total += weight * (torch.autograd.grad(score(there).sum(), there)[0] * embedded).sum(-1)
    close(integrated_gradients(model, IDS, target=7, steps=steps), total, atol=1e-4)


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


def test_a_line_of_no_steps():
    with pytest.raises(ValueError, match="steps should be at least 1; got 0"):
        integrated_gradients(_own(), IDS, steps=0)


# ---- relevance


@pytest.mark.parametrize("foil", [None, 8])
def test_relevance_is_conserved_without_biases_if_attention_is_constant(foil):
    model = by_formula(llama(attention_bias=False, mlp_bias=False))
    with torch.no_grad():
        logits = model(IDS).logits[:, 11]
    explained = logits[:, 7] - (0 if foil is None else logits[:, foil])
    aim = {"query": 11, "target": 7, "foil": foil}
    close(attention_constant_lrp(model, IDS, **aim).sum(1), explained, atol=1e-4)
    assert ((attn_lrp(model, IDS, **aim).sum(1) - explained).abs() > 0.05 * explained.abs()).all()


def of_linear(relevance, x, weight, bias=0.0):
    """`R_i = x_i sum_j W_ji R_j / y_j`."""
    return x * ((relevance / (x @ weight.mT + bias)) @ weight)


def of_product(relevance, a, b):
    """`R` of both factors of `a @ b`, half each."""
    share = relevance / (2 * (a @ b))
    return a * (share @ b.mT), b * (a.mT @ share)


def of_norm(relevance, x, norm):
    """`y = (w / c) (x - mean x) + b` is linear where `c` is constant."""
    n = x.shape[-1]
    inverse = (x.var(-1, correction=0, keepdim=True) + norm.eps).rsqrt()
    matrix = (torch.eye(n, dtype=x.dtype) - 1 / n) * norm.weight[:, None] * inverse[..., None]
    y = (matrix @ x[..., None])[..., 0] + norm.bias
    return x * ((relevance / y)[..., None, :] @ matrix)[..., 0, :]


def of_attention(relevance, x, attention, held):
    """Relevance of what goes into an `Attention`, from that of what comes out."""
    n, (q, k, v) = len(x), attention.qkv(x).unflatten(-1, (3, attention.n_heads, -1)).permute(1, 2, 0, 3)
    mask = torch.ones(n, n, dtype=torch.bool)
    mask = mask.tril() if attention.causal else mask
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
    a = scores.softmax(-1)
    mixed = (a @ v).transpose(0, 1).flatten(1)
    relevance = of_linear(relevance, mixed, attention.out.weight, attention.out.bias)
    relevance = relevance.view(n, attention.n_heads, -1).transpose(0, 1)
    if held:
        of_q = of_k = torch.zeros_like(q)
        of_v = v * (a.mT @ (relevance / (a @ v)))
    else:
        of_a, of_v = of_product(relevance, a, v)
        of_z = scores.masked_fill(~mask, 0) * (of_a - a * of_a.sum(-1, keepdim=True))
        of_q, kt = of_product(of_z, q / q.shape[-1] ** 0.5, k.mT)
        of_k = kt.mT
    joined = torch.stack([of_q, of_k, of_v]).permute(2, 0, 1, 3).flatten(1)
    return of_linear(joined, x, attention.qkv.weight, attention.qkv.bias)


def of_layer(relevance, x, layer, held):
    """Relevance of what goes into a `Layer`, and what comes out of it."""

    def feed_forward(x):
        return layer.down(layer.activation(layer.up(x)))

    def of_feed_forward(relevance, x):
        hidden = layer.activation(layer.up(x))
        relevance = of_linear(relevance, hidden, layer.down.weight, layer.down.bias)
        return of_linear(relevance, x, layer.up.weight, layer.up.bias)

    def split(relevance, x, f):
        return relevance * x / (x + f), relevance * f / (x + f)

    if layer.pre:
        normed = layer.attention_norm(x)
        mixed = layer.attention(normed[None])[0][0]
        between = x + mixed
        into = layer.ff_norm(between)
        kept, moved = split(relevance, between, feed_forward(into))
        relevance = kept + of_norm(of_feed_forward(moved, into), between, layer.ff_norm)
        kept, moved = split(relevance, x, mixed)
        return kept + of_norm(of_attention(moved, normed, layer.attention, held), x, layer.attention_norm)
    mixed = layer.attention(x[None])[0][0]
    between = layer.attention_norm(x + mixed)
    forward = feed_forward(between)
    kept, moved = split(of_norm(relevance, between + forward, layer.ff_norm), between, forward)
    relevance = of_norm(kept + of_feed_forward(moved, between), x + mixed, layer.attention_norm)
    kept, moved = split(relevance, x, mixed)
    return kept + of_attention(moved, x, layer.attention, held)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("held", [False, True])
@torch.no_grad()
def test_relevance_is_what_is_handed_back_rule_by_rule(held, norm, activation, causal):
    torch.manual_seed(0)
    sizes = {"n_layers": 2, "n_heads": 2, "width": 8, "max_length": 32, "positions": "learned"}
    config = TransformerConfig(90, causal=causal, norm=norm, activation=activation, **sizes)
    model = by_formula(Transformer(config)).double()
    ids, query, target = IDS[0, :7], 4, 7
    streams = [model.embedding(ids) + model.positions[:7]]
    for layer in model.layers:
        streams.append(layer(streams[-1][None])[0][0])
    last = streams[-1]
    normed = model.norm(last)
    logits = model.classify(normed)
    relevance = torch.zeros_like(logits)
    relevance[query, target] = logits[query, target]
    relevance = of_linear(relevance, normed, model.classify.weight, model.classify.bias)
    if norm == "pre":
        relevance = of_norm(relevance, last, model.norm)
    for layer, x in zip(reversed(model.layers), reversed(streams[:-1]), strict=True):
        relevance = of_layer(relevance, x, layer, held)
    expected = (relevance * model.embedding(ids) / streams[0]).sum(-1)
    method = attention_constant_lrp if held else attn_lrp
    torch.testing.assert_close(method(model, ids[None], query=query, target=target)[0], expected)


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
        return slope(*asked, **options)

    slope = lrp.slope
    monkeypatch.setattr(lrp, "slope", meanwhile)
    close(attribute(model, IDS[0], method="AttnLRP"), relevance, atol=0)
    close(found[0], expected, atol=0)
    close(attribute(model, IDS[0], method="gradient x embedding"), expected, atol=0)


def test_relevance_needs_to_know_activations():
    torch.manual_seed(0)
    model = llama()
    for layer in model.model.layers:
        layer.mlp.act_fn = torch.nn.Softplus()
    with pytest.raises(ValueError, match=r"3 layers, but 0 activation functions"):
        attribute(model, IDS[0], method="AttnLRP")


def test_relevance_needs_to_know_gates():
    torch.manual_seed(0)
    config = hf.MixtralConfig(**SIZE, num_key_value_heads=2, num_local_experts=2)
    with pytest.raises(ValueError, match="MixtralExperts multiplies with"):
        attribute(hf.MixtralForCausalLM(config).eval(), IDS[0], method="AttnLRP")


def test_places_in_the_stream():
    model = _own()
    with pytest.raises(ValueError, match="layer should be from 1 to 3, or 0 for the input embeddings"):
        stream_of(model, IDS, 3, layer=4)
    with torch.no_grad():
        x = model.embedding(IDS) + model.positions[:19]
        for number, layer in enumerate(model.layers, 1):
            x, _ = layer(x)
            close(stream_of(model, IDS, 3, number)[0], x)

"""Measures of what attention carries: the parts against the whole, and each measure the long way."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.attribution import METHODS, attribute, attributions, decomposition
from attnlib.attribution.decomposition import (
    alti_rows,
    information_flow_routes,
    length_rows,
    route_rows,
    route_rows_by_head,
    shares,
    zeroing_rows,
)
from attnlib.attribution.parts import head_contributions, parts_of
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import changing, heads_ablated, reinforced
from attnlib.models.attention.call import Affine
from attnlib.rollout import rollout

N, QUERY = 9, 6
IDS = torch.randint(4, 60, (2, N), generator=torch.Generator().manual_seed(3))
ALL = slice(0, N)
SIZE = {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZE |= {"intermediate_size": 40, "max_position_embeddings": 32}
SUM_TO_1 = ["rollout of value-weighted attention", "ALTI", "information flow routes", "value zeroing"]
OURS = ["value-weighted attention", "mean value-weighted attention", *SUM_TO_1]


def own(norm, causal, **options):
    torch.manual_seed(0)
    sizes = {"n_layers": 3, "n_heads": 4, "width": 24, "max_length": 32} | options
    return wild(Transformer(TransformerConfig(61, norm=norm, causal=causal, **sizes)))


def wild(model):
    """Weights and biases of every kind far from where they start."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * (0.2 if weight.ndim > 1 else 0.5))
    return model.eval()


def llama():
    torch.manual_seed(0)
    return wild(hf.LlamaForCausalLM(hf.LlamaConfig(**SIZE, num_key_value_heads=2)))


def gpt2():
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    sizes = {"vocab_size": 61, "n_positions": 32, "n_embd": 24, "n_layer": 3, "n_head": 4}
    return wild(hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, **ends)))


def gemma2():
    torch.manual_seed(0)
    config = hf.Gemma2Config(**SIZE, num_key_value_heads=2, head_dim=6, sliding_window=5)
    return wild(hf.Gemma2ForCausalLM(config))


MODELS = {
    "pre": lambda: own("pre", True, positions="rotary"),
    "post, both ways": lambda: own("post", False, activation="gelu"),
    "llama": llama,
    "gpt2": gpt2,
    "gemma2": gemma2,
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def close(found, expected, atol=1e-5):
    torch.testing.assert_close(found, expected, atol=atol, rtol=1e-4)


# ---- the parts, and the whole


def streams(model, ids):
    """The residual stream after every attention block, caught where the model itself has it."""
    found, handles = [], []
    for layer in layers_of(model):
        if isinstance(model, Transformer) and not layer.pre:
            handles.append(layer.attention_norm.register_forward_hook(lambda m, i, o: found.append(o)))
        else:
            norm = norm_before_feed_forward(layer)
            handles.append(norm.register_forward_pre_hook(lambda m, i: found.append(i[0])))
    with torch.no_grad():
        model(input_ids=ids)
    for handle in handles:
        handle.remove()
    return found


def layers_of(model):
    if isinstance(model, Transformer):
        return model.layers
    return model.transformer.h if hasattr(model, "transformer") else model.model.layers


def norm_before_feed_forward(layer):
    names = ("ff_norm", "ln_2", "pre_feedforward_layernorm", "post_attention_layernorm")
    return next(getattr(layer, name) for name in names if hasattr(layer, name))


def weights_and_vectors(layer):
    """`s_i A_h` on all keys, and `G(u_h)`."""
    attention = torch.zeros(len(layer.stream), layer.call.query.shape[1], N, N)
    attention[..., layer.keys(ALL)] = layer.attention(ALL)
    return layer.scaled(attention, ALL), layer.through_norm.transpose(0, 1)


def gpt_oss():
    """Its blocks of experts give what they chose, too; no rule of relevance knows them."""
    torch.manual_seed(0)
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1}
    config = hf.GptOssConfig(**SIZE, **experts, num_key_value_heads=2, head_dim=6, sliding_window=5)
    return wild(hf.GptOssForCausalLM(config))


@pytest.mark.parametrize("name", [*MODELS, "eager llama", "gpt_oss"])
def test_parts_sum_to_the_streams_of_the_model(name):
    model = (MODELS | {"gpt_oss": gpt_oss})[name.removeprefix("eager ")]()
    if name == "eager llama":
        model.set_attn_implementation("eager")
    layers = parts_of(model, IDS)
    for layer, stream in zip(layers, streams(model, IDS), strict=True):
        weights, vectors = weights_and_vectors(layer)
        parts = torch.einsum("bhij,bjhd->bijd", weights, vectors)
        close(layer.residual + parts.sum(2) + layer.constant, stream)
        close(head_contributions(weights, layer.through_norm).permute(1, 2, 0, 3), parts)
        close(layer.after_attention, stream)
    for below, above in pairwise(layers):
        assert torch.equal(below.output, above.stream)


def test_parts_are_of_the_attention_that_the_model_uses(model):
    """What reinforced or ablated heads carry, also where two changes meet."""
    reference = torch.zeros(2, N, N, dtype=torch.bool)
    reference[:, :, 2] = True
    plain = METHODS["ALTI"](model, IDS)
    with heads_ablated(model, [(0, 1)], "uniform"), reinforced(model, [(1, 2), (0, 1)], reference, 0.7):
        for layer, stream in zip(parts_of(model, IDS), streams(model, IDS), strict=True):
            weights, vectors = weights_and_vectors(layer)
            parts = torch.einsum("bhij,bjhd->bid", weights, vectors)
            close(layer.residual + parts + layer.constant, stream)
        assert not torch.allclose(METHODS["ALTI"](model, IDS), plain, atol=1e-3)
    close(METHODS["ALTI"](model, IDS), plain, atol=0)


def test_a_model_without_attention_is_its_residual_connections(model):
    heads = [(layer, head) for layer in range(3) for head in range(4)]
    itself = torch.nn.functional.one_hot(torch.tensor([QUERY, QUERY]), N).float()
    with heads_ablated(model, heads):
        found = attributions(model, IDS, OURS, query=QUERY)
    for name in SUM_TO_1:
        close(found[name], itself)
    assert not found["value-weighted attention"].any()


# ---- each measure the long way: plain loops over batch, queries, keys and heads


def loop(layer, row):
    """A matrix of rows `row(example, query, vectors [head key width])`, divided by their sums."""
    weights, vectors = weights_and_vectors(layer)
    matrix = torch.zeros(len(weights), N, N)
    for b, i in np.ndindex(len(weights), N):
        matrix[b, i] = row(b, i, weights[b, :, i, :, None] * vectors[b].transpose(0, 1))
        matrix[b, i] /= matrix[b, i].sum()
    return matrix


def nearness(part, whole):
    return max(0.0, float(whole.abs().sum() - (whole - part).abs().sum()))


def naive_alti(layer):
    def row(b, i, by_head):
        parts = by_head.sum(0)
        parts[i] += layer.residual[b, i]
        return torch.tensor([nearness(parts[j], layer.after_attention[b, i]) for j in range(N)])

    return loop(layer, row)


def naive_routes(layer, by_head=False):
    def row(b, i, vectors):
        whole, parts = layer.after_attention[b, i], vectors if by_head else vectors.sum(0, keepdim=True)
        edges = torch.tensor([sum(nearness(z, whole) for z in parts[:, j]) for j in range(N)])
        edges[i] += nearness(layer.residual[b, i], whole)
        return edges

    return loop(layer, row)


def naive_lengths(layer):
    """Kobayashi's norms, from the model's own matrices, one head and key at a time."""
    attention = torch.zeros(len(layer.stream), layer.call.query.shape[1], N, N)
    attention[..., layer.keys(ALL)] = layer.attention(ALL)
    values = layer.call.value.repeat_interleave(attention.shape[1] // layer.call.value.shape[1], 1)
    channels, found = values.shape[-1], torch.zeros(len(attention), N, N)
    weight = layer.anatomy.weight.unflatten(0, (-1, channels))
    for b, i, j in np.ndindex(found.shape):
        of_heads = [attention[b, h, i, j] * (values[b, h, j] @ weight[h]) for h in range(attention.shape[1])]
        found[b, i, j] = sum(of_heads).norm()
    return found


@torch.no_grad()
def by_hook(model, ids, number, token):
    """The output of a layer in which one token's value is zero: attention of the original, in the layer."""
    layer = layers_of(model)[number]
    outputs = []

    def zeroed(call):
        call.value = call.value.clone()
        call.value[:, :, token] = 0
        call.inputs = (*call.inputs[:2], call.value, *call.inputs[3:])
        return Affine(1.0)

    handle = layer.register_forward_hook(lambda m, i, o: outputs.append(o[0] if isinstance(o, tuple) else o))
    with changing(model, {number: zeroed}):
        model(input_ids=ids)
    handle.remove()
    return outputs[0]


def naive_zeroing(model, ids, number, output):
    similar = torch.nn.functional.cosine_similarity
    columns = [1 - similar(by_hook(model, ids, number, j).double(), output.double(), -1) for j in range(N)]
    matrix = torch.stack(columns, -1).float()
    return matrix / matrix.sum(-1, keepdim=True)


def rolled_out(matrices, residual=False):
    return rollout(torch.stack(matrices, 1)[:, :, None], rows=[QUERY], residual=residual)[:, 0]


def frozen(norm, at, part):
    """A part of what a norm is given, in its output: all but the bias, with the number that it divides by."""
    if "LayerNorm" in type(norm).__name__:
        gain = getattr(norm, "weight", 1) + ("1P" in type(norm).__name__)
        return gain * (part - part.mean(-1, keepdim=True)) / (at.var(correction=0) + 1e-5).sqrt()
    return part if norm is None or isinstance(norm, torch.nn.Identity) else part * norm(at) / at


def up_to_the_margin(model, layers, number, part, after_attention=True):
    """What a part of the query's stream in a layer adds to the margin of 7 over 9, past all later blocks."""
    for at, layer in enumerate(layers[number:]):
        m, anatomy = layer.after_attention[0, QUERY], layer.anatomy
        if at or not after_attention:
            o = layer.attended[0, QUERY]
            inner = o if anatomy.on_attention is None else anatomy.on_attention(o)
            part = frozen(anatomy.on_sum, layer.stream[0, QUERY] + inner, part)
        part = frozen(anatomy.on_output, m + anatomy.feed_forward(m[None, None])[0, 0], part)
    if isinstance(model, Transformer):
        norm, head = model.norm, model.classify
    else:
        norm = getattr(model.base_model, "ln_f", None) or model.base_model.norm
        head = model.get_output_embeddings()
    last = layers[-1].output[0, QUERY]
    weight, cap = head.weight[[7, 9]], getattr(model.config, "final_logit_softcapping", None)
    if cap:
        logits = norm(last) @ weight.T
        weight = weight * (cap * (logits / cap).tanh() / logits)[:, None]
    return frozen(norm, last, part) @ (weight[0] - weight[1])


@torch.no_grad()
def test_alti_logit_is_what_attention_adds_to_the_logit_followed_down(model):
    layers, expected, below = parts_of(model, IDS[:1]), torch.zeros(N), torch.eye(N)
    for number, layer in enumerate(layers):
        weights, vectors = weights_and_vectors(layer)
        carried = vectors[0].transpose(0, 1)
        by_key = (weights[0, :, QUERY, :, None] * carried).sum(0)
        expected += up_to_the_margin(model, layers, number, by_key) @ below
        below = naive_alti(layer)[0] @ below
    found = METHODS["ALTI-Logit"](model, IDS[:1], query=QUERY, target=7, foil=9)[0]
    close(found, expected, atol=1e-4)


def olmo():
    torch.manual_seed(0)
    return wild(hf.OlmoForCausalLM(hf.OlmoConfig(**SIZE, num_key_value_heads=2)))


def nemotron():
    torch.manual_seed(0)
    return wild(hf.NemotronForCausalLM(hf.NemotronConfig(**SIZE, num_key_value_heads=2, head_dim=6)))


@pytest.mark.parametrize("make", [llama, olmo, nemotron, gemma2])
@torch.no_grad()
def test_alti_logit_and_what_is_not_shared_out_are_the_logit(make):
    model = make()
    for name, bias in model.named_parameters():  # which no part would bring
        bias.mul_("bias" not in name)
    layers = parts_of(model, IDS[:1])
    others = up_to_the_margin(model, layers, 0, layers[0].stream[0, QUERY], after_attention=False)
    for number, layer in enumerate(layers):
        block = layer.anatomy.feed_forward(layer.after_attention[:, [QUERY]])[0, 0]
        others += up_to_the_margin(model, layers, number + 1, block, after_attention=False)
    logits = model(IDS[:1]).logits[0, QUERY]
    found = METHODS["ALTI-Logit"](model, IDS[:1], query=QUERY, target=7, foil=9)[0]
    close(found.sum() + others, logits[7] - logits[9], atol=1e-3)


LOOPS = {
    "ALTI": (METHODS["ALTI"], alti_rows, naive_alti),
    "routes": (information_flow_routes, route_rows, naive_routes),
    "routes by head": (
        partial(information_flow_routes, by_head=True),
        route_rows_by_head,
        partial(naive_routes, by_head=True),
    ),
}


@pytest.mark.parametrize("name", LOOPS)
@torch.no_grad()
def test_it_is_what_the_paper_says(model, name):
    (method, rows, naive), layers = LOOPS[name], parts_of(model, IDS)
    matrices = [naive(layer) for layer in layers]
    for layer, matrix in zip(layers, matrices, strict=True):
        close(shares(layer, ALL, rows), matrix)
    close(method(model, IDS, query=QUERY), rolled_out(matrices))


@torch.no_grad()
def test_value_weighted_attention_is_kobayashis_norm(model):
    lengths = [naive_lengths(layer) for layer in parts_of(model, IDS)]
    close(METHODS["value-weighted attention"](model, IDS, query=QUERY), lengths[-1][:, QUERY])
    mean = torch.stack(lengths).mean(0)[:, QUERY]
    close(METHODS["mean value-weighted attention"](model, IDS, query=QUERY), mean)
    normalised = [each / each.sum(-1, keepdim=True) for each in lengths]
    found = METHODS["rollout of value-weighted attention"](model, IDS, query=QUERY)
    close(found, rolled_out(normalised, residual=True))
    for layer, each in zip(parts_of(model, IDS), normalised, strict=True):
        close(shares(layer, ALL, length_rows), (each + torch.eye(N)) / 2)


@torch.no_grad()
def test_value_zeroing_is_zeroing_a_value_and_running_the_layer_again(model):
    layers = parts_of(model, IDS)
    matrices = [naive_zeroing(model, IDS, i, layer.output) for i, layer in enumerate(layers)]
    for layer, matrix in zip(layers, matrices, strict=True):
        close(shares(layer, ALL, zeroing_rows), matrix, atol=1e-4)
    close(METHODS["value zeroing"](model, IDS, query=QUERY), rolled_out(matrices), atol=1e-4)


@torch.no_grad()
def test_one_layer_worked_out_by_hand():
    """Two heads carry a coordinate each, and look at both tokens equally, which they see as (1, -1), (-1, 1).

    Query 1 gets (3, 0) / 2 and (0, -4) / 2 from token 0, (1, 0) / 2 and (0, -2) / 2 from itself, so it has
    x + (2, -3). By hand for x = (-1, 3) and (-1, 9).
    """
    model = Transformer(
        TransformerConfig(3, n_layers=1, n_heads=2, width=2, norm="pre", positions="none", causal=True)
    ).eval()
    layer = model.layers[0].attention
    for weight in (layer.qkv.weight, layer.qkv.bias, layer.out.weight):
        weight.zero_()
    layer.qkv.weight[4:] = layer.out.weight[:] = torch.eye(2)
    layer.qkv.bias[4:] = torch.tensor([2.0, -3.0])
    model.embedding.weight[:] = torch.tensor([[30.0, 10.0], [-1.0, 3.0], [-1.0, 9.0]])

    def found(method, token):
        return attribute(model, torch.tensor([0, token]), method=method)

    by_head = partial(information_flow_routes, by_head=True)

    close(found("value-weighted attention", 1), torch.tensor([2.5, 1.25**0.5]), atol=1e-4)
    # (1, 0) of length 1: shorter by .5 without (1.5, 0) or (.5, 0), and longer without (0, -2), (0, -1) or x
    close(found(by_head, 1), torch.tensor([0.5, 0.5]), atol=1e-4)
    # without (1.5, -2), (.5, -1), x, or the last two together it is longer: it stays with itself
    for name in ("ALTI", "information flow routes"):
        close(found(name, 1), torch.tensor([0.0, 1.0]), atol=1e-4)
    # (1, 6) of length 7: shorter by .5 without each first coordinate, and by 7 - |(2, -3)| = 2 without x
    close(found(by_head, 2), torch.tensor([0.5, 2.5]) / 3, atol=1e-4)
    # heads together, 7 - |(-.5, 8)| < 0 and 7 - |(.5, 7)| < 0; and with x, 7 - |(1.5, -2)| = 3.5
    for name in ("ALTI", "information flow routes"):
        close(found(name, 2), torch.tensor([0.0, 1.0]), atol=1e-4)
    # values of (2, 3) instead: token 0 brings (1.5, 1), token 1 (.5, 2), and m is (1, 6) with x = (-1, 3)
    layer.qkv.bias[4:] = torch.tensor([2.0, 3.0])
    # 7 - |(-.5, 5)| = 1.5, 7 - |(.5, 4)| = 2.5, 7 - |(2, 3)| = 2
    close(found("information flow routes", 1), torch.tensor([1.5, 4.5]) / 6, atol=1e-4)
    # 1.5, and 7 - |(1.5, 1)| = 4.5: nothing is opposed here
    close(found("ALTI", 1), torch.tensor([1.5, 4.5]) / 6, atol=1e-4)


# ---- what has to hold


def test_blocks_of_any_size_give_the_same(model, monkeypatch):
    methods = {name: METHODS[name] for name in OURS} | {
        "by head": partial(information_flow_routes, by_head=True)
    }
    expected = attributions(model, IDS, methods, query=QUERY)
    for room in (1, 3 * IDS.numel() * 24):
        for room_of in ("ROOM", "ATTENTION_ROOM"):
            monkeypatch.setattr(decomposition, room_of, room)
        for name, scores in attributions(model, IDS, methods, query=QUERY).items():
            close(scores, expected[name], atol=1e-6)


@pytest.mark.parametrize("norm", ["pre", "post"])
@given(data=st.data(), seed=st.integers(0, 99), causal=st.booleans(), size=st.sampled_from([0.01, 1.0, 5.0]))
@settings(max_examples=10)
def test_shares_are_shares(norm, data, seed, causal, size):
    ids = torch.tensor(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=9)))
    query = data.draw(st.integers(0, len(ids) - 1))
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(10, n_heads=2, width=8, norm=norm, causal=causal))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * size)
    for name, scores in attributions(model, ids, OURS, query=query).items():
        assert scores.isfinite().all() and (scores >= 0).all(), name
        if name in SUM_TO_1:
            close(scores.sum(), torch.tensor(1.0))
        if causal:
            assert not scores[query + 1 :].any(), name


@pytest.mark.parametrize("make", [lambda: own("post", True), llama, gpt2, gemma2])
def test_precisions(make):
    expected = attributions(make(), IDS, OURS)
    for name, scores in attributions(make().double(), IDS, OURS).items():
        assert scores.dtype == torch.float64
        close(scores.float(), expected[name], atol=1e-4)
    for name, scores in attributions(make().bfloat16(), IDS, OURS).items():
        assert scores.dtype == torch.float32 and scores.isfinite().all()
        close(scores, expected[name], atol=0.1 * float(expected[name].max()))


# ---- what is refused


def granite():
    torch.manual_seed(0)
    return hf.GraniteForCausalLM(hf.GraniteConfig(**SIZE, residual_multiplier=0.5)).eval()


def gated():
    class GatedAttention(type(llama().model.layers[0].self_attn)):
        def forward(self, *given, **named):
            mixed, weights = super().forward(*given, **named)
            return mixed * 1.1, weights

    model = llama()
    for layer in model.model.layers:
        layer.self_attn.__class__ = GatedAttention
    return model


def test_models_of_another_kind_are_told_which_part_is_not_understood():
    torch.manual_seed(0)
    cases = {
        "CohereDecoderLayer.*input_layernorm, mlp, self_attn": hf.CohereForCausalLM(hf.CohereConfig(**SIZE)),
        "output of a GraniteDecoderLayer is not the sum": granite(),
        "output of a GatedAttention is not the sum of what its heads carry": gated(),
        "parts that are not understood": hf.BertForMaskedLM(hf.BertConfig(**SIZE)),
    }
    for message, model in cases.items():
        with pytest.raises(ValueError, match=message):
            attribute(model.eval(), IDS[0], method="ALTI")


def test_a_projection_of_another_kind():
    model = llama()
    for layer in model.model.layers:
        layer.self_attn.o_proj = torch.nn.Sequential(layer.self_attn.o_proj)
    with pytest.raises(ValueError, match=r"output projection .*\.Sequential, is not understood"):
        attribute(model, IDS[0], method="value zeroing")


def test_a_kernel_without_weights():
    from attnlib.models.transformer import attend

    model = own("pre", True)
    for layer in model.layers:
        layer.attention.attend = lambda *given, **how: attend(*given, **how)
    with pytest.raises(ValueError, match="forms no attention weights"):
        attribute(model, IDS[0], method="ALTI")

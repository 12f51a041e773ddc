"""Relevance in many families of models, against gradient x embedding of models frozen by hand."""

from __future__ import annotations

import inspect

import pytest
import torch
import transformers as hf
from torch.nn.functional import gelu, layer_norm, linear, silu

from attnlib.attribution import METHODS, attribute
from attnlib.attribution.linearised import scaled
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import reinforced
from tests.attnlib.architectures import built
from tests.attnlib.attribution.test_attribution import close

SIZE = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZE |= {"intermediate_size": 64, "max_position_embeddings": 128, "pad_token_id": 0}
GROUPED = SIZE | {"num_key_value_heads": 2}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
IDS = torch.randint(3, 60, (1, 14), generator=torch.Generator().manual_seed(1))
CONSTANT = "LRP, attention held constant"


def made(name, head="ForCausalLM", **settings):
    """A model without biases, and with norms that scale."""
    torch.manual_seed(0)
    config = getattr(hf, f"{name}Config")(**settings)
    model = getattr(hf, name + head)(config).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            drawn = torch.randn(weight.shape, generator=generator)
            weight.copy_(weight + 0.3 * drawn if weight.ndim == 1 else drawn * weight.shape[-1] ** -0.5)
            weight.mul_(not ("bias" in key or "position_embeddings" in key or "token_type" in key))
    return model


# ---- the models, frozen by hand: what they divide by and choose by is a constant


def rms(norm, x):
    return norm.weight * x * (x.square().mean(-1, True) + norm.variance_epsilon).rsqrt().detach()


def deviation(gain):
    def frozen(norm, x):
        eps = getattr(norm, "eps", getattr(norm, "variance_epsilon", 1e-5))
        centred = x - x.mean(-1, True)
        return gain(norm) * centred * (centred.square().mean(-1, True) + eps).rsqrt().detach()

    return frozen


def weight(norm):
    return norm.weight


NORMS = {
    "LlamaRMSNorm": rms,
    "MixtralRMSNorm": rms,
    "OlmoLayerNorm": deviation(lambda norm: 1.0),
    "CohereLayerNorm": deviation(weight),
    "Cohere2LayerNorm": deviation(weight),
    "NemotronLayerNorm1P": deviation(lambda norm: norm.weight + 1),
    "LayerNorm": deviation(weight),
}


def ratio(function, x):
    return x * (function(x) / x).detach()


def half(x, y):
    return (x * y.detach() + x.detach() * y) / 2


def gated(mlp, x):
    return mlp.down_proj(half(ratio(silu, mlp.gate_proj(x)), mlp.up_proj(x)))


def plain(mlp, x):
    return mlp.down_proj(ratio(lambda z: z.relu().square(), mlp.up_proj(x)))


def one_projection(mlp, x):
    given, gate = mlp.Wi(x).chunk(2, -1)
    return mlp.Wo(half(ratio(gelu, given), gate))


def experts(block, x):
    share, chosen = block.gate.weight.matmul(x.mT).mT.softmax(-1).detach().topk(2, -1)
    share, y = share / share.sum(-1, keepdim=True), torch.zeros_like(x)
    for expert in range(4):
        gate, up = linear(x, block.experts.gate_up_proj[expert]).chunk(2, -1)
        out = linear(half(ratio(silu, gate), up), block.experts.down_proj[expert])
        y = y + out * (share * (chosen == expert)).sum(-1, keepdim=True)
    return y


def bert_head(head, x):
    return head.decoder(deviation(weight)(head.layer_norm, ratio(gelu, head.dense(x))))


BLOCKS = dict.fromkeys(("LlamaMLP", "OlmoMLP", "CohereMLP", "Cohere2MLP"), gated)
BLOCKS |= {"NemotronMLP": plain, "MixtralSparseMoeBlock": experts, "RobertaLMHead": bert_head}
BLOCKS |= {"XLMRobertaLMHead": bert_head, "GELUActivation": lambda module, x: ratio(gelu, x)}
BLOCKS |= dict.fromkeys(("ModernBertMLP", "ModernBertDecoderMLP"), one_projection)


def constant(module, q, k, v, attention_mask, scaling, **kwargs):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * scaling + (0 if attention_mask is None else attention_mask)
    return (scores.softmax(-1).detach() @ v).transpose(1, 2).contiguous(), None


def products(module, q, k, v, attention_mask, scaling, **kwargs):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = half_of(q, k.mT) * scaling + (0 if attention_mask is None else attention_mask)
    return half_of(scores.softmax(-1), v).transpose(1, 2).contiguous(), None


def half_of(x, y):
    return (x @ y.detach() + x.detach() @ y) / 2


METHODS_BY_HAND = {CONSTANT: constant, "AttnLRP": products}


def by_hand(model, target, attention, monkeypatch):
    """The logit, and gradient x embedding of the frozen model."""
    embedded = model.get_input_embeddings()(IDS).detach().requires_grad_()
    with monkeypatch.context() as patch:
        for module in model.modules():
            frozen = (NORMS | BLOCKS).get(type(module).__name__)
            if frozen is not None:
                patch.setattr(module, "forward", lambda x, frozen=frozen, module=module: frozen(module, x))
        kinds = {inspect.getmodule(type(module)) for module in model.modules()}
        for file in kinds:
            if hasattr(file, "eager_attention_forward"):
                patch.setattr(file, "eager_attention_forward", attention)
        model.set_attn_implementation("eager")
        logit = model(inputs_embeds=embedded).logits[0, -1, target]
        model.set_attn_implementation("sdpa")
    (gradient,) = torch.autograd.grad(logit, embedded)
    return logit.detach(), (embedded.detach() * gradient).sum(-1)[0]


FAMILIES = {
    name: (name, "ForCausalLM", GROUPED) for name in ("Llama", "Olmo", "Cohere", "Cohere2", "Nemotron")
}
FAMILIES |= {
    "ModernBertDecoder": ("ModernBertDecoder", "ForCausalLM", SIZE),
    "Mixtral": ("Mixtral", "ForCausalLM", GROUPED | EXPERTS),
    "Roberta": ("Roberta", "ForMaskedLM", SIZE),
    "XLMRoberta": ("XLMRoberta", "ForMaskedLM", SIZE),
    "ModernBert": ("ModernBert", "ForMaskedLM", SIZE),
}


@pytest.mark.parametrize("method", METHODS_BY_HAND)
@pytest.mark.parametrize("family", FAMILIES)
def test_relevance_is_gradient_x_embedding_of_the_model_frozen_by_hand(family, method, monkeypatch):
    name, head, settings = FAMILIES[family]
    model = made(name, head, **settings)
    with torch.no_grad():
        logits = model(input_ids=IDS).logits[0, -1]
    target = int(logits.argmax())
    logit, expected = by_hand(model, target, METHODS_BY_HAND[method], monkeypatch)
    close(logit, logits[target], atol=1e-4)
    if method == CONSTANT:
        close(expected.sum(), logit, atol=1e-4)
    close(attribute(model, IDS[0], target=target, method=method), expected, atol=1e-4)


def test_relevance_does_not_depend_on_how_a_model_writes_its_norms_and_gates():
    """The same by other names of classes, named arguments of functions, and one projection cut in two."""
    model, methods = made("Llama", **GROUPED), (CONSTANT, "AttnLRP")
    expected = [attribute(model, IDS[0], target=7, method=method) for method in methods]

    class Scale(type(model.model.norm)):
        """No name that says what it is."""

    class Feeding(torch.nn.Module):
        def __init__(self, mlp):
            super().__init__()
            both = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
            self.both, self.back = torch.nn.Parameter(both), mlp.down_proj

        def forward(self, x):
            given, times = linear(x, self.both).chunk(2, -1)
            return self.back(silu(input=given).mul(other=times))

    for module in model.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            module.__class__ = Scale
    for layer in model.model.layers:
        layer.mlp = Feeding(layer.mlp)
    for method, scores in zip(methods, expected, strict=True):
        close(attribute(model, IDS[0], target=7, method=method), scores, atol=1e-6)


def test_a_norm_that_is_a_function_is_one():
    class Centred(torch.nn.Module):
        def forward(self, x):
            return layer_norm(x.float(), x.shape[-1:], None, None, 1e-5)

    class ByHand(torch.nn.Module):
        def forward(self, x):
            x = x - x.mean(-1, keepdim=True)
            return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)

    found = []
    for norm in (Centred, ByHand):
        model = made("Olmo", **GROUPED)
        for layer in model.model.layers:
            layer.input_layernorm, layer.post_attention_layernorm = norm(), norm()
        found.append(attribute(model, IDS[0], target=7, method="AttnLRP"))
    plain = attribute(made("Olmo", **GROUPED), IDS[0], target=7, method="AttnLRP")
    close(found[0], plain)
    close(found[1], plain)


def test_each_use_of_a_tensor_gets_its_own_share():
    """Layers that share keys and values, or whose values are their keys, use one tensor several times."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (scaled(x, 1 / 2) + 3 * scaled(x, 1 / 4) + x).sum().backward()
    close(x.grad, torch.tensor([2.25, 2.25]))


# ---- what is tried once, and refused


class Bent(torch.nn.Module):
    """An activation that is not 0 at 0: no rule describes it."""

    def forward(self, x):
        return torch.nn.functional.softplus(x)


@pytest.mark.parametrize("method", ["AttnLRP", CONSTANT])
def test_a_model_that_loses_relevance_is_refused(method):
    model = made("Llama", **GROUPED)
    for layer in model.model.layers:
        layer.mlp.act_fn = Bent()
    with pytest.raises(ValueError, match=r"do not describe LlamaForCausalLM: .* Take .*gradient x embedding"):
        attribute(model, IDS[0], method=method)


def test_a_model_that_reads_tokens_by_more_than_their_embeddings_is_refused():
    """Gemma 4 adds vectors of the tokens in every layer."""
    kinds = ["sliding_attention", "full_attention", "full_attention"]
    more = {"layer_types": kinds, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 60}
    sizes = {"head_dim": 8, "global_head_dim": 8, "num_kv_shared_layers": 0}
    torch.manual_seed(0)
    model = hf.Gemma4ForCausalLM(hf.Gemma4TextConfig(**GROUPED, **more, **sizes)).eval()
    other = IDS[0].flip(0)
    for method in ("AttnLRP", "activation patching", "attribution patching"):
        with pytest.raises(ValueError, match="reads tokens by more than their input embeddings"):
            attribute(model, IDS[0], method=method, counterfactual=other)


def test_trying_a_model_changes_nothing_and_draws_nothing():
    model = made("Llama", **GROUPED).train()
    state, grads = torch.get_rng_state(), [each.requires_grad for each in model.parameters()]
    attribute(model, IDS[0], method="AttnLRP")
    assert torch.equal(torch.get_rng_state(), state) and model.training
    assert [each.requires_grad for each in model.parameters()] == grads
    assert not any(module._forward_hooks for module in model.modules())
    assert all(each.grad is None for each in model.parameters())


def test_a_model_is_tried_outside_of_blocks_that_are_of_one_batch():
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(60, n_layers=2, n_heads=4, width=16, norm="pre", causal=True)
    ).eval()
    reference = torch.eye(14, dtype=torch.bool)[None]
    with reinforced(model, None, reference, 0.5):
        inside = attribute(model, IDS[0], target=3, method="AttnLRP")
    assert inside.isfinite().all() and not torch.equal(inside, METHODS["AttnLRP"](model, IDS, target=3)[0])


@pytest.mark.parametrize("kind", ["gpt2", "gpt_neox", "gemma2", "bloom", "bert"])
def test_a_model_of_any_kind_without_numbers_is_not_explained(kind):
    """What only watches attention is not: a weight behind the last attention changes none."""
    model = built("masked" if kind == "bert" else "causal", kind)
    weights = [weight for weight in model.parameters() if weight.ndim > 1]
    with torch.no_grad():
        weights[-3][1, 1] = torch.nan
    for name in METHODS:
        try:
            scores = attribute(model, IDS[0], method=name, counterfactual=IDS[0].flip(0))
        except ValueError:
            continue
        of_attention = name in ("raw attention, last layer", "mean attention", "flow") or "rollout" in name
        assert of_attention or "over null" in name or scores.isnan().any(), name


@pytest.mark.parametrize("name", METHODS)
def test_what_is_no_number_is_not_explained(name):
    model = made("Llama", **GROUPED)
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[3, 3] = torch.nan
    try:
        scores = attribute(model, IDS[0], method=name, counterfactual=IDS[0].flip(0))
    except ValueError as error:
        said = ("is not the sum", "must be finite")
        assert any(each in str(error) for each in said)
    else:
        assert scores.isnan().any()

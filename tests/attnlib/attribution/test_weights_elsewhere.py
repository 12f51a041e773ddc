"""Models whose weights are not there, or not as numbers: offloaded ones, and ones of 8 bits."""

import copy

import accelerate
import pytest
import torch
import transformers as hf
from torch import nn
from torch.ao.quantization import quantize_dynamic

from attnlib.attribution import METHODS, attribute
from attnlib.rollout import rollout_of

IDS = torch.tensor([3, 17, 5, 41, 22, 9])
OTHER = torch.tensor([3, 17, 6, 40, 22, 9])
SIZE = {"vocab_size": 48, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
DEEP = SIZE | {"intermediate_size": 24}
GROUPED = DEEP | {"num_key_value_heads": 1}
OF_GPT2 = {"vocab_size": 48, "n_embd": 16, "n_layer": 2, "n_head": 2}
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

FAMILIES = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED, **ENDS)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**OF_GPT2, **ENDS)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**GROUPED, head_dim=8, **ENDS)),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**DEEP, **ENDS)),
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**DEEP, pad_token_id=0)),
}
BY_GRADIENTS = ("gradient x embedding", "gradient norm", "integrated gradients", "attribution patching")


def model_of(family: str) -> nn.Module:
    """Random weights, far enough from 0 for attention to choose."""
    torch.manual_seed(0)
    model = FAMILIES[family]().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight + 0.1 * torch.randn_like(weight))
    return model


def said(model: nn.Module) -> dict[str, torch.Tensor | str]:
    """What every measure gives, or why it does not."""
    found: dict[str, torch.Tensor | str] = {}
    for name in METHODS:
        try:
            found[name] = attribute(model, IDS, method=name, counterfactual=OTHER)
        except ValueError as error:
            found[name] = str(error)
    return found


def assert_same(found: dict, expected: dict) -> None:
    """The same numbers, and refusals of the same measures."""
    for name, scores in expected.items():
        if isinstance(scores, str):
            assert isinstance(found[name], str), name
        else:
            assert not isinstance(found[name], str), f"{name}: {found[name]}"
            torch.testing.assert_close(found[name], scores, atol=1e-5, rtol=1e-3, equal_nan=True, msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_offloaded_weights_change_no_measure(family):
    model = model_of(family)
    offloaded = accelerate.cpu_offload(copy.deepcopy(model), execution_device=torch.device("cpu"))
    assert any(weight.device.type == "meta" for weight in offloaded.parameters())
    assert_same(said(offloaded), said(model))


class Int8(nn.Linear):
    """Weights of 8 bits and a scale for each row, as bitsandbytes' Linear8bitLt keeps them."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain.in_features, plain.out_features, plain.bias is not None)
        scale = plain.weight.detach().abs().amax(1, keepdim=True) / 127
        self.weight = nn.Parameter((plain.weight / scale).round().to(torch.int8), requires_grad=False)
        self.bias, self.scale = plain.bias, scale

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The same as of weights that were rounded."""
        return nn.functional.linear(input, self.weight * self.scale, self.bias)


class Int8WithoutGradients(Int8):
    """The same by a kernel that knows no backward pass."""

    @torch.no_grad()
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """See above."""
        return super().forward(input)


def rounded(model: nn.Module, kind: type[Int8] | None, skip: str = "") -> nn.Module:
    """The model with linear maps of 8 bits; of None, plain ones with the weights that these stand for."""
    for name, module in [*model.named_modules()]:
        if type(module) is nn.Linear and name != skip:
            small = Int8(module) if kind is None else kind(module)
            if kind is None:
                module.weight = nn.Parameter(small.weight * small.scale)  # not of what it was tied to
            else:
                model.set_submodule(name, small)
    return model


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_neox", "bert"])
def test_weights_of_8_bits_are_explained_as_what_they_stand_for(family):
    expected = said(rounded(model_of(family), None))
    assert_same(said(rounded(model_of(family), Int8)), expected)


@pytest.mark.parametrize("kind", ["without gradients", "torch's dynamic"])
@pytest.mark.parametrize("head", ["too", "left as it is"])
@pytest.mark.parametrize("family", ["llama", "gpt_neox", "bert"])
def test_parts_that_hand_no_gradient_on_are_refused(family, head, kind):
    """Else the gradient of what goes past them is given: of all but the query's own token, 0."""
    model = model_of(family)
    skip = {"llama": "lm_head", "gpt_neox": "embed_out", "bert": "cls.predictions.decoder"}[family]
    skip = skip if head == "left as it is" else ""
    if kind == "without gradients":
        model = rounded(model, Int8WithoutGradients, skip)
    else:
        names = {name for name, each in model.named_modules() if type(each) is nn.Linear and name != skip}
        model = quantize_dynamic(model, names, dtype=torch.qint8)
    for method in (*BY_GRADIENTS, "AttnLRP", "LRP, attention held constant"):
        with pytest.raises(ValueError, match="No gradient comes back through a part of"):
            attribute(model, IDS, method=method, counterfactual=OTHER)
    for method in ("blank-out", "ReAGent", "attention knockout", "rollout"):
        assert attribute(model, IDS, method=method)[:-1].isfinite().all()
    assert rollout_of(model, IDS[None]).isfinite().all()

"""Causal language models to train from scratch: any Hugging Face architecture, or our own `Transformer`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import get_ident
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from attnlib.checks import hint
from attnlib.models.attention.forward import embedded_by, logits_of
from attnlib.models.base import evaluating, seeded
from attnlib.models.devices import device_of
from attnlib.models.transformer import Transformer, TransformerConfig
from attnlib.undoing import undone

OWN = "transformer"
"""The name among the architectures of our own `Transformer`, with causal attention."""

NO_NUMBER = "computes what is no number: a weight of it is none"
"""The end of an error message about a model whose logits, or weights, are not finite."""


@cache
def architectures() -> tuple[str, ...]:
    """Names for `CausalSizes.build`: our own, and every causal language model type of transformers."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return OWN, *sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


FF_WIDTH = ("intermediate_size", "moe_intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "dff")
INIT_STD = ("initializer_range", "init_std")
DROPOUT = ("attention_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop", "dropout", "activation_dropout")
"""Names that architectures use for feed-forward width, initial weights' standard deviation, and dropout."""


@dataclass(frozen=True)
class CausalSizes:
    """The sizes of a model to be trained from scratch.

    Attributes:
        n_layers: layers.
        n_heads: attention heads per layer, each with keys and values of its own; has to divide `width`.
        width: size of the residual stream.
        ff_width: hidden size of the feed-forward blocks; `4 * width` if 0.
        max_length: the longest sequence, in tokens.
        positions: position encoding of our own transformer: "learned", "sinusoidal", "rotary" or "none".
            Other architectures have their own, and accept only the default.
    """

    n_layers: int = 2
    n_heads: int = 4
    width: int = 128
    ff_width: int = 0
    max_length: int = 512
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"

    def build(self, architecture: str, tokenizer: Any, seed: int = 0) -> nn.Module:
        r"""A causal language model with random weights.

        Weights of a Hugging Face architecture are drawn from a normal distribution with a standard deviation
        of $1/\sqrt{d}$, $d$ the width. The usual 0.02 suits $d$ of about 2,000; with it, a narrow model's
        attention starts out uniform, and the model learns addition several times slower. Attention is the
        architecture's eager implementation, so that attention weights can be read and supervised.

        Args:
            architecture: "transformer", our own with `positions`; or a Hugging Face model type: "llama"
                (rotary positions), "gpt2" (learned positions), "qwen2" ...
            tokenizer: defines the vocabulary's size and the ids of the special tokens.
            seed: seed of the initial weights. The caller's random state is not touched.

        Raises:
            ValueError: there is no such architecture; it does not allow these sizes; or it is not causal.
        """
        check_architecture(architecture)
        if min(self.n_layers, self.n_heads, self.width) < 1:
            raise ValueError(f"n_layers, n_heads and width should be at least 1; got {self}")
        if self.width % self.n_heads:
            allowed = ", ".join(str(n) for n in range(1, self.width + 1) if self.width % n == 0)
            raise ValueError(
                f"n_heads should divide width; got {self.n_heads} and {self.width} (it may be {allowed})"
            )
        if self.positions != "learned" and architecture != OWN:
            raise ValueError(
                f"positions may be chosen of {OWN!r} only; got {self.positions!r} for {architecture}, which "
                "has its own"
            )
        with seeded(seed):
            return self._own(tokenizer) if architecture == OWN else self._theirs(architecture, tokenizer)

    def _own(self, tokenizer: Any) -> Transformer:
        sizes = {"n_layers": self.n_layers, "n_heads": self.n_heads, "width": self.width}
        sizes |= {"ff_width": self.ff_width or 4 * self.width, "max_length": self.max_length}
        kind = {"causal": True, "norm": "pre", "activation": "gelu", "positions": self.positions}
        return Transformer(TransformerConfig(len(tokenizer), **sizes, **kind))  # type: ignore[arg-type]

    def _theirs(self, architecture: str, tokenizer: Any) -> nn.Module:
        from transformers import AutoModelForCausalLM

        try:
            config = _config(
                architecture,
                vocab_size=len(tokenizer),
                hidden_size=self.width,
                num_hidden_layers=self.n_layers,
                num_attention_heads=self.n_heads,
                num_key_value_heads=self.n_heads,
                head_dim=self.width // self.n_heads,
                **dict.fromkeys(FF_WIDTH, self.ff_width or 4 * self.width),
                max_position_embeddings=self.max_length,
                **dict.fromkeys(INIT_STD, self.width**-0.5),
                **dict.fromkeys(DROPOUT, 0.0),
                pad_token_id=tokenizer.pad_token_id,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
            )
            model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
            causal = is_causal(model)
        except Exception as error:  # architectures refuse sizes by errors of any kind
            raise ValueError(
                f"{architecture} cannot be built with {self} ({type(error).__name__}: {error}); "
                'try "llama", "gpt2" or "transformer"'
            ) from error
        if not causal:
            raise ValueError(
                f"{architecture} is not causal as configured: its tokens see later ones, and would read the "
                'answer that they are to predict; take "llama", "gpt2" or "transformer"'
            )
        return model


def check_architecture(name: str) -> None:
    """Raise a `ValueError` for a name that is not in `architectures()`."""
    if name not in architectures():
        raise ValueError(
            f"the architecture should be {OWN!r}, 'llama', 'gpt2' or another causal language model's type at "
            f"Hugging Face; got {name!r}{hint(name, architectures())}"
        )


def _config(architecture: str, **settings: Any) -> Any:
    """The architecture's configuration, with those of `settings` whose names it knows."""
    from transformers import AutoConfig

    known = AutoConfig.for_model(architecture)
    names = {*known.to_dict(), *known.attribute_map}
    own = 4 * settings["hidden_size"]
    if not names & {*FF_WIDTH} and settings[FF_WIDTH[0]] != own:
        raise ValueError(f"its feed-forward blocks have a width of their own: let ff_width be {own}")
    return AutoConfig.for_model(architecture, **{k: v for k, v in settings.items() if k in names})


def is_causal(model: Any) -> bool:
    """Whether a model's tokens see only themselves and earlier tokens.

    A `Transformer`'s configuration says so; other models are tested by their scores (`reads_ahead`). A model
    that cannot generate counts as not causal.
    """
    if isinstance(model, Transformer):
        return model.config.causal
    if not getattr(model, "can_generate", bool)():
        return False
    embedding = model.get_input_embeddings()
    ids = torch.arange(4, device=device_of(model))[None] % (embedded_by(model) or 4)
    with evaluating(model):
        return not reads_ahead(lambda given: logits_of(model, given), ids, embedding)


@torch.no_grad()
def reads_ahead(
    scores: Callable[[Int64[Tensor, "1 token"]], Float[Tensor, "1 token class"]],
    input_ids: Int64[Tensor, "1 token"],
    embedding: nn.Module | None = None,
) -> bool:
    """Whether scores at earlier tokens depend on the last token, tested by replacing the last token.

    In some models (mixtures of experts), another last token changes the rounding at other tokens. A
    difference no larger than rounding is therefore checked by the gradient with respect to the output of
    `embedding`, which is exactly 0 if the last token is not read. Without `embedding`, it counts.
    """
    last = input_ids[:, -1:]
    other = torch.cat([input_ids[:, :-1], (last == 0).to(last)], 1)  # 0 in its place, or 1 if it is 0
    first, second = (scores(each)[:, :-1] for each in (input_ids, other))
    if torch.allclose(first, second, rtol=1e-4, atol=1e-6):
        return False
    rounding = torch.finfo(first.dtype).eps ** 0.5 * first.abs().max()
    if embedding is None or not bool((first - second).abs().max() <= rounding):
        return True
    return _slope_by_last(scores, input_ids, embedding)


def _slope_by_last(
    scores: Callable[[Int64[Tensor, "1 token"]], Float[Tensor, "1 token class"]],
    input_ids: Int64[Tensor, "1 token"],
    embedding: nn.Module,
) -> bool:
    """Whether scores before the last token have a gradient by its vector, or cannot be differentiated."""
    here, read = {get_ident()}, list[Tensor]()

    def leaf(module: nn.Module, given: Any, output: Tensor) -> Tensor | None:
        if get_ident() not in here:
            return None
        read.append(output.detach().requires_grad_())
        return read[-1].clone()

    with undone(here.clear), torch.inference_mode(False), torch.enable_grad():
        handle = embedding.register_forward_hook(leaf)
        try:
            said = scores(input_ids.clone())[:, :-1].square().sum()
            slopes = torch.autograd.grad(said, read[:1]) if said.requires_grad else ()
        finally:
            handle.remove()
    return not slopes or bool(slopes[0][:, -1].any())

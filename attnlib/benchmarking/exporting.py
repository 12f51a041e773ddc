"""A compiled causal program as a GPT-2 of `transformers`, to benchmark the methods of other libraries."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from attnlib.checks import check
from attnlib.models.transformer import Layer, Transformer


@torch.no_grad()
def as_gpt2(model: Transformer) -> GPT2LMHeadModel:
    """The same computation as a `GPT2LMHeadModel` in the same precision, in evaluation mode.

    The model must be causal and pre-norm, with learned positions, ReLU and no output bias, as compiled models
    are; otherwise, a ValueError is raised. The first `n_classes` logits equal the model's up to rounding;
    logits beyond these, for a larger vocabulary, are 0.
    """
    config = model.config
    wanted = {"causal": True, "norm": "pre", "positions": "learned", "activation": "relu"}
    for name, value in wanted.items():
        given = getattr(config, name)
        check(given == value, f"{name} must be {value!r} to become a GPT-2", given)
    check(not model.classify.bias.any(), "classify.bias must be 0 to become a GPT-2", model.classify.bias)
    assert isinstance(model.norm, torch.nn.LayerNorm) and config.n_classes is not None
    gpt2 = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=max(config.vocabulary, config.n_classes),
            n_positions=config.max_length,
            n_embd=config.width,
            n_layer=config.n_layers,
            n_head=config.n_heads,
            n_inner=config.ff_width,
            activation_function="relu",
            layer_norm_epsilon=model.norm.eps,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            tie_word_embeddings=False,
            bos_token_id=config.vocabulary - 1,
            eos_token_id=None,
        )
    ).to(model.embedding.weight)
    body = gpt2.transformer
    body.wte.weight.zero_()[: config.vocabulary] = model.embedding.weight
    body.wpe.weight.copy_(model.positions)
    gpt2.lm_head.weight.zero_()[: config.n_classes] = model.classify.weight
    body.ln_f.load_state_dict(model.norm.state_dict())
    for block, layer in zip(body.h, model.layers, strict=True):
        assert isinstance(layer, Layer)
        block.ln_1.load_state_dict(layer.attention_norm.state_dict())
        block.ln_2.load_state_dict(layer.ff_norm.state_dict())
        linear = (
            (block.attn.c_attn, layer.attention.qkv),
            (block.attn.c_proj, layer.attention.out),
            (block.mlp.c_fc, layer.up),
            (block.mlp.c_proj, layer.down),
        )
        for theirs, own in linear:  # GPT-2 keeps the transpose of a linear layer's weight
            theirs.weight.copy_(own.weight.T)
            theirs.bias.copy_(own.bias)
    return gpt2.eval()

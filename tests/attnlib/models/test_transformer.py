"""The transformer: equal to torch's, indifferent to padding, and readable by head."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnlib.models import Transformer, TransformerConfig, attend
from attnlib.models.attention import evaluating
from attnlib.models.positions import sinusoids
from attnlib.models.transformer import Layer

torch.set_num_threads(1)
VOCABULARY = 11


def build(seed=0, **settings):
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(**{"vocabulary": VOCABULARY, "width": 16, **settings})).eval()


def torchs_layer(layer: Layer, config: TransformerConfig) -> nn.TransformerEncoderLayer:
    """torch's own layer with the weights of ours."""
    theirs = nn.TransformerEncoderLayer(
        config.width, config.n_heads, config.ff_width, dropout=0.0, activation=config.activation,
        batch_first=True, norm_first=config.norm == "pre",
    )  # fmt: skip
    pairs = {
        "self_attn.in_proj_": layer.attention.qkv, "self_attn.out_proj.": layer.attention.out,
        "linear1.": layer.up, "linear2.": layer.down,
        "norm1.": layer.attention_norm, "norm2.": layer.ff_norm,
    }  # fmt: skip
    theirs.load_state_dict({f"{a}{b}": w for a, ours in pairs.items() for b, w in ours.state_dict().items()})
    return theirs


def jitter(module):
    """Make biases and norms matter: they start at 0 and 1."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_layer_equals_torchs_on_the_same_weights(norm, activation, causal, padded):
    torch.manual_seed(1)
    config = TransformerConfig(
        VOCABULARY, width=16, n_heads=4, ff_width=24, norm=norm, activation=activation, causal=causal
    )
    layer = Layer(config)
    jitter(layer)
    theirs = torchs_layer(layer, config)
    x = torch.randn(3, 7, 16)
    real = torch.arange(7)[None] < torch.tensor([[7], [4], [1]])
    future = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    expected = theirs(x, src_mask=future, src_key_padding_mask=~real if padded else None)
    allowed = real[:, None, None, :] if padded else None
    if padded and causal:
        allowed = allowed & ~future
    source = layer.attention_norm(x) if norm == "pre" else x
    _, weights = theirs.self_attn(
        source, source, source, attn_mask=future, key_padding_mask=~real if padded else None,
        need_weights=True, average_attn_weights=False,
    )  # fmt: skip
    fused, none = layer(x, allowed)
    explicit, attention = layer(x, allowed, need_weights=True)
    assert none is None
    assert attention.requires_grad
    for ours in (fused, explicit):
        torch.testing.assert_close(ours[real], expected[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(attention, weights, atol=1e-6, rtol=1e-5)


def test_the_whole_model_equals_torchs_encoder():
    model = build(n_layers=3, n_heads=2, norm="pre", n_classes=4)
    jitter(model)
    ids = torch.randint(0, VOCABULARY, (2, 6))
    x = model.embedding(ids) + sinusoids(6, 16)
    for layer in model.layers:
        x = torchs_layer(layer, model.config).train()(x)
    torch.testing.assert_close(model(ids).logits, model.classify(model.norm(x)), atol=1e-4, rtol=1e-4)
    assert model(ids).logits.shape == (2, 6, 4)


def test_sinusoids_are_those_of_the_paper():
    table = sinusoids(50, 6)
    for position, pair in itertools.product((0, 1, 49), (0, 1, 2)):
        angle = torch.tensor(position / 10000 ** (2 * pair / 6))
        assert table[position, 2 * pair] == pytest.approx(angle.sin().item(), abs=1e-5)
        assert table[position, 2 * pair + 1] == pytest.approx(angle.cos().item(), abs=1e-5)


cases = st.fixed_dictionaries(
    {
        "causal": st.booleans(),
        "positions": st.sampled_from(["sinusoidal", "learned", "rotary", "none"]),
        "norm": st.sampled_from(["post", "pre"]),
        "n_heads": st.sampled_from([1, 2, 4]),
        "n_layers": st.integers(1, 3),
    }
)


@settings(max_examples=20)
@given(cases, st.integers(1, 9), st.integers(0, 5), st.sampled_from(["left", "right"]), st.integers(0, 99))
def test_padding_changes_nothing_at_real_tokens(case, length, padding, side, seed):
    model = build(seed, **case)
    jitter(model)
    ids = torch.randint(0, VOCABULARY, (1, length))
    filler = torch.randint(0, VOCABULARY, (1, padding))
    padded = torch.cat([filler, ids] if side == "left" else [ids, filler], dim=1)
    mask = torch.ones_like(padded, dtype=torch.bool)
    start = padding if side == "left" else 0
    real = slice(start, start + length)
    mask[:] = False
    mask[:, real] = True
    alone, fused = model(ids, output_attentions=True), model(padded, mask).logits
    explicit = model(padded, mask, output_attentions=True)
    torch.testing.assert_close(fused[:, real], alone.logits, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(fused, explicit.logits, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(explicit.attentions[..., real, real], alone.attentions, atol=1e-4, rtol=1e-3)
    assert (explicit.attentions[..., ~mask[0]] == 0).all(), "padding is never attended to"
    assert fused.isfinite().all()


@settings(max_examples=20)
@given(cases, st.integers(1, 9), st.integers(0, 99))
def test_attention_rows_are_distributions_and_causal_ones_never_look_ahead(case, length, seed):
    model = build(seed, **case)
    attentions = model(torch.randint(0, VOCABULARY, (2, length)), output_attentions=True).attentions
    assert attentions.shape == (2, case["n_layers"], case["n_heads"], length, length)
    torch.testing.assert_close(attentions.sum(-1), torch.ones(attentions.shape[:-1]))
    assert (attentions >= 0).all()
    ahead = attentions[..., torch.ones(length, length, dtype=torch.bool).triu(1)]
    assert (ahead == 0).all() if case["causal"] else (ahead > 0).all()


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_query_that_may_look_nowhere_gives_zeros_and_finite_gradients(need_weights):
    q, k, v = (torch.randn(2, 1, 4, 3, requires_grad=True) for _ in range(3))
    allowed = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    allowed[1, :, 2:] = False
    mixed, weights = attend(q, k, v, allowed, need_weights=need_weights)
    mixed.sum().backward()
    assert (mixed[1, :, 2:] == 0).all()
    assert (mixed[0] != 0).all()
    assert all(t.grad.isfinite().all() for t in (q, k, v))
    assert weights is None or (weights[1, :, 2:] == 0).all()


def test_attention_is_returned_before_dropout():
    model = build(dropout=0.9).train()
    attentions = model(torch.randint(0, VOCABULARY, (2, 6)), output_attentions=True).attentions
    torch.testing.assert_close(attentions.sum(-1), torch.ones(attentions.shape[:-1]))


def test_dropout_acts_on_attention_only_in_training():
    q = torch.randn(1, 1, 20, 4)
    plain, dropped = attend(q, q, q, need_weights=True)[0], attend(q, q, q, dropout=0.5, need_weights=True)[0]
    assert not torch.allclose(plain, dropped)
    model = build(dropout=0.5)
    ids = torch.randint(0, VOCABULARY, (1, 5))
    torch.testing.assert_close(model(ids).logits, model(ids).logits, atol=0, rtol=0)


def test_attend_can_be_replaced():
    model, seen = build(n_layers=2), []

    def watched(*args, **kwargs):
        seen.append(args[0].shape)
        return attend(*args, **kwargs)

    for layer in model.layers:
        layer.attention.attend = watched
    model(torch.zeros(1, 3, dtype=torch.int64))
    assert seen == [(1, 2, 3, 8)] * 2


def test_a_model_is_evaluated_while_anyone_does_so():
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5).eval())
    first, second = evaluating(model), evaluating(model[0])  # of two threads, say
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not model[0].training and model.training, "the second still evaluates it"
    second.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="stop"), evaluating(model):
        assert not any(module.training for module in model.modules())
        raise RuntimeError("stop")
    assert [module.training for module in model.modules()] == [True, True, False]


def test_heads_have_names():
    model = build(n_layers=2, n_heads=2)
    assert model.head_names == ["L0H0", "L0H1", "L1H0", "L1H1"]
    output = model(torch.randint(0, VOCABULARY, (2, 5)), output_attentions=True)
    for index, name in enumerate(model.head_names):
        assert torch.equal(output.head(name), output.attentions[:, index // 2, index % 2])
    with pytest.raises(ValueError, match="no head is called 'L2H0'; there are L0H0, L0H1, L1H0, L1H1"):
        output.head("L2H0")
    with pytest.raises(ValueError, match="output_attentions=True"):
        model(torch.zeros(1, 1, dtype=torch.int64)).head("L0H0")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_heads": 3}, r"n_heads must divide width=16: one of \[1, 2, 4, 8, 16\], not 3"),
        ({"width": 15, "n_heads": 3}, "sinusoidal positions need an even width"),
        ({"width": 6, "positions": "rotary"}, "rotary .* even number of channels per head .* not 3 = width"),
    ],
)
def test_wrong_settings_say_what_is_allowed(wrong, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**{"vocabulary": 5, "width": 16, **wrong})


def test_defaults_are_filled_in():
    config = TransformerConfig(5, width=16)
    assert (config.n_classes, config.ff_width) == (5, 64)
    assert TransformerConfig(5, width=15, n_heads=3, positions="learned", ff_width=30).ff_width == 30


def test_too_long_a_sequence_is_refused():
    model = build(max_length=4)
    model(torch.zeros(1, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"5 tokens.*max_length=4"):
        model(torch.zeros(1, 5, dtype=torch.int64))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_save_and_load(tmp_path, positions):
    model = build(causal=True, n_heads=4, positions=positions, max_length=9)
    model.save(tmp_path / "model.safetensors")
    loaded = Transformer.load(tmp_path / "model.safetensors")
    ids = torch.randint(0, VOCABULARY, (2, 9))
    assert loaded.config == model.config
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]

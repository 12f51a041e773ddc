"""Causal models from scratch: any architecture, and fit() and supervision on all of them."""

import pytest
import torch
from torch import nn

from attnlib.generators import char_tokenizer
from attnlib.generators.base import IGNORE, Batch
from attnlib.models import CausalSizes, architectures
from attnlib.training import Plan, fit
from attnlib.training.objectives import reference_loss, stacked_attentions, token_loss, token_scores

torch.set_num_threads(1)
TOKENIZER = char_tokenizer("abcdefgh")
SIZES = CausalSizes(n_layers=2, n_heads=2, width=16, max_length=16)
KINDS = ("transformer", "llama", "gpt2")


def batch_at(step):
    """Say the first symbol again at the end; the last position should look at the first."""
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(4, len(TOKENIZER), (16, 5), generator=generator)
    targets = torch.full_like(ids, IGNORE)
    targets[:, -1] = ids[:, 0]
    reference = torch.zeros(16, 5, 5, dtype=torch.bool)
    reference[:, -1, 0] = True
    return Batch(ids, targets, torch.ones_like(ids).bool(), reference=reference)


def plan(steps, **settings):
    return Plan(**{"steps": steps, "evaluate_every": 5, "device": "cpu", "learning_rate": 0.01, **settings})


@pytest.mark.parametrize("kind", [*KINDS, "qwen2", "gpt_neox"])
def test_an_architecture_has_the_sizes_asked_for_and_the_same_weights_for_a_seed(kind):
    torch.manual_seed(7)
    first, second, other = (SIZES.build(kind, TOKENIZER, seed) for seed in (0, 0, 1))
    assert torch.initial_seed() == 7
    weights, same, others = (nn.utils.parameters_to_vector(m.parameters()) for m in (first, second, other))
    assert torch.equal(weights, same) and not torch.equal(weights, others)
    with torch.no_grad():
        output = first(torch.arange(6)[None], output_attentions=True)
    assert stacked_attentions(output).shape == (1, 2, 2, 6, 6)
    assert output.logits.shape[-1] == len(TOKENIZER)


@pytest.mark.parametrize(("kind", "layer"), [("gpt2", "mlp.c_fc"), ("opt", "fc1"), ("llama", "up_proj")])
def test_a_feed_forward_block_has_the_width_asked_for(kind, layer):
    model = CausalSizes(n_layers=1, width=16, ff_width=24, max_length=16).build(kind, TOKENIZER)
    (block,) = [part for name, part in model.named_modules() if name.endswith(layer)]
    assert sorted(block.weight.shape) == [16, 24]
    assert not any(part.p for part in model.modules() if isinstance(part, nn.Dropout))


@pytest.mark.parametrize(
    ("kind", "sizes", "message"),
    [
        ("lama", SIZES, r"got 'lama'; did you mean 'llama'\?"),
        ("llama", CausalSizes(width=16, n_heads=3), r"got 3 and 16 \(it may be 1, 2, 4, 8, 16\)"),
        ("bert", SIZES, "bert is not causal as configured"),
        ("gpt_neo", SIZES, "gpt_neo cannot be built with"),
        ("bloom", CausalSizes(width=16, ff_width=24), "a width of their own: let ff_width be 64"),
        ("llama", CausalSizes(width=16, n_heads=0), "should be at least 1; got"),
    ],
)
def test_what_cannot_be_built_is_refused(kind, sizes, message):
    with pytest.raises(ValueError, match=message):
        sizes.build(kind, TOKENIZER)
    assert kind in architectures() or kind == "lama"


@pytest.mark.parametrize("kind", KINDS)
def test_fit_trains_it_and_finds_it_trained(kind, tmp_path):
    score = lambda model: token_scores(model, [batch_at(-1)])  # noqa: E731
    how = {"evaluate": score, "folder": tmp_path, "progress": False}
    first, again = SIZES.build(kind, TOKENIZER), SIZES.build(kind, TOKENIZER)
    histories = [fit(model, batch_at, token_loss(), plan(10), **how) for model in (first, again)]
    assert histories[0].rows == histories[1].rows
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])


@pytest.mark.parametrize(("kind", "heads"), [("transformer", [(1, 0)]), ("llama", [(1, 0)]), ("gpt2", None)])
def test_supervision_moves_attention_to_the_reference(kind, heads):
    def mass(model):
        with torch.no_grad():
            attentions = stacked_attentions(model(batch_at(-1).input_ids, output_attentions=True))
        chosen = attentions if heads is None else attentions[:, 1:, :1]
        return float(chosen[..., -1, 0].mean())

    model = SIZES.build(kind, TOKENIZER)
    before = mass(model)
    history = fit(model, batch_at, reference_loss(1.0, heads), plan(40, learning_rate=0.03), progress=False)
    assert mass(model) > max(0.8, before)
    assert history.rows[-1]["attention"] < history.rows[0]["attention"]


def test_the_loss_is_what_its_equation_says():
    model, batch = SIZES.build("transformer", TOKENIZER), batch_at(0)
    losses = reference_loss(2.0, [(0, 1), (1, 0)])(model, batch)
    attentions = stacked_attentions(model(batch.input_ids, output_attentions=True))
    mean = (attentions[:, 0, 1] + attentions[:, 1, 0]) / 2
    torch.testing.assert_close(losses["attention"], -mean[:, -1, 0].log().mean())
    torch.testing.assert_close(losses["loss"], losses["cross_entropy"] + 2 * losses["attention"])


def test_without_a_reference_or_weight_it_is_the_plain_loss():
    model, batch = SIZES.build("transformer", TOKENIZER), batch_at(0)
    plain = token_loss()(model, batch)["loss"]
    assert torch.equal(reference_loss(0)(model, batch)["loss"], plain)
    unlabelled = Batch(batch.input_ids, batch.target_ids, batch.attention_mask)
    assert set(reference_loss(1)(model, unlabelled)) == {"loss", "cross_entropy"}


def test_what_cannot_be_supervised_is_refused():
    model, batch = SIZES.build("llama", TOKENIZER), batch_at(0)
    with pytest.raises(ValueError, match=r"^heads must be of 2 layers of 2 heads; got L2H0"):
        reference_loss(1, [(2, 0)])(model, batch)
    with pytest.raises(ValueError, match="the model returned no attention"):
        stacked_attentions(model(batch.input_ids))

"""A pass over texts laid end to end: the plain pass's numbers, whatever the model; and what it refuses."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch

from attnlib.generators import IGNORE
from attnlib.generators.base import Batch
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import watching
from attnlib.training import token_loss
from attnlib.training.packed import PackedLoss, Packing, packed_pass

LENGTHS = [3, 9, 1, 9, 5, 2, 7]
KINDS = [
    {"positions": "sinusoidal", "norm": "post"},
    {"positions": "learned", "norm": "pre", "activation": "gelu"},
    {"positions": "rotary", "norm": "pre", "causal": True},
    {"positions": "none", "norm": "post", "causal": True},
]


def transformer(**kind):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(11, 5, width=16, n_heads=2, max_length=9, **kind))


def batch(lengths=LENGTHS):
    generator = torch.Generator().manual_seed(1)
    shape = (len(lengths), max(lengths))
    mask = torch.arange(shape[1]) < torch.tensor(lengths)[:, None]
    ids = torch.randint(0, 11, shape, generator=generator)
    targets = torch.where(mask, torch.randint(0, 5, shape, generator=generator), IGNORE)
    pairs = mask[:, :, None] & mask[:, None, :]
    attention = {
        head: torch.rand(pairs.shape, generator=generator).gt(0.5) & pairs for head in [(0, 1), (1, 0)]
    }
    return Batch(ids, targets, mask, target_attention=attention)


def gradients(model, loss, samples):
    losses = loss(model, samples)
    grads = torch.autograd.grad(losses["loss"], list(model.parameters()), allow_unused=True)
    names = [name for name, _ in model.named_parameters()]
    return losses, dict(zip(names, grads, strict=True))


@pytest.mark.parametrize("group", [1, 3, 50])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["positions"])
def test_logits_and_attention_are_those_of_the_plain_pass(kind, group):
    model, samples = transformer(**kind).eval(), batch()
    plain = model(**samples.inputs, output_attentions=True)
    packing = Packing.of(samples.attention_mask, group)
    found = packed_pass(model, samples.input_ids, packing, output_attentions=True)
    real = packing.lay(samples.attention_mask)
    assert int(real.sum()) == sum(LENGTHS)
    torch.testing.assert_close(found.logits[real], packing.lay(plain.logits)[real], atol=1e-5, rtol=1e-5)
    without = packed_pass(model, samples.input_ids, packing)
    assert without.attentions is None
    torch.testing.assert_close(without.logits[real], found.logits[real], atol=1e-5, rtol=1e-5)
    for rows, mask, attention in zip(packing.rows, packing.masks, found.attentions, strict=True):
        for row, real, one in zip(rows, mask, attention, strict=True):
            n = int(real.sum())
            whole = plain.attentions[row][..., :n, :n]
            torch.testing.assert_close(one[..., :n, :n], whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("how", [{}, {"as_published": True}], ids=["ours", "as published"])
@pytest.mark.parametrize("weight", [0.0, 3.0])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["positions"])
def test_losses_and_gradients_are_those_of_the_plain_pass(kind, weight, how):
    model, samples = transformer(**kind).train(), batch()
    losses, plain = gradients(model, token_loss(weight, **how), samples)
    ours, packed = gradients(model, PackedLoss(weight, group=3, **how), samples)
    assert set(ours) == set(losses)
    torch.testing.assert_close(ours, losses, atol=1e-5, rtol=1e-5)
    for name, gradient in plain.items():
        torch.testing.assert_close(packed[name], gradient, atol=1e-5, rtol=1e-5, msg=name)


def test_bf16_is_the_plain_pass_to_its_precision():
    model, samples = transformer().train(), batch()
    with torch.autocast("cpu", torch.bfloat16):
        rough, found = gradients(model, PackedLoss(group=3), samples)
    torch.testing.assert_close(rough["loss"], token_loss()(model, samples)["loss"], atol=0.02, rtol=0.02)
    assert all(gradient.dtype == torch.float32 for gradient in found.values())


def test_dropout_is_drawn_in_training_only():
    model, samples = transformer(dropout=0.5), batch()
    packing = Packing.of(samples.attention_mask)
    first, second = (packed_pass(model.train(), samples.input_ids, packing).logits for _ in range(2))
    assert not torch.equal(first, second)
    first, second = (packed_pass(model.eval(), samples.input_ids, packing).logits for _ in range(2))
    assert torch.equal(first, second)


def test_most_padding_is_left_out():
    lengths = torch.arange(1, 101)
    mask = torch.arange(100) < lengths[:, None]
    assert len(Packing.of(mask, 5).laid) == 5 * sum(range(5, 101, 5)) < 0.53 * mask.numel()


def test_another_thread_may_watch_the_model_or_pass_it_packed_meanwhile():
    """Each thread has its own: what stands in place of attention here is not there."""
    model, samples, watched = transformer().eval(), batch(), Event()
    packing, done, plain = Packing.of(samples.attention_mask), Event(), model(**batch().inputs).logits

    def look_on():
        with watching(model):
            watched.set()
            done.wait(10)
            return model(**samples.inputs).logits

    def both_ways(_):
        return packed_pass(model, samples.input_ids, packing).logits, model(**samples.inputs).logits

    real = packing.lay(samples.attention_mask)
    with ThreadPoolExecutor(4) as threads:
        watcher = threads.submit(look_on)
        watched.wait(10)
        found = list(threads.map(both_ways, range(30)))
        done.set()
        torch.testing.assert_close(watcher.result(), plain)
    for packed, own in found:
        torch.testing.assert_close(packed[real], packing.lay(plain)[real])
        torch.testing.assert_close(own, plain)


def test_what_a_packed_pass_refuses():
    model, samples = transformer(), batch()
    with pytest.raises(ValueError, match="padding on the right"):
        Packing.of(samples.attention_mask.flip(1))
    longer = batch([12, 3])
    with pytest.raises(ValueError, match=r"^texts must have at most max_length=9"):
        packed_pass(model, longer.input_ids, Packing.of(longer.attention_mask))
    packing = Packing.of(samples.attention_mask)
    with watching(model), pytest.raises(ValueError, match="watched or changed by an open block"):
        packed_pass(model, samples.input_ids, packing)
    packed_pass(model, samples.input_ids, packing)  # and nothing of the block is left
    with pytest.raises(ValueError, match=r"^model must be a Transformer"):
        PackedLoss()(torch.nn.Linear(2, 2), samples)

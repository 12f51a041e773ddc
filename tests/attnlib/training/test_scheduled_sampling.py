"""Scheduled sampling: what is mixed, and when: by the step alone, so that a run can go on."""

import pytest
import torch

from attnlib.generators import IGNORE
from attnlib.generators.arithmetic import arithmetic
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import token_loss
from attnlib.training.scheduled_sampling import (
    MixedBatch,
    mixed_inputs,
    on_own_predictions,
    share_up_to,
    with_own_predictions,
)

TASK = arithmetic("+", (1, 30))
PROBLEMS = TASK.splits(200, 20, 20).train


def small():
    torch.manual_seed(0)
    sizes = {"width": 16, "ff_width": 16, "causal": True, "max_length": TASK.max_length}
    return Transformer(TransformerConfig(len(TASK.tokenizer), **sizes))


def test_the_share_grows_to_its_end():
    share = share_up_to(0.5, 101)
    assert [share(step) for step in (0, 50, 100, 500)] == [0.0, 0.25, 0.5, 0.5]
    assert share_up_to(0.5, 1)(0) == 0.0


def test_only_predicted_tokens_are_replaced_and_as_often_as_asked():
    batch_at = with_own_predictions(TASK.batches(PROBLEMS, 200), lambda step: 0.3)
    batch = batch_at(2)
    assert isinstance(batch, MixedBatch)
    can = torch.zeros_like(batch.attention_mask)
    can[:, 1:] = (batch.target_ids[:, :-1] != IGNORE) & batch.attention_mask[:, 1:]
    assert not (batch.own & ~can).any()
    assert 0.2 < float(batch.own.sum() / can.sum()) < 0.4
    assert torch.equal(batch.own, batch_at(2).own) and not torch.equal(batch.own, batch_at(3).own)
    everything = with_own_predictions(TASK.batches(PROBLEMS, 50), lambda step: 1.0)(0)
    asked = int((everything.target_ids != IGNORE).sum())
    assert int(everything.own.sum()) == asked - 50  # the end is not read


def test_the_question_is_left_alone_where_it_is_asked_for_too():
    task = arithmetic("+", (1, 30), operands_too=True)
    equals = task.tokenizer.convert_tokens_to_ids("=")
    batch = with_own_predictions(task.batches(PROBLEMS, 50), lambda step: 1.0, after=equals)(0)
    places = (batch.input_ids == equals).int().argmax(1)
    assert (batch.own.int().argmax(1) == places + 1).all() and batch.own.any(1).all()
    anywhere = with_own_predictions(task.batches(PROBLEMS, 50), lambda step: 1.0)(0)
    assert anywhere.own.sum() > batch.own.sum()


def test_the_second_pass_reads_what_the_first_predicted():
    model = small().eval()
    batch = with_own_predictions(TASK.batches(PROBLEMS, 8), lambda step: 0.7)(1)
    mixed = mixed_inputs(model, batch)
    predicted = model(batch.input_ids, attention_mask=batch.attention_mask).logits.argmax(-1)
    for row, token in batch.own.nonzero().tolist():
        assert mixed[row, token] == predicted[row, token - 1]
    assert torch.equal(mixed[~batch.own], batch.input_ids[~batch.own])


def test_full_teacher_forcing_is_the_plain_loss_and_a_mixture_is_not():
    model, loss = small().eval(), token_loss()
    plain, forced = (
        with_own_predictions(TASK.batches(PROBLEMS, 8), lambda step, share=share: share)(0)
        for share in (1.0, 0.0)
    )
    with torch.no_grad():
        assert on_own_predictions(loss)(model, forced)["loss"] == loss(model, forced)["loss"]
        assert on_own_predictions(loss)(model, plain)["loss"] != loss(model, plain)["loss"]


def test_no_gradient_flows_through_the_first_pass():
    model = small()
    batch = with_own_predictions(TASK.batches(PROBLEMS, 8), lambda step: 1.0)(0)
    assert not mixed_inputs(model, batch).requires_grad
    on_own_predictions(token_loss())(model, batch)["loss"].backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_what_cannot_be_mixed_is_refused():
    batch = TASK.batches(PROBLEMS, 4)(0)
    with pytest.raises(ValueError, match="with_own_predictions"):
        mixed_inputs(small(), MixedBatch(**vars(batch)))
    model = Transformer(TransformerConfig(len(TASK.tokenizer), n_classes=3, width=16, causal=True))
    with pytest.raises(ValueError, match=r"^a model must predict the 18 ids"):
        mixed_inputs(model, with_own_predictions(lambda step: batch, lambda step: 0.5)(0))
    with pytest.raises(ValueError, match=r"^the share at step 0 must"):
        with_own_predictions(lambda step: batch, lambda step: 2.0)(0)

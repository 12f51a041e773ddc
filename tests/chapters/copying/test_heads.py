"""Heads as initial weights: put together as asked, trained side by side as alone, and looked at."""

import pytest
import torch

from attnlib.generators.copying import CopyBatch, Copying
from attnlib.models.copier import Copier, CopierConfig, copying_loss, initial_weights
from attnlib.training import Plan, fit
from book.chapters.copying.heads import copier_of, initial_head
from book.chapters.copying.measures import head_look, initial_preference

TASK = Copying(4, 4)
CONFIG = CopierConfig(TASK.vocabulary, 6, cell="gru", shared=False)
HEAD = ("to_query_weight", "to_query_bias", "to_context_weight", "to_context_bias")


def fixed(models, n=5):
    one = TASK.batch(n, [[0, 1]])
    return CopyBatch(one.source.repeat(models, 1, 1), one.target.repeat(models, 1, 1))


def test_models_have_the_heads_that_were_chosen_on_one_base():
    heads = [(7, 8, 9), (9, 7, 5)]  # two bad ones and a good one, say: whoever they are
    model = copier_of(CONFIG, 3, heads)
    assert model.config.n_heads == 3 and model.config.seeds == (3, 3)
    base, drawn = initial_weights(CONFIG, 3), {seed: initial_head(CONFIG, seed) for seed in (5, 7, 8, 9)}
    for name, weight in model.named_parameters():
        for place, seeds in enumerate(heads):
            own = name in HEAD
            wanted = torch.stack([drawn[seed][name] for seed in seeds]) if own else base[name]
            assert torch.equal(weight[place], wanted), name
    assert torch.equal(model.to_query_weight[0, 0], model.to_query_weight[1, 1])


def test_heads_are_drawn_as_the_originals_are_and_leave_torchs_generator_alone():
    torch.manual_seed(1)
    before, head = torch.get_rng_state(), initial_head(CONFIG, 11)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(11)
    query, context = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
    for name, module in (("to_query", query), ("to_context", context)):
        assert torch.equal(head[f"{name}_weight"], module.weight)
        assert torch.equal(head[f"{name}_bias"], module.bias)


@pytest.mark.parametrize("heads", [[()], [(1, 2), (1,)]])
def test_models_of_different_or_no_heads_are_refused(heads):
    with pytest.raises(ValueError, match="equally many heads, at least 1"):
        copier_of(CONFIG, 0, heads)


@pytest.mark.parametrize("together", [1, 3])
def test_models_of_a_stack_train_as_they_do_alone(together):
    heads = [tuple(range(10 * place, 10 * place + together)) for place in range(3)]
    orders = [2, 0, 2]

    def trained(some):
        model = copier_of(CONFIG, 1, [heads[place] for place in some])
        batches = TASK.batches(3, [orders[place] for place in some])
        fit(model, batches, copying_loss, Plan(steps=6, learning_rate=0.01, device="cpu"), progress=False)
        return model.state_dict()

    stack = trained([0, 1, 2])
    for place in range(3):
        for name, weight in trained([place]).items():
            torch.testing.assert_close(stack[name][place], weight[0], atol=2e-6, rtol=0)
    same_data = stack["embedding"][[0, 2]]
    assert not torch.equal(*same_data), "of one base, with other heads"


def pointing(offset):
    """A model whose attention is all but certain to be at an offset from the token to copy."""

    class Pointing(Copier):
        def decode(self, target, encoded):
            copied = super().decode(target, encoded)
            alpha = torch.full_like(copied.alpha, 1e-3)
            places = torch.arange(alpha.shape[-1])
            there = places + offset
            inside = (there >= 0) & (there < len(places))
            alpha[..., places[inside], there[inside]] = 1 - 1e-3 * (len(places) - 1)
            return type(copied)(copied.encoded, copied.states, alpha, copied.logits)

    return Pointing(CopierConfig(TASK.vocabulary, 6, seeds=(0, 1), cell="gru", shared=False))


@pytest.mark.parametrize(("offset", "name"), [(-1, "one before"), (0, "on it"), (1, "one after")])
def test_preference_is_where_attention_is(offset, name):
    table = initial_preference(pointing(offset), fixed(2), [4, 9])
    assert table["head"].tolist() == [4, 9]
    for column in ("one before", "on it", "one after"):
        assert table[column].tolist() == pytest.approx([1 - 4e-3 if column == name else 1e-3] * 2, abs=1e-6)
    # four others: ahead of all, or behind the one preferred and level with three
    assert table["rank"].tolist() == pytest.approx([1.0 if offset == 0 else 1.5 / 4] * 2)
    ahead = {0: 1 - 5e-3, -1: 1e-3 - 0.4985, 1: 1e-3 - 0.4985}[offset]
    assert table["ahead of both"].tolist() == pytest.approx([ahead] * 2, abs=1e-6)
    assert table["other symbols"].tolist() == pytest.approx([1e-3] * 2)
    # of the two other targets (or, at an end, one fewer), one may look there
    beyond = {0: 1 - 5e-3, -1: -(1 - 5e-3) / 3, 1: -(1 - 5e-3) / 3}[offset]
    assert table["beyond place"].tolist() == pytest.approx([beyond] * 2, abs=1e-6)


def test_attention_that_is_alike_at_all_targets_is_no_preference_for_the_right_place():
    model = copier_of(CONFIG, 0, [(1,)])
    with torch.no_grad():
        model.to_query_weight.zero_()  # one query for all targets: sources differ, targets do not
    table = initial_preference(model, fixed(1), [0])
    assert table["on it"].item() != pytest.approx(0.2, abs=1e-5)
    assert table["beyond place"].item() == pytest.approx(0, abs=1e-7)


def test_each_head_is_looked_at_by_itself():
    model, batch = copier_of(CONFIG, 0, [(1, 2, 3), (4, 5, 6)]), fixed(2)
    look = head_look(model, batch)
    copied = model(**batch.inputs)
    assert torch.equal(look["accuracy"], (copied.logits.argmax(-1) == batch.source).float().mean((1, 2)))
    share = (copied.alpha.argmax(-1) == torch.arange(5)).float()
    assert torch.equal(look["on it"], share.mean((1, 3))) and look["on it"].shape == (2, 3)

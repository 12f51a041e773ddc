"""One head as a measure, and the best of them on validation items."""

from __future__ import annotations

import pytest
import torch
import transformers as hf

from attnlib.attribution import attributions, best_head, head
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import reinforced

IDS = torch.randint(4, 60, (5, 11), generator=torch.Generator().manual_seed(3))
TRUE = torch.nn.functional.one_hot(torch.tensor([3, 0, 6, 2, 5]), 11).bool()
QUERY = 7
SIZE = {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZE |= {"intermediate_size": 40, "max_position_embeddings": 32}


def own(causal=True):
    torch.manual_seed(0)
    sizes = {"n_layers": 3, "n_heads": 4, "width": 24}
    return Transformer(TransformerConfig(61, causal=causal, **sizes)).eval()


def llama():
    torch.manual_seed(0)
    config = hf.LlamaConfig(**SIZE, num_key_value_heads=2, initializer_range=0.3)
    return hf.LlamaForCausalLM(config).eval()


@pytest.fixture(params=[own, lambda: own(causal=False), llama])
def model(request):
    return request.param()


@torch.no_grad()
def every_head(model, ids):
    if isinstance(model, Transformer):
        return model(ids, output_attentions=True).attentions
    model.set_attn_implementation("eager")
    found = torch.stack(model(ids, output_attentions=True).attentions, 1)
    model.set_attn_implementation("sdpa")
    return found


def test_a_head_is_its_row_of_attention(model):
    expected = every_head(model, IDS)
    for layer, number in [(0, 0), (2, 1), (1, 3)]:
        method = head(layer, number)
        torch.testing.assert_close(method(model, IDS, query=QUERY), expected[:, layer, number, QUERY])
        assert method.__name__ == f"head L{layer}H{number}"
    found = attributions(model, IDS, ["rollout", head(0, 1), head(1, 1)], query=QUERY)
    assert [*found] == ["rollout", "head L0H1", "head L1H1"]


@pytest.mark.parametrize("criterion", ["mass", "hit"])
def test_the_best_head_is_the_best_of_all(model, criterion):
    rows = every_head(model, IDS)[:, :, :, QUERY]  # [batch layer head key]
    of_head = {}
    for layer in range(3):
        for number in range(4):
            row = rows[:, layer, number]
            hits = [bool(true[one.argmax()]) for one, true in zip(row, TRUE, strict=True)]
            of_head[layer, number] = float(row[TRUE].mean() if criterion == "mass" else sum(hits) / 5)
    best = max(of_head, key=of_head.__getitem__)
    method = best_head(model, IDS, TRUE, query=QUERY, criterion=criterion)
    assert method.__name__ == f"head L{best[0]}H{best[1]}"
    torch.testing.assert_close(method(model, IDS[:1], query=QUERY), rows[:1, best[0], best[1]])


@pytest.mark.parametrize("criterion", ["mass", "hit"])
def test_a_head_that_looks_where_it_should_is_found(model, criterion):
    reference = TRUE[:, None].expand(-1, 11, -1)
    with reinforced(model, [(1, 2)], reference, 0.9):
        method = best_head(model, IDS, TRUE, query=QUERY, criterion=criterion)
    assert method.__name__ == "head L1H2"


def test_padding_changes_no_choice(model):
    mask = torch.ones_like(IDS)
    mask[0, 8:] = mask[1, :2] = 0
    true = torch.tensor([3, 4, 6, 2, 5])
    scores = torch.zeros(3, 4)
    for ids, seen, at in zip(IDS, mask.bool(), true.tolist(), strict=True):
        row = every_head(model, ids[seen][None])[0, :, :, -1]
        scores += row[..., int(seen[:at].sum())]
    truth = torch.nn.functional.one_hot(true, 11).bool()
    layer, number = divmod(int(scores.argmax()), 4)
    assert best_head(model, IDS, truth, mask).__name__ == f"head L{layer}H{number}"


def test_what_cannot_be_chosen():
    model = own()
    with pytest.raises(ValueError, match=r"there is no head L3H0; the model has 3 layers of 4 heads"):
        head(3, 0)(model, IDS)
    with pytest.raises(ValueError, match=r"criterion should be out of \('mass', 'hit'\); got 'best'"):
        best_head(model, IDS, TRUE, criterion="best")
    with pytest.raises(ValueError, match=r"shape of input_ids, \(5, 11\); got \(5, 10\)"):
        best_head(model, IDS, TRUE[:, :10])
    mask = torch.ones_like(IDS)
    mask[0, :4] = 0
    with pytest.raises(ValueError, match="every item should have a true token"):
        best_head(model, IDS, TRUE, mask)

"""What a measure costs: counted products, tensors alive at once."""

import pytest
import torch

from attnlib.attribution.perturbation import blank_out
from attnlib.benchmarking.costs import FORWARD, cost_table, counted
from attnlib.models import Transformer, TransformerConfig

CONFIG = {"vocabulary": 20, "n_layers": 3, "n_heads": 4, "width": 32, "positions": "learned"}


def test_products_of_matrices_are_counted_through_attention_and_both_ways():
    a, b = torch.ones(10, 20), torch.ones(20, 30, requires_grad=True)
    assert counted(lambda: a @ b)[0] == 2 * 10 * 20 * 30
    assert counted(lambda: torch.autograd.grad((a @ b).sum(), b))[0] == 2 * 2 * 10 * 20 * 30
    q = torch.ones(1, 2, 7, 8)
    attention = torch.nn.functional.scaled_dot_product_attention
    assert counted(lambda: attention(q, q, q))[0] == 2 * 2 * 2 * 7 * 7 * 8


def test_memory_is_what_is_alive_at_once():
    made = []

    def one_after_the_other():
        for _ in range(5):
            torch.zeros(1000)

    def kept():
        made.extend(torch.zeros(1000) for _ in range(5))

    assert counted(one_after_the_other)[1] == 4000
    assert counted(kept)[1] == 20_000
    assert counted(lambda: [made[0].view(10, 100).T, made[1][3:]])[1] == 0  # views of what was there


def test_a_table_of_costs_is_in_forward_passes():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(causal=True, **CONFIG)).eval()
    ids = torch.randint(0, 20, (1, 24))
    methods = {"rollout": "rollout", "gradient": "gradient x embedding", "one by one": blank_out}
    table = cost_table(model, ids, methods, repetitions=1).set_index("method")
    assert table.index[0] == FORWARD and table.loc[FORWARD, "passes"] == 1
    assert 1 < table.loc["rollout", "passes"] < 1.5
    assert 2 <= table.loc["gradient", "passes"] < 2.5
    assert table.loc["one by one", "passes"] == pytest.approx(23, rel=0.1)
    assert (table["seconds"] > 0).all() and (table["note"][1:] == "").all()
    assert table.loc["gradient", "megabytes"] > table.loc[FORWARD, "megabytes"] > 0


def test_what_cannot_be_given_says_why_in_the_table():
    model = Transformer(TransformerConfig(**CONFIG)).eval()
    ids = torch.randint(0, 20, (1, 9))
    row = cost_table(model, ids, ["rollout over null"], repetitions=1).iloc[1]
    assert row[["passes", "seconds", "megabytes"]].isna().all()
    assert "earlier tokens only" in row["note"]

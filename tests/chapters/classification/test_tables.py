"""What is read from records of classification and translation for the claims."""

import pandas as pd
import pytest

from book.chapters.classification.tables import over_models, rises

SHARED = {"measure": "top match", "split": "test", "checkpoints": "held out", "record": "r", "setting": "s"}


def rows(beta: dict[int, float], alpha: dict[int, float], width: float = 0.02, **more: str) -> pd.DataFrame:
    """Two curves, by step, with intervals of one width."""
    table = [
        {"metric": f"step {step}: A({name}_t, beta_uf)", "value": value}
        for name, curve in {"beta": beta, "alpha": alpha}.items()
        for step, value in curve.items()
    ]
    made = pd.DataFrame(table).assign(task="IMDB", interval="documents", n=100, **SHARED)
    return made.assign(low=made["value"] - width, high=made["value"] + width, **more)


@pytest.mark.parametrize(
    ("beta", "alpha", "more"),
    [
        ({0: 0.0, 50: 0.4}, {0: 0.0, 50: 0.1}, 0.3),
        ({0: 0.2, 50: 0.4}, {0: 0.0, 50: 0.1}, 0.1),  # higher before training already
        ({50: 0.1, 0: 0.0}, {50: 0.3, 0: 0.0}, -0.2),
    ],
)
def test_rises_are_compared_and_not_heights(beta, alpha, more):
    (found,) = rises(rows(beta, alpha, width=0.02)).itertuples()
    assert found.value == pytest.approx(more) and found.n == 100
    assert (found.high - found.low) / 2 == pytest.approx(0.04)  # four independent intervals


def test_a_claim_about_models_has_intervals_over_models_and_a_set_counts_once():
    kinds = [
        ("A(alpha, beta_uf)", "seeds", 3, "s"),
        ("A(alpha, beta_uf)", "documents", 900, "s"),
        ("A_hat", "documents", 900, "s"),
        ("A(alpha, beta_uf)", "seeds", 3, "s; bf16"),
    ]
    made = pd.DataFrame(kinds, columns=["metric", "interval", "n", "setting"])
    made = made.assign(task="SMS", **{name: value for name, value in SHARED.items() if name != "setting"})
    made["record"] = made["setting"]
    found = over_models(made)
    assert found[["metric", "n"]].to_numpy().tolist() == [["A(alpha, beta_uf)", 3], ["A_hat", 900]]

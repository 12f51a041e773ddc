"""What is read from records of classification and translation for the claims."""

import pandas as pd
import pytest

from book.chapters.classification.recorded import over_models, which_comes_first

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
    ("beta", "alpha", "ahead", "sooner"),
    [
        ({0: 0.0, 50: 0.4, 100: 0.5}, {0: 0.0, 50: 0.1, 100: 0.5}, True, True),
        ({0: 0.0, 50: 0.4, 100: 0.5}, {0: 0.0, 50: 0.2, 100: 0.25}, True, False),  # ahead at every step
        ({0: 0.0, 50: 0.3, 100: 0.5}, {0: 0.0, 50: 0.29, 100: 0.8}, False, True),
        ({0: 0.0, 50: 0.1, 100: 0.5}, {0: 0.0, 50: 0.3, 100: 0.5}, False, False),
    ],
)
def test_being_ahead_is_not_being_first(beta, alpha, ahead, sooner):
    (found,) = which_comes_first(rows(beta, alpha)).itertuples()
    assert (found.ahead, found.sooner) == (ahead, sooner)


def test_halves_are_of_each_curves_own_rise_in_order_of_steps():
    later = rows({100: 0.6, 0: 0.2, 50: 0.3}, {100: 0.2, 50: 0.2, 0: 0.0})
    (found,) = which_comes_first(later).itertuples()
    assert (found.half, found.half_attention, found.sooner) == (100, 50, False)


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

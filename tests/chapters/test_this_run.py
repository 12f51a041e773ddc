"""What a page says of its own run depends on what the run's models have learned."""

import pytest

from book.chapters.this_run import if_learned


@pytest.mark.parametrize(
    ("right", "chance", "said"),
    [
        (0.99, 0.5, "attention is ahead"),
        (0.3, 0.1, "attention is ahead"),
        (0.55, 0.5, "the models have hardly learned anything (55 % right), so that this cannot be seen"),
        (0.0, 0.0, "the models have hardly learned anything (0 % right), so that this cannot be seen"),
    ],
)
def test_models_that_learned_nothing_show_nothing(right: float, chance: float, said: str) -> None:
    assert if_learned(right, chance, "attention is ahead") == said

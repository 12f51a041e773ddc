"""What a page says of its own run depends on what the run's models have learned."""

import pytest

from book.chapters.this_run import if_learned, memorized_clause


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


@pytest.mark.parametrize(
    ("seen", "unseen", "said"),
    [(0.9991, 0.9987, "nothing is memorized"), (0.99, 0.6, "it has memorized a part")],
)
def test_a_model_that_answers_only_training_texts_has_memorized_them(seen, unseen, said) -> None:
    told = memorized_clause(seen, unseen)
    assert told.endswith(said) and f"{100 * seen:.2f} %" in told and f"{100 * unseen:.2f} %" in told

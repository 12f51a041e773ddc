"""What is said of each head of a model that does sums."""

import re

import pytest
import torch

from attnlib.generators.arithmetic import arithmetic
from attnlib.models.attention import heads_ablated
from attnlib.models.stored import stored_model
from book.chapters.lens.heads import kinds_of_keys, lines_on_heads


@pytest.mark.parametrize(
    ("backwards", "places"),
    [(False, ["tens", "units", "operator", "units"]), (True, ["units", "tens", "operator", "units"])],
)
def test_tokens_are_named_by_what_they_are_of(backwards: bool, places: list[str]) -> None:
    task = arithmetic("+", (0, 60), reversed_digits=backwards)
    problems = task.splits(60, 20, 40).test
    ids = task.batch(problems).input_ids
    kinds = kinds_of_keys(task, problems)
    at = next(i for i, text in enumerate(task.texts(problems)) if re.match(r"\d\d\+\d=", text))
    said = [next((name for name, keys in kinds.items() if keys[at, k]), "") for k in range(ids.shape[1])]
    assert said[:6] == ["the beginning", *(f"the {place}" for place in places), "="]
    assert set(said[6:]) <= {"the answer so far", ""} and said[6]
    assert (torch.stack([*kinds.values()]).sum(0) <= 1).all()


def test_a_line_says_where_most_attention_is_and_what_is_lost_without_the_head() -> None:
    kept = stored_model("arithmetic_lens", "addition, seed 0")
    lines = lines_on_heads(kept)
    assert list(lines) == kept.model.head_names
    found = re.fullmatch(
        r"(\d+) % of its attention on the units; without it, (\d+) points of accuracy lost", lines["L1H1"]
    )
    assert found and 0 < int(found[1]) < 100

    def right() -> float:
        asked = [batch.target_ids >= 0 for batch in kept.tests]
        hits = [
            (
                (kept.model(batch.input_ids, batch.attention_mask).logits.argmax(-1) == batch.target_ids)
                | ~real
            )
            for batch, real in zip(kept.tests, asked, strict=True)
        ]
        return float(torch.cat([each.all(-1) for each in hits]).double().mean())

    whole = right()
    with heads_ablated(kept.model, [(1, 1)]):
        assert round(100 * (whole - right())) == int(found[2])

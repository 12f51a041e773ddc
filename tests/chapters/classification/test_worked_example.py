"""The worked example: relevance is learned in the first step, attention only from the second on."""

import pytest

from book.chapters.classification.worked_example import two_stages


def test_relevance_is_learned_before_attention_and_attention_follows_it():
    found = two_stages(steps=20).set_index(["score", "word", "step"]).sort_index()["value"]
    good, plot = found["beta", "good"], found["beta", "plot"]
    assert (good[0], plot[0]) == (0, 0)
    assert good[1] == pytest.approx(4 * 2 * 0.5 * 0.5 / 4)  # two of four reviews, half of 1/2
    assert plot[1] == 0  # raised once and lowered once
    attention = found["alpha", "good"]
    assert attention[0] == attention[1] == 0.5  # no word is worth more than another at first
    assert attention[2] > 0.5 and attention.iloc[1:].is_monotonic_increasing
    assert (attention + found["alpha", "plot"]).tolist() == pytest.approx([1.0] * 21)

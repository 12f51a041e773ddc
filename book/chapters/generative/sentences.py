"""Numbers that the sentences of the page quote: recorded ones, and one of uniform attention in this run."""

from __future__ import annotations

import pandas as pd

from attnlib.rollout import uniform_causal_rollout
from book.chapters.generative.measures import CHANCE, MEAN_ROLLOUT
from book.chapters.records import came_with_the_book, in_words, one_number
from book.chapters.telling import side_clause, tell, tell_in_words

CHAPTER, MODEL = "generative_rollout", "SmolLM2-135M-Instruct"

LAYERS, HALFWAY = 30, 15
"""Layers of the recorded model, and half of them."""

NEEDLE = {
    "rollout": f"facts, filtered: {MEAN_ROLLOUT}",
    "mean attention": "facts, filtered: mean attention",
    "chance": "facts, filtered: chance",
} | {
    f"{method}, {name}": f"{among}: {method}"
    for name, among in {"unfiltered": "facts", "prompt": "prompt"}.items()
    for method in (
        "raw attention, last layer",
        "rollout",
        "sink-free rollout",
        "rollout over null",
        "mean attention",
        "gradient x embedding",
        "blank-out",
        "chance",
    )
}
"""The names in the text for the shares of prompts with the needle among the top five of some tokens."""

NAMES = {
    "one name, first": (MEAN_ROLLOUT, "AttnLRP", "blank-out", CHANCE),
    "two names, right": (MEAN_ROLLOUT, "mean attention", "AttnLRP", "blank-out"),
}
"""The methods that the text quotes, of each question of the test of names."""

IN_EXERCISES = {
    (40, 1): ("rollout", "blank-out", CHANCE),
    (40, 5): ("rollout",),
    (40, 10): ("rollout", "sink-free rollout", "mean attention", CHANCE),
    (500, 1): ("rollout",),
    (500, 10): ("mean attention",),
}
"""The methods that solutions quote, by the number of prompts and of highest tokens."""


def tell_recorded() -> None:
    """Tell all numbers of the runs that came with the book."""
    kept = came_with_the_book(CHAPTER)
    kept = kept[kept["record"].str.startswith(f"{MODEL}-")]
    tell_needle(kept)
    tell_names(kept)
    tell_first_token(kept)
    tell_exercises()


def tell_needle(kept: pd.DataFrame) -> None:
    """Tell how often methods find the needle, and whether rollout does more often than chance."""
    found = {name: one_number(kept, metric=f"needle in top 5 of the {of}") for name, of in NEEDLE.items()}
    tell_in_words(found, "minute {}", "%")
    counted = {"minute needles": found["rollout"], "minute occluded": found["blank-out, prompt"]}
    tell({name: "not run" if each is None else f"{each['n']:.0f}" for name, each in counted.items()})
    for filtered in ("", ", unfiltered"):
        rollout, chance = (found[f"{method}{filtered}"] for method in ("rollout", "chance"))
        words = ("less often than chance", "no more often than chance", "more often than chance")
        tell({f"rollout{filtered}: said": side_clause(rollout, *words, bound=chance, lacking="(not run)")})


def tell_names(kept: pd.DataFrame) -> None:
    """Tell how often methods rank a single name first, and the decisive one of two above the other."""
    for question, methods in NAMES.items():
        found = {method: one_number(kept, metric=f"{question}: {method}") for method in methods}
        called = question.removeprefix("one ").partition(", ")[0]
        tell_in_words(found, f"minute {called}, {{}}", "%")
        texts = found[MEAN_ROLLOUT]
        tell({f"minute {called}": "not run" if texts is None else f"{texts['n']:.0f}"})


def tell_first_token(kept: pd.DataFrame) -> None:
    """Tell how much rollout is on the first token half-way through the layers, with and without training."""
    for model in ("trained", "untrained", "uniform"):
        metric = f"{model}, first token, layer {HALFWAY}"
        ends = [one_number(kept, metric=f"{metric}, {end}") for end in ("least", "most")]
        least, most = (in_words(end, "%").partition(" %")[0] for end in ends)
        tell({f"minute {model}": f"between {least} and {most} %"})
    number = one_number(kept, metric=f"uniform, first token, layer {HALFWAY}, least")
    tell({"minute prompts": "not run" if number is None else f"{number['n']:.0f}"})


def tell_uniform(kinds: pd.DataFrame) -> None:
    """Tell how much of this run's rollout of uniform attention is on the first token after the last layer."""
    last = kinds[kinds["kind"].eq("first token") & kinds["layer"].eq(kinds["layer"].max())]
    tell(last[last["model"] == "uniform"], "{model}, last")


def tell_exercises() -> None:
    """Tell what the solutions quote: rollout of uniform attention, and how often methods find the needle."""
    for tokens in (20, 200):
        share = float(uniform_causal_rollout(tokens, LAYERS, rows=[tokens - 1])[0, 0])
        tell({f"exercise {tokens} tokens": f"{100 * share:.1f} %"})
    for (needles, k), methods in IN_EXERCISES.items():
        rows = came_with_the_book(CHAPTER, model=MODEL, needles=needles, facts=[3, 5])
        metric = f"needle in top {k} of the prompt"
        found = {method: one_number(rows, metric=f"{metric}: {method}") for method in methods}
        tell_in_words(found, f"exercise {needles} needles, top {k}, {{}}", "%")

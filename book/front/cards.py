"""Six cards of the first page: a small picture, a number, and a link to where the book shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attnlib.generators.arithmetic import Arithmetic
from attnlib.models.attention.changes import heads_ablated
from attnlib.models.stored import stored_model
from book.chapters.copying.claims import EASY, HARD, SOON, STUDY_SIZE
from book.chapters.findings.claims import findings
from book.chapters.findings.finding import NotRunError, Number, one, there
from book.chapters.lens.measures import solve
from book.chapters.programs import tables as programs
from book.chapters.programs.predictions import same_order
from book.chapters.programs.sentences import ORDER
from book.chapters.reasoning import tables as reasoning
from book.chapters.reasoning.attention_intervention import READ
from book.chapters.records import came_with_the_book

from .explorer import SUMS, opened
from .needle import ordinal

WIDE, HIGH = 240, 84
"""The size of a card's picture, in SVG units."""

STRENGTHS = (0, 0.25, 0.5, 0.75, 1)
"""Strengths of redirection: shares of a head's attention."""

CARD = """\
:::{{container}} front-card
```{{raw}} html
<svg viewBox="0 0 {wide} {high}" aria-hidden="true" preserveAspectRatio="xMinYMid">{picture}</svg>
<p class="front-number">{number}</p>
```
{words} [{link}]({to})
:::"""


class Card(NamedTuple):
    """The content of a card.

    Attributes:
        number: the number in large type.
        words: the sentence that explains the number.
        link: the words of the link.
        to: the section to which the link leads.
        picture: SVG, `WIDE` by `HIGH`; the marks of the card's subject have the class `own`.
    """

    number: str
    words: str
    link: str
    to: str
    picture: str


def cards(stage: Path) -> str:
    """The cards as one grid, or a line if their records are missing."""
    try:
        made = [card() for card in CARDS]
    except NotRunError:
        return "*Not run yet*: the records of the cards are not there."
    shown = (CARD.format(wide=WIDE, high=HIGH, **card._asdict()) for card in made)
    return "\n\n".join(["::::{container} front-cards", *shown, "::::"])


def needle_card() -> Card:
    """How often rollout names the requested fact, in comparison with random tokens."""
    number = _number("rollout, needle")
    shares = {"rollout": number.value, "five at random": number.bound}
    return Card(
        percent(number.value),
        "We rank the tokens of the facts by rollout. The first five include a token of the right code in "
        f"{percent(number.value)} of {number.n:,} prompts like the one above. Five random tokens do in "
        f"{percent(number.bound)}.",
        "A language model's facts",
        "/notebooks/generative_rollout.ipynb#which-methods-find-the-needle",
        bars(shares),
    )


def redirection_card() -> Card:
    """A language model's share of correct letters in longer reversals, by the strength of redirection."""
    curves = reversals()
    before, *_, after = curves["the reference"]
    return Card(
        f"{percent(before).removesuffix(' %')} → {percent(after)}",
        "A language model reverses strings that are longer than those in training. It gets "
        f"{percent(before)} of the letters right. While it runs, we redirect eight of its heads to the "
        f"letter to copy. Then it gets {percent(after)} right.",
        "Move the attention of a small one",
        "/book/slider.md",
        lines({"letter to copy": curves["the reference"], "random keys": curves["random keys"]}),
    )


def reversals() -> dict[str, list[float]]:
    """By the target of redirection, a language model's share of correct letters at each of `STRENGTHS`."""
    rows = came_with_the_book(READ, model="SmolLM2-135M-Instruct", ranges="finetune", steps=300, chat=False)
    found = reasoning.over_seeds(rows[there(rows)["task"].eq("string_reversal")], ["metric"])
    return {
        keys: [
            one(found, metric=f"accuracy OOD, strength {strength:g} onto {keys}").value
            for strength in STRENGTHS
        ]
        for keys in ("the reference", "random keys")
    }


def ablation_card() -> Card:
    """The answer of a model that adds, with one head switched off."""
    adds = stored_model("arithmetic_lens", "addition, seed 0")
    read, (layer, head, _) = opened(adds)
    assert isinstance(adds.task, Arithmetic)
    with heads_ablated(adds.model, [(layer, head)]):
        answer = solve(adds.model, adds.task, f"{SUMS[0]}=")
    right = solve(adds.model, adds.task, f"{SUMS[0]}=")
    return Card(
        f"{SUMS[0].replace('+', ' + ')} = {answer}",
        f"A small transformer answers {right}. With one head switched off, it answers {answer}. Switch the "
        "head off yourself, in the explorer below.",
        "What each head is for",
        "/notebooks/arithmetic_lens.ipynb#what-each-head-is-for",
        weights(read["attentions"][layer, head].numpy()),
    )


def metric_card() -> Card:
    """The rank correlation of methods by the standard faithfulness metric and by ground truth."""
    number = _number("standard metric, the same order")
    shares = {"standard metric": number.value, "the same order": 1.0}
    return Card(
        f"τ = {number.value:.2f}",
        "A faithfulness metric rates attribution methods without ground truth. We rank methods by the "
        "standard metric and by ground truth, and measure how well the two rankings agree: Kendall's τ, the "
        f"mean over {number.n} tasks and kinds of models. Equal rankings have τ = 1.",
        "Metrics against ground truth",
        "/notebooks/faithfulness_metrics.ipynb#which-metric-agrees-with-ground-truth",
        bars(shares),
    )


def copying_card() -> Card:
    """How many models learn to copy within 200 steps where co-occurrence says nothing, and where it does."""
    rows = there(came_with_the_book("sequence_copying"))
    rows = rows[rows["setting"].str.startswith(STUDY_SIZE)]
    hard, easy = (one(rows, metric="learned", budget=SOON, task=task) for task in (HARD, EASY))
    counts = {"no signal": (int(hard.count), hard.n), "signal": (int(easy.count), easy.n)}
    return Card(
        f"{hard.count:.0f} of {hard.n}",
        "In some training data, symbols that occur together hint at the answer. Without this hint, "
        f"{hard.count:.0f} of {hard.n} models learn to copy within {SOON} steps. With it, "
        f"{easy.count:.0f} of {easy.n} do.",
        "How attention is learned",
        "/notebooks/sequence_copying.ipynb#do-models-fail-to-learn-permutations",
        dots(counts),
    )


def transfer_card() -> Card:
    """The rank of rollout among the methods, in compiled and in trained transformers of random programs."""
    compiled, trained = programs.confirming(), programs.trained()
    both = programs.beside_trained(trained, compiled)
    both = both[both["truth"].eq("causes")].pivot(index="method", columns="weights", values="value").dropna()
    places = both.rank(ascending=False, method="min").astype(int)
    first, last = places.loc[["rollout"], ["compiled", "trained"]].to_numpy(int)[0].tolist()
    seeds = len(set(compiled["seed"]) & set(trained["seed"]))
    order = ORDER[same_order(trained, compiled).verdict]["order headline"]
    return Card(
        f"{ordinal(first)} → {ordinal(last)}",
        f"We rank {len(both)} methods by how well they find the tokens that cause an output. Rollout is "
        f"{ordinal(first)} in transformers compiled from {seeds} random programs. In transformers trained on "
        f"these programs, it is {ordinal(last)}. {order}",
        "Random programs",
        "/notebooks/random_programs.ipynb#does-this-hold-for-trained-models",
        slopes(both[["compiled", "trained"]].to_numpy(), [*both.index].index("rollout")),
    )


CARDS: tuple[Callable[[], Card], ...] = (
    needle_card,
    redirection_card,
    ablation_card,
    metric_card,
    copying_card,
    transfer_card,
)


def bars(shares: dict[str, float]) -> str:
    """A bar for each share of 1, under its name; the first bar is the card's subject."""
    drawn = []
    for place, (name, share) in enumerate(shares.items()):
        top, kind = 40 * place, "" if place else ' class="own"'
        drawn.append(
            f'<text y="{top + 14}">{escape(name)}</text>'
            f'<rect class="room" y="{top + 20}" width="{WIDE}" height="14"/>'
            f'<rect{kind} y="{top + 20}" width="{max(2, WIDE * share):.0f}" height="14"/>'
        )
    return "".join(drawn)


def lines(curves: Mapping[str, Sequence[float]]) -> str:
    """A curve for each list of shares, with its name at the end; the first curve is the card's subject."""
    drawn = []
    for place, (name, shares) in enumerate(curves.items()):
        across = np.linspace(0, WIDE - 92, len(shares))
        points = " ".join(f"{x:.0f},{_down(share):.0f}" for x, share in zip(across, shares, strict=True))
        drawn.append(
            f'<polyline{"" if place else _OWN} points="{points}"/>'
            f'<text x="{WIDE - 86}" y="{_down(shares[-1]) + 4:.0f}">{escape(name)}</text>'
        )
    return "".join(drawn)


def dots(counts: dict[str, tuple[int, int]]) -> str:
    """A row of `n` dots for each (count, n), under its name; `count` of them are filled."""
    drawn = []
    for place, (name, (count, n)) in enumerate(counts.items()):
        drawn.append(f'<text y="{40 * place + 14}">{escape(name)}</text>')
        for k in range(n):
            kind = "own" if k < count else "room"
            drawn.append(
                f'<circle class="{kind}" cx="{(k + 0.5) * WIDE / n:.0f}" cy="{40 * place + 27}" r="4.5"/>'
            )
    return "".join(drawn)


def weights(matrix: np.ndarray) -> str:
    """An attention matrix; rows are queries."""
    side = HIGH / len(matrix)
    cells = [
        f'<rect class="own" x="{side * key:.1f}" y="{side * query:.1f}" '
        f'width="{side:.1f}" height="{side:.1f}" opacity="{matrix[query, key]:.2f}"/>'
        for query, key in zip(*np.nonzero(matrix > 0.01), strict=True)
    ]
    room = f'<rect class="room" width="{HIGH}" height="{HIGH}"/>'
    return f'{room}{"".join(cells)}<text x="{HIGH + 10}" y="{HIGH / 2 + 4:.0f}">where this head looks</text>'


def slopes(ends: np.ndarray, own: int) -> str:
    """A line for each pair of numbers, from left to right; line number `own` is the card's subject."""
    pairs = [(_down(a), _down(b)) for a, b in (ends - ends.min()) / np.ptp(ends)]
    drawn = [f'<polyline points="70,{a:.0f} {WIDE - 58},{b:.0f}"/>' for a, b in pairs]
    left, right = pairs[own]
    own_line = f'<polyline{_OWN} points="70,{left:.0f} {WIDE - 58},{right:.0f}"/>'
    names = (
        f'<text y="{left + 4:.0f}">compiled</text><text x="{WIDE - 52}" y="{right + 4:.0f}">trained</text>'
    )
    return f"{''.join(drawn)}{own_line}{names}"


_OWN = ' class="own"'


def _down(share: float) -> float:
    return HIGH - 6 - (HIGH - 16) * share


def _number(claim: str) -> Number:
    (number,) = (each.outcome.number for each in findings() if each.claim.name == claim)
    if number is None:
        raise NotRunError
    return number


def percent(share: float) -> str:
    """A share as cards write it: "62 %"."""
    return f"{100 * share:.0f} %"

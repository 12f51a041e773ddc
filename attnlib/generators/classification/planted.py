"""A synthetic corpus with ground truth: which words decide the label, and which only correlate with it."""

from __future__ import annotations

import itertools
from dataclasses import asdict

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from attnlib.checks import check, check_at_least
from attnlib.generators.classification.corpus import Corpus, Row, assemble

KEYWORDS = (
    tuple("terrible awful boring bad poor weak dull flat slow bland tired dated".split()),  # noqa: SIM905
    tuple("superb brilliant moving good fine strong witty fresh warm neat solid apt".split()),  # noqa: SIM905
)
"""Words that are evidence for class 0, and for class 1; the strongest first."""

CONFOUNDERS = (
    ("winter", "harbour", "trumpet", "monday", "iron", "wolf"),
    ("summer", "garden", "violin", "friday", "silver", "swan"),
)
"""Words that do not decide the label, but correlate with class 0, and with class 1."""

SYLLABLES = tuple("ba de fi go hu ka le mi no pu ra se ti".split())  # noqa: SIM905
"""Syllables of fillers; each filler has three."""

STRENGTHS = (3.0, 2.0, 1.0)
"""Strengths of the first, second and last third of a class's keywords."""


@dataclass(frozen=True, config={"extra": "forbid"})
class Planting:
    """Settings of `planted`, explained there. Wrong values raise a `ValueError` that says what is allowed.

    Attributes:
        difficulty: with 0, all keywords of a document agree; with 1, each draw is equally likely to be of
            either class (but keywords whose sum has the wrong sign are drawn anew).
        confounding: with 0, confounders are independent of the label; with 1, they always agree with it.
        test_confounding: `confounding` of the test documents; `None`: as in the other splits.
        keywords: keywords per class; a multiple of 3, one third per strength.
        confounders: confounders per class.
        fillers: number of different fillers.
        min_words: shortest document, in words.
        max_words: longest document, in words.
    """

    difficulty: float = Field(default=0.3, ge=0, le=1)
    confounding: float = Field(default=0.6, ge=0, le=1)
    test_confounding: float | None = Field(default=None, ge=0, le=1)
    keywords: int = Field(default=12, ge=3, le=len(KEYWORDS[0]), multiple_of=3)
    confounders: int = Field(default=6, ge=1, le=len(CONFOUNDERS[0]))
    fillers: int = Field(default=400, ge=2, le=len(SYLLABLES) ** 3)
    min_words: int = Field(default=10, ge=4)
    max_words: int = Field(default=40, ge=4, le=10_000)

    @model_validator(mode="after")
    def _in_order(self) -> Planting:
        check(self.min_words <= self.max_words, f"min_words must be at most {self.max_words}", self.min_words)
        return self

    @property
    def per_class(self) -> int:
        """Words that belong to one class."""
        return self.keywords + self.confounders


def planted(
    planting: Planting | None = None,
    *,
    train_documents: int = 4000,
    validation_documents: int = 1000,
    test_documents: int = 1000,
    seed: int = 0,
) -> Corpus:
    r"""A corpus in which the relevance of every word is known.

    All documents are different, and the order of their labels is random. Each is made as follows:

    1. The label $y$ is 0 for one half of the documents, 1 for the other; the number of words $n$ is uniform
       from `min_words` to `max_words`.
    2. Each of the $n$ words is a filler, drawn by Zipf's law: the $r$-th filler with probability in
       proportion to $1/r$. Fillers decide nothing.
    3. The number of keywords is 1 + Poisson(1.5), at most $n/2$. Each is drawn evenly from the keywords of
       class $y$ or, with probability `difficulty` / 2, from those of the other class. A keyword $w$ has a
       strength $s_w$ of 3, 2 or 1 (a third of each class's keywords each), positive for class 1 and negative
       for class 0. Keywords are drawn anew until $\sum s_w$ is positive for $y$ = 1 and negative for $y$ =
       0: so the sign of that sum *is* the label, without exception.
    4. With probability 3/4, one confounder is added: of class $y$ with probability (1 + `confounding`) / 2,
       else of the other class; uniform among that class's confounders. It does not change the label.
    5. Keywords and confounder replace fillers at places drawn uniformly.

    The ground truth `Documents.relevance` is $s_w$ for a keyword and 0 for every other token. It is evidence
    for class 1; `Documents.toward_label` turns it into evidence for the label. After that, the largest
    relevance in each document is positive.

    Args:
        planting: the parameters of the steps above; `Planting()` if left out.
        train_documents: number of training documents.
        validation_documents: number of validation documents.
        test_documents: number of test documents.
        seed: same seed, same corpus, on every machine.

    Example:
        >>> corpus = planted(Planting(difficulty=0), train_documents=50, test_documents=20)
        >>> corpus.names
        ('negative', 'positive')
    """
    planting = planting or Planting()
    words, strengths = lexicon(planting)
    sizes = {"train": train_documents, "validation": validation_documents, "test": test_documents}
    check_at_least(1, **{f"{split}_documents": size for split, size in sizes.items()})
    seen: set[bytes] = set()
    parts, truth = {}, {}
    for index, (split, size) in enumerate(sizes.items()):
        own = planting.test_confounding is not None and split == "test"
        confounding = planting.test_confounding if own else planting.confounding
        rows, labels = _different(np.random.default_rng([seed, index]), size, planting, confounding, seen)
        spelled = [tuple(words[index] for index in row) for row in rows]
        parts[split] = [Row(label, " ".join(row), row) for label, row in zip(labels, spelled, strict=True)]
        bounded = [np.pad(strengths[row], 1) for row in rows]  # <bos> and <eos> decide nothing
        truth[split] = torch.from_numpy(np.concatenate(bounded)).float()
    about = {"source": "planted", "differs": "synthetic: words and relevance are made up"}
    about |= asdict(planting) | {"seed": seed}
    return assemble("planted", ("negative", "positive"), parts, about, relevance=truth)


def lexicon(planting: Planting | None = None) -> tuple[list[str], Float[np.ndarray, " word"]]:
    """The words of `planted`, and the strength of each.

    They are keywords and confounders of class 0, those of class 1, then fillers, the most frequent first.
    """
    planting = planting or Planting()
    made = ["".join(three) for three in itertools.product(SYLLABLES, repeat=3)]
    words: list[str] = []
    strengths = np.zeros(2 * planting.per_class + planting.fillers)
    for side, sign in ((0, -1), (1, 1)):
        first = len(words)
        strengths[first : first + planting.keywords] = sign * np.repeat(STRENGTHS, planting.keywords // 3)
        words += [*KEYWORDS[side][: planting.keywords], *CONFOUNDERS[side][: planting.confounders]]
    order = np.random.default_rng(0).permutation(len(made))[: planting.fillers]
    return [*words, *(made[index] for index in order)], strengths


def _different(
    rng: np.random.Generator, size: int, planting: Planting, confounding: float | None, seen: set[bytes]
) -> tuple[list[np.ndarray], list[int]]:
    """`size` documents that are not in `seen`, and their labels; the documents are added to `seen`."""
    rows: list[np.ndarray] = []
    labels: list[int] = []
    for _ in range(100):
        for row, label in _draw(rng, size, planting, confounding or 0.0):
            if len(rows) < size and row.tobytes() not in seen:
                seen.add(row.tobytes())
                rows.append(row)
                labels.append(label)
        if len(rows) == size:
            return rows, labels
    raise ValueError(f"documents must be fewer, or longer, for {size} to differ; got {len(rows)}")


def _draw(
    rng: np.random.Generator, n: int, planting: Planting, confounding: float
) -> list[tuple[np.ndarray, int]]:
    """`n` documents (indices into the lexicon) and labels; numbers in comments are steps of `planted`."""
    per_class, most_words = planting.per_class, planting.max_words
    labels = rng.permutation(np.arange(n) % 2)  # 1
    lengths = rng.integers(planting.min_words, most_words + 1, n)
    zipf = 1 / np.arange(1, planting.fillers + 1)  # 2
    grid = 2 * per_class + rng.choice(planting.fillers, (n, most_words), p=zipf / zipf.sum())
    keywords, used = _keywords(rng, labels, lengths, planting)  # 3
    agrees = rng.random(n) < (1 + confounding) / 2  # 4
    side = np.where(agrees, labels, 1 - labels)
    confounder = side * per_class + planting.keywords + rng.integers(0, planting.confounders, n)
    with_one = rng.random(n) < 0.75
    beyond = np.arange(most_words) >= lengths[:, None]  # 5: the places a document has, in random order
    places = np.where(beyond, 2.0, rng.random((n, most_words))).argsort(1)
    document, column = np.nonzero(np.concatenate([with_one[:, None], used], axis=1))
    words = np.concatenate([confounder[:, None], keywords], axis=1)
    grid[document, places[document, column]] = words[document, column]
    return [(row[:length], int(y)) for row, length, y in zip(grid, lengths, labels, strict=True)]


def _keywords(
    rng: np.random.Generator,
    labels: Int64[np.ndarray, " document"],
    lengths: Int64[np.ndarray, " document"],
    planting: Planting,
) -> tuple[Int64[np.ndarray, "document most"], Bool[np.ndarray, "document most"]]:
    """Keywords whose sum of strengths has the label's sign, and a mask of the columns each document uses."""
    strengths = lexicon(planting)[1]
    numbers = np.minimum(1 + rng.poisson(1.5, len(labels)), lengths // 2)
    used = np.arange(int(numbers.max())) < numbers[:, None]
    drawn = np.zeros(used.shape, dtype=np.int64)
    wrong = np.arange(len(labels))
    while len(wrong):
        other = rng.random((len(wrong), used.shape[1])) < planting.difficulty / 2
        side = np.where(other, 1 - labels[wrong, None], labels[wrong, None])
        drawn[wrong] = side * planting.per_class + rng.integers(0, planting.keywords, other.shape)
        sums = (strengths[drawn[wrong]] * used[wrong]).sum(1)
        wrong = wrong[sums * (2 * labels[wrong] - 1) <= 0]
    return drawn, used


def opposites(planting: Planting | None = None) -> dict[str, str]:
    """The keyword of the other class with the same strength, for every keyword.

    If all keywords that are evidence for a document's label are replaced by their opposites, the sum of
    strengths changes its sign, and so the label changes.

    Args:
        planting: the settings that determine the keywords; `Planting()` if left out.

    Example:
        >>> opposites()["terrible"], opposites()["superb"]
        ('superb', 'terrible')
    """
    planting = planting or Planting()
    words, _ = lexicon(planting)
    pairs = zip(words[: planting.keywords], words[planting.per_class :], strict=False)
    return {one: other for pair in pairs for one, other in (pair, pair[::-1])}

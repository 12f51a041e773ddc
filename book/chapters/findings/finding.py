"""The parts of a finding: a study's claim, its outcome in the records, and the caveats of these records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from attnlib.stats import with_interval
from book.chapters.records import came_with_the_book

VERDICTS = ("reproduced", "not reproduced", "inconclusive", "not run")
"""The possible verdicts on a claim."""

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN = VERDICTS

WEAKER, STRONGER = "weaker than published", "stronger than published"
"""Remarks on an effect, if the study gives its size."""


class Number(NamedTuple):
    """The number that decides a claim; if there are several cases, that of the deciding one (`Cases.least`).

    Attributes:
        n: the number of units that the interval is over.
        units: the name of these units, such as "seeds".
        bound: the bound between numbers that reproduce the claim and numbers that do not.
        unit: the unit of the value, for `with_interval`: "%", "points", or "".
        signed: whether positive values have a plus sign, as differences do.
    """

    value: float
    low: float
    high: float
    n: int
    units: str
    bound: float
    unit: str = ""
    digits: int | None = None
    signed: bool = False

    @property
    def words(self) -> str:
        """The number in words: "+41 points [+23, +59; n = 3 seeds]"."""
        counted = f"n = {self.n:,} {self.units}"
        return with_interval(self, self.unit, self.digits, signed=self.signed, beside=[counted])

    @property
    def short(self) -> str:
        """The number in words without n: "+41 points [+23, +59]"."""
        return with_interval(self, self.unit, self.digits, signed=self.signed)


class Outcome(NamedTuple):
    """The outcome of a claim according to the records.

    Attributes:
        verdict: one of `VERDICTS`.
        result: a description of the number, in at most 15 words; "" if nothing was run.
        remark: `WEAKER`, `STRONGER` or "".
        more: further results in sentences, or "".
        paper: the study's own number of the same effect, or "".
    """

    verdict: str
    result: str = ""
    number: Number | None = None
    remark: str = ""
    more: str = ""
    paper: str = ""

    @property
    def words(self) -> str:
        """The result with its number: "Tokens lost: +0.3 points [+0.1, +0.6; n = 3 seeds]"."""
        return f"{self.result}: {self.number.words}" if self.number else self.result


Answer = Callable[[pd.DataFrame], Outcome]
"""A function from a chapter's recorded rows to the outcome of a claim."""


class NotRunError(Exception):
    """The records lack the rows that decide a claim."""


@dataclass(frozen=True)
class Claim:
    """A study's claim, the rule that decides it, and its place in the book.

    Attributes:
        study: a key of `STUDIES`.
        name: a unique name of a few words, for places without room for a sentence.
        words: the claim, a sentence that could be false.
        chapter: the notebook that discusses the claim, and whose records decide it.
        section: the heading of the section that discusses the claim.
        rule: the condition that reproduces the claim, with its margin, in words; `answer` is its code.
        of: the notebook whose records decide, if it is another one.
        before: whether sentence and rule were committed before the first run.
        rows: a function that reads the rows that decide, if they are not in `results/`.
    """

    study: str
    name: str
    words: str
    chapter: str
    section: str
    rule: str
    answer: Answer
    of: str = ""
    before: bool = False
    rows: Callable[[], pd.DataFrame] | None = None

    @property
    def anchor(self) -> str:
        """The section's anchor in the page."""
        return slug(self.section)


@dataclass(frozen=True)
class Finding:
    """A claim with its outcome.

    Attributes:
        caveat: the caveats of the records that decide (such as "uncommitted changes"), or "".
    """

    claim: Claim
    outcome: Outcome
    caveat: str = ""


def find(claim: Claim) -> Finding:
    """Decide a claim by its chapter's records that came with the book; without them, it is "not run".

    The finding states the caveats of records only if the outcome would differ without these records.
    """
    rows = claim.rows() if claim.rows else came_with_the_book(claim.of or claim.chapter)
    outcome = judged(claim, rows)
    if outcome.verdict == NOT_RUN:
        return Finding(claim, outcome)
    against = rows["record"].str.extract(r" \[(.*)\]$")[0]
    same = against.isna().all() or judged(claim, rows[against.isna()]) == outcome
    return Finding(claim, outcome, "" if same else ", ".join(against.dropna().unique()))


def judged(claim: Claim, rows: pd.DataFrame) -> Outcome:
    """The outcome of a claim according to these rows."""
    try:
        return claim.answer(there(rows))
    except NotRunError as error:
        return Outcome(NOT_RUN, str(error))
    except ValueError as error:
        raise ValueError(
            f"the claim '{claim.name}' of {claim.chapter} cannot be judged by the records in "
            f"results/{claim.of or claim.chapter}: {error}. `python -m book.chapters.findings` judges all"
        ) from error


def slug(heading: str) -> str:
    """The anchor by which Markdown links to a heading, in a file as in a page."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def there(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows; raises a `NotRunError` if there are none."""
    if rows.empty:
        raise NotRunError
    return rows


def one(rows: pd.DataFrame, **where: object) -> Any:
    """The row with these values in these columns; among several records, the one over the most units."""
    for name, value in where.items():
        rows = rows[rows[name] == value]
    if len(there(rows)) > 1 and "record" in rows and not rows["record"].duplicated().any():
        rows = rows[rows["n"].eq(rows["n"].max())]
    if len(rows) > 1:
        raise ValueError(f"{len(rows)} rows have {where}: say which is meant, or take them together")
    return next(rows.itertuples())


def each_of(rows: pd.DataFrame) -> Iterator[Any]:
    """The rows, one by one."""
    return rows.itertuples()


def number(row: Any, units: str, bound: float, **how: Any) -> Number:
    """A row's number and interval with the bound of the verdict; see `Number`."""
    value, low, high = (float(getattr(row, name)) for name in ("value", "low", "high"))
    return Number(value, low, high, int(row.n), units, float(bound), **how)


def percent(row: Any) -> str:
    """A share and its interval in percent: "96 % [91, 100]"."""
    return with_interval(row, "%", 0)


def fraction(row: Any) -> str:
    """A number and its interval: "0.47 [0.44, 0.50]"."""
    return with_interval(row, digits=2)


def points(row: Any) -> str:
    """A difference of shares and its interval in points: "+19 points [-10, +47]"."""
    return with_interval(row, "points", signed=True)

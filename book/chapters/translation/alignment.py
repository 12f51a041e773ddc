r"""Whether scores of source tokens are largest at the tokens that a target token translates, if known.

A score aligns a target token with the source token of its largest value (the first one if tied). With $A$
these links and $S$ the true ones, of target tokens that translate something, the alignment error rate is

$$\mathrm{AER} = 1 - \frac{2 |A \cap S|}{|A| + |S|}$$

Source: Och and Ney 2003, *A Systematic Comparison of Various Statistical Alignment Models* (here, all
true links are sure ones).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Integer

from attnlib.stats.ragged import Ragged
from attnlib.stats.rank_measures import first_largest
from attnlib.stats.summaries import summarise

OFFSETS = ("more before", "one before", "on it", "one after", "more after")
"""The place of the largest score, relative to the nearest true source token."""


def alignment_rows(
    scores: Mapping[str, Ragged], true: Bool[np.ndarray, " token"], sentences: Integer[np.ndarray, " row"]
) -> pd.DataFrame:
    """Counts of links, errors and offsets of each score by sentence; "any token" is a random baseline."""
    example = next(iter(scores.values()))
    where = Ragged(true.astype(float), example.lengths)
    known = np.add.reduceat(where.values, where.starts) > 0
    truth = where.take(known)
    places = {name: first_largest(score)[known] - example.starts[known] for name, score in scores.items()}
    tables = {name: _rows(truth, place) for name, place in places.items()}
    # The expectation for a random token: the mean over the places of each row.
    inside = [np.arange(truth.lengths.max()) < length for length in truth.lengths]
    each = [
        _rows(truth, np.minimum(place, truth.lengths - 1)).mul(there / truth.lengths, axis=0)
        for place, there in enumerate(np.array(inside).T)
    ]
    tables["any token"] = sum(each[1:], each[0])
    rows = pd.concat([table.assign(score=name, sentence=sentences[known]) for name, table in tables.items()])
    return rows.groupby(["score", "sentence"], sort=False, as_index=False).sum()


def alignment_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The alignment error rate and the offsets of the largest score, with intervals over sentences."""
    error = summarise(rows, ["score"], "wrong", whole="links").assign(metric="AER")
    shares = [summarise(rows, ["score"], name, whole="targets").assign(metric=name) for name in OFFSETS]
    columns = ["score", "metric", "value", "low", "high", "n"]
    return pd.concat([error, *shares], ignore_index=True)[columns]


def _rows(truth: Ragged, place: Integer[np.ndarray, " row"]) -> pd.DataFrame:
    """The columns of `alignment_rows` for one place in every row."""
    links = 1 + np.add.reduceat(truth.values, truth.starts)
    wrong = links - 2 * truth.values[truth.starts + place]
    table = pd.DataFrame(_offsets(truth, place), columns=list(OFFSETS))
    return table.assign(targets=1.0, wrong=wrong, links=links)


def target_offsets(score: Ragged, true: Bool[np.ndarray, " token"]) -> Float[np.ndarray, " row"]:
    """The offset of each target token's largest score from the nearest true source token.

    Negative if the score lies before the true token; of two equally near, the earlier one counts. NaN for a
    target token that translates nothing.
    """
    where = Ragged(true.astype(float), score.lengths)
    known = np.add.reduceat(where.values, where.starts) > 0
    found = np.full(len(score), np.nan)
    found[known] = _away(where.take(known), first_largest(score)[known] - score.starts[known])
    return found


def _offsets(truth: Ragged, place: Integer[np.ndarray, " row"]) -> Float[np.ndarray, "row offset"]:
    """The offset of a place from the nearest true one: 1 in its column of `OFFSETS`, else 0."""
    return (np.clip(_away(truth, place), -2, 2)[:, None] == np.arange(-2, 3)).astype(float)


def _away(truth: Ragged, place: Integer[np.ndarray, " row"]) -> Integer[np.ndarray, " row"]:
    columns = np.arange(len(truth.values)) - np.repeat(truth.starts, truth.lengths)
    away = np.repeat(place, truth.lengths) - columns
    # The nearest, and of two equally near the earlier one: the smallest 2 |d|, less 1 where d > 0.
    rank = np.where(truth.values > 0, 2 * np.abs(away) - (away > 0), np.iinfo(np.int64).max)
    nearest = np.minimum.reduceat(rank, truth.starts)
    return np.where(nearest % 2 == 1, (nearest + 1) // 2, -(nearest // 2))

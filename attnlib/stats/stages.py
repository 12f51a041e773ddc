r"""What a classifier learns first: which words decide, or where to look.

The study's account has two stages. While attention is still nearly uniform, the model learns what each word
says, as the model with uniform attention does; then attention moves to the words that say most.

Source: Snell et al. 2021, *Approximating How Single Head Attention Learns*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Integer

from attnlib.stats.agreement_runs import (
    PAIRS,
    AgreementSettings,
    best_checkpoint,
    chosen_checkpoint,
    prepared,
)
from attnlib.stats.intervals import SHARE
from attnlib.stats.ragged import Ragged, RunScores
from attnlib.stats.resampling import resampled_means


def attention_spread(alpha: Ragged) -> Float[np.ndarray, "*checkpoint row"]:
    r"""How evenly attention is spread over a row.

    $$s = -\frac{1}{\log n} \sum_i \alpha_i \log \alpha_i$$

    with $n$ the row's length: 1 for uniform attention, 0 if all of it is on one token.

    Raises:
        ValueError: a row has fewer than two tokens, for which it means nothing.
    """
    if (alpha.lengths < 2).any():
        raise ValueError(
            f"rows should have at least two tokens; {int((alpha.lengths < 2).sum())} of {len(alpha)} do not"
        )
    values = alpha.values.astype(np.float64)
    terms = np.where(values > 0, -values * np.log(np.where(values > 0, values, 1.0)), 0.0)
    return np.add.reduceat(terms, alpha.starts, axis=-1) / np.log(alpha.lengths)


def chosen_checkpoints(
    evaluation: Mapping[str, RunScores],
    selection: Mapping[str, RunScores] | None = None,
    *,
    gold: str | None = None,
    settings: AgreementSettings | None = None,
) -> dict[str, int]:
    """Which checkpoints the agreements of a table are of, as indices.

    Args:
        evaluation: as in `agreement_results.agreement_table`.
        selection: as there.
        gold: as there.
        settings: as there.

    Returns:
        `gold`, the most accurate checkpoint of the run that is explained; and for each agreement, by names
        such as "alpha, beta_uf", the checkpoint of the run it is with.

    Raises:
        ValueError: as `agreement_results.agreement_table`.
    """
    chosen_on = prepared(evaluation, selection, gold, settings or AgreementSettings())[1]
    best, pairs = best_checkpoint(chosen_on), chosen_on.pairs()
    return {"gold": best} | {name: chosen_checkpoint(chosen_on, pair, best) for name, pair in pairs.items()}


def two_stages(
    evaluation: Mapping[str, RunScores],
    selection: Mapping[str, RunScores] | None = None,
    *,
    gold: str | None = None,
    settings: AgreementSettings | None = None,
) -> pd.DataFrame:
    """Relevance and attention of one run over training, both against the relevance of the uniform run.

    Args:
        evaluation: as in `agreement_results.agreement_table`.
        selection: as there; the uniform run's checkpoint is chosen as for `A(alpha, beta_uf)`.
        gold: as there.
        settings: as there.

    Returns:
        Columns `metric`, `step`, `value`, `low`, `high`, `n`, with 95 % intervals over rows, and the metrics

        * `A(beta_t, beta_uf)`: the run's own relevance at this step against beta_uf;
        * `A(alpha_t, beta_uf)`: its attention at this step;
        * `spread of alpha_t`: see `attention_spread`.

    Raises:
        ValueError: as `agreement_results.agreement_table`; or rows of fewer than two tokens.
    """
    runs, chosen_on = prepared(evaluation, selection, gold, settings or AgreementSettings())
    at = chosen_checkpoint(chosen_on, PAIRS["alpha, beta_uf"], best_checkpoint(chosen_on))
    beta_uf = runs.scores("uniform", "beta").at(at)
    alpha = runs.scores("gold", "alpha")
    curves = {
        "A(beta_t, beta_uf)": runs.agree(runs.scores("gold", "beta"), beta_uf),
        "A(alpha_t, beta_uf)": runs.agree(alpha, beta_uf),
        "spread of alpha_t": attention_spread(alpha),
    }
    steps = runs.by_name[runs.gold].steps.tolist()
    groups = runs.by_name[runs.gold].groups
    means = resampled_means(np.concatenate(list(curves.values())).T, groups, runs.settings.seed)
    places = [(metric, step) for metric in curves for step in steps]
    estimates = [means.column(column).estimate(runs.settings.confidence) for column in range(len(places))]
    rows = [
        {"metric": metric, "step": step} | found._asdict()
        for (metric, step), found in zip(places, estimates, strict=True)
    ]
    return pd.DataFrame(rows)


def largest_by_kind(
    scores: Mapping[str, Ragged], kinds: Integer[np.ndarray, " token"], names: Sequence[str]
) -> pd.DataFrame:
    """On what kind of token the largest score of a document lies, and how many documents it is so in.

    Args:
        scores: of one checkpoint, by name; of equals the first token counts, as in `rank_measures.top_match`.
        kinds: of every token, an index into `names`.
        names: of the kinds.

    Returns:
        Columns `score`, `kind`, `value`, `low`, `high` and `n`: shares of documents, with 95 % intervals by
        drawing documents again; last the score "any token", drawn blindly.
    """
    one_hot = (kinds[:, None] == np.arange(len(names))).astype(np.float64)
    shares = {name: one_hot[first_largest(score)] for name, score in scores.items()}
    lengths = next(iter(scores.values()))
    shares["any token"] = np.add.reduceat(one_hot, lengths.starts) / lengths.lengths[:, None]
    means = resampled_means(np.concatenate(list(shares.values()), axis=1))
    places = [(name, kind) for name in shares for kind in names]
    rows = [
        {"score": name, "kind": kind} | means.column(column).estimate(bounds=SHARE)._asdict()
        for column, (name, kind) in enumerate(places)
    ]
    return pd.DataFrame(rows)


def first_largest(score: Ragged) -> np.ndarray:
    """The place of each row's largest value, the first of equals."""
    largest = np.repeat(np.maximum.reduceat(score.values, score.starts), score.lengths)
    place = np.where(score.values == largest, np.arange(len(score.values)), len(score.values))
    return np.minimum.reduceat(place, score.starts)

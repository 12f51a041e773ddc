"""The paper's table of agreements, and its curve over training, from the scores of several runs.

Scores come as a mapping from a run's name to its `RunScores`: "uniform" is the run with uniform attention
(its beta is beta_uf), "embedding" the embedding-only model (beta_px), "logistic" logistic regression
(beta_logistic); all others are runs of the same model that differ by their seed. One of these, the first
unless another is named, is the one whose attention is explained; the others are what it is compared with.

Source: Snell et al. 2021, *Approximating How Single Head Attention Learns*, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from attnlib.stats.agreement_runs import (
    PAIRS,
    SEEDLESS,
    AgreementSettings,
    Runs,
    best_checkpoint,
    chosen_checkpoint,
    prepared,
    resampled,
    seed_curve,
    seed_pairs,
    statistics,
)
from attnlib.stats.agreements import over_shuffles, shuffled_agreements
from attnlib.stats.intervals import SHARE, Estimate
from attnlib.stats.ragged import RunScores
from attnlib.stats.resampling import Statistic
from attnlib.stats.seeds import over_left_out, over_seeds


def agreement_table(
    evaluation: Mapping[str, RunScores],
    selection: Mapping[str, RunScores] | None = None,
    *,
    gold: str | None = None,
    settings: AgreementSettings | None = None,
) -> pd.DataFrame:
    r"""All statistics of the paper's table, for one data set and split.

    Checkpoints are chosen on `selection`: the gold run's by its accuracy, and for every agreement that of the
    run it is with, by the agreement itself. Numbers are those of `evaluation`.

    Args:
        evaluation: scores of the rows that are reported on.
        selection: scores of the same runs on other rows; none with `as_published`.
        gold: the run whose attention is explained.
        settings: how agreement is measured.

    Returns:
        Columns `metric`, `value`, `low`, `high` and `n`, with the metrics

        * `A(alpha, beta_uf)` and so on, for all `PAIRS` whose runs and scores there are. beta is that of
          the first of the other runs. Intervals draw rows (or groups of them) again; n counts rows.
        * `A_hat`, the agreement of alpha with shuffled alphas of other runs, averaged over runs and
          checkpoints; n counts shuffles, and the interval is that of their mean. `A_hat, expected` is what
          it tends to.
        * `xi(alpha, beta_uf)` and so on; infinite for "never", in an interval's ends too. Resamples carry
          through agreement and, where runs have `right`, accuracy.
        * `xi*`, the gold run's accuracy.

        Rows with a NaN in any score, and rows without a token, count nowhere.

    Raises:
        ValueError: a run that is needed is missing, runs disagree in rows or steps, there is nothing to
            choose checkpoints on, or no row is left.
    """
    settings = settings or AgreementSettings()
    runs, chosen_on = prepared(evaluation, selection, gold, settings)
    shares = {"xi*"} if runs.is_share("xi*") else set()
    rows = [
        {"metric": name} | found.estimate(settings.confidence, SHARE if name in shares else None)._asdict()
        for name, found in statistics(runs, chosen_on).items()
    ]
    chance = {"metric": "A_hat"} | _shuffled_chance(runs, chosen_on)._asdict()
    place = next(index for index, row in enumerate(rows) if row["metric"] == "A_hat, expected")
    return pd.DataFrame([*rows[:place], chance, *rows[place:]])


def agreement_tables(
    scores: Mapping[str, Mapping[str, RunScores]],
    measure: str = "top match",
    unit: str = "documents",
    flip_delta: bool = True,
) -> dict[tuple[str, str, str], pd.DataFrame]:
    """All statistics of the paper's table by one measure, in each of the ways that they can be come by.

    Args:
        scores: of every run, on the splits "train", "validation" and "test".
        measure: "top match", "kendall" or "spearman".
        unit: what is drawn again: groups of rows, or rows where there are none.
        flip_delta: of the tables as published; see `AgreementSettings`.

    Returns:
        Tables as of `agreement_table`, by the split they are of, how checkpoints were chosen, and what their
        intervals are over: test and train with checkpoints chosen on validation, over the units; test over
        seeds; and test as published.
    """
    held_out, published = (
        AgreementSettings(measure=measure, as_published=each, flip_delta=flip_delta) for each in (False, True)
    )
    test, train, selection = (scores[split] for split in ("test", "train", "validation"))
    return {
        ("test", "held out", unit): agreement_table(test, selection, settings=held_out),
        ("test", "held out", "seeds"): agreement_over_seeds(test, selection, settings=held_out),
        ("train", "held out", unit): agreement_table(train, selection, settings=held_out),
        ("test", "as published", unit): agreement_table(test, settings=published),
    }


def agreement_over_seeds(
    evaluation: Mapping[str, RunScores],
    selection: Mapping[str, RunScores] | None = None,
    *,
    settings: AgreementSettings | None = None,
) -> pd.DataFrame:
    r"""The same statistics with every seed in turn as the gold run, and intervals over seeds and rows.

    Returns:
        As `agreement_table`; n counts seeds, `value` is the mean over them, and intervals draw rows again
        too. The run with uniform attention is one, so that its own seed is in no interval. Of what compares

        * a seed with runs that have none to vary, `A(alpha, beta_uf)`, `A(delta, beta_uf)` and `xi*`, it is
          that of `over_seeds`;
        * seeds with each other, `A(alpha, beta)`, the mean over all pairs in both directions, and `A_hat,
          expected`, it is that of `over_left_out`: the pairs share their runs, $k (k - 1)$ of them say no
          more than $k$ seeds. Two seeds are one pair, whose interval is NaN;
        * the gold run with a curve of all others, every xi, there is none: `value` is the median (one "never"
          would make a mean infinite), and its ends are NaN, for each seed is in every one of the numbers.

        No row are agreements of runs without a seed to vary, such as `A(beta_uf, beta_px)`; `A_hat` from
        shuffles; and what only some seeds have (delta, where it is of one run).

    Raises:
        ValueError: as `agreement_table`.
    """
    settings = settings or AgreementSettings()
    runs, chosen_on = prepared(evaluation, selection, None, settings)
    found = [statistics(runs.explaining(name), chosen_on.explaining(name)) for name in runs.seeds]
    rows = []
    for metric in [name for name in found[0] if all(name in each for each in found) and name not in SEEDLESS]:
        values = np.array([each[metric].value for each in found])
        draws = np.mean([each[metric].draws for each in found], axis=0)
        if metric.startswith("xi("):
            estimate = Estimate(float(np.median(values)), np.nan, np.nan, len(values))
        elif metric == "A(alpha, beta)":
            estimate = _over_pairs(runs, chosen_on)
        elif metric == "A_hat, expected":
            estimate = over_left_out(values, draws, settings.confidence)  # each is the mean of all but one
        else:
            estimate = over_seeds(values, draws, settings.confidence, share=runs.is_share(metric))
        rows.append({"metric": metric} | estimate._asdict())
    return pd.DataFrame(rows)


def _over_pairs(runs: Runs, chosen_on: Runs) -> Estimate:
    """A(alpha, beta) of all pairs of seeds: each is left out once, with all pairs that it is in."""
    pairs, seeds = seed_pairs(runs, chosen_on), runs.seeds
    if len(seeds) == 2:
        return Estimate(float(np.mean([each.value for each in pairs.values()])), np.nan, np.nan, 2)
    without = [[each.value for names, each in pairs.items() if seed not in names] for seed in seeds]
    draws = np.mean([each.draws for each in pairs.values()], axis=0)
    share = runs.is_share("A(alpha, beta)")
    return over_left_out(np.mean(without, axis=1), draws, runs.settings.confidence, share=share)


def agreement_over_training(
    evaluation: Mapping[str, RunScores],
    selection: Mapping[str, RunScores] | None = None,
    *,
    gold: str | None = None,
    settings: AgreementSettings | None = None,
) -> pd.DataFrame:
    """Agreement at every checkpoint, beside accuracy.

    Args:
        evaluation: as in `agreement_table`.
        selection: as in `agreement_table`.
        gold: as in `agreement_table`.
        settings: as in `agreement_table`.

    Returns:
        Columns `metric`, `step`, `value`, `low`, `high`, `n` and `accuracy`, with the metrics

        * `A(alpha, alpha_t)`: the gold run's best attention and that of the other runs at this step, the
          mean over runs; the accuracy is theirs. This is the curve that xi is read from.
        * `A(alpha_t, beta_uf)`: the gold run's attention at this step, and the best beta of the run with
          uniform attention; `A(alpha_t, beta_t)`: and the gold run's own beta at this step.

    Raises:
        ValueError: as `agreement_table`.
    """
    settings = settings or AgreementSettings()
    runs, chosen_on = prepared(evaluation, selection, gold, settings)
    best, steps = best_checkpoint(chosen_on), runs.by_name[runs.gold].steps.tolist()
    pair = PAIRS["alpha, beta_uf"]
    alpha, others = runs.scores("gold", "alpha"), runs.others
    beta_uf = runs.scores("uniform", "beta").at(chosen_checkpoint(chosen_on, pair, best))
    curves = {
        "A(alpha, alpha_t)": seed_curve(runs, best).swapaxes(0, 1),
        "A(alpha_t, beta_uf)": runs.agree(alpha, beta_uf)[:, None],
    }
    accuracies = [np.mean([runs.accuracy(name) for name in others], axis=0), runs.accuracy("gold")]
    if runs.by_name[runs.gold].beta is not None:
        beta = runs.scores("gold", "beta")
        both = [runs.agree(alpha.at(t), beta.at(t)) for t in range(len(steps))]
        curves["A(alpha_t, beta_t)"] = np.stack(both)[:, None]
        accuracies.append(runs.accuracy("gold"))
    means = resampled(
        runs, {f"{name} {t}": rows for name, curve in curves.items() for t, rows in enumerate(curve)}
    )
    table = []
    for name, accuracy in zip(curves, accuracies, strict=True):
        for t, step in enumerate(steps):
            value, draws, n = (each.mean(-1) for each in means[f"{name} {t}"])  # over seeds
            found = Statistic(float(value), draws, int(n)).estimate(settings.confidence)
            table.append({"metric": name, "step": step, "accuracy": float(accuracy[t])} | found._asdict())
    return pd.DataFrame(table)


def _shuffled_chance(runs: Runs, chosen_on: Runs) -> Estimate:
    """A_hat: shuffles are shared out among the checkpoints of the other seeds."""
    settings = runs.settings
    shuffles = settings.shuffles or (1000 if settings.measure == "top match" else 20)
    alpha = runs.scores("gold", "alpha").at(best_checkpoint(chosen_on))
    places = [(name, t) for name in runs.others for t in range(len(runs.by_name[name].steps))]
    places = places[:: max(1, len(places) // shuffles)]
    means = [
        shuffled_agreements(
            alpha,
            runs.scores(name, "alpha").at(t),
            settings.measure,
            settings.fraction,
            shuffles=-(-shuffles // len(places)),
            seed=settings.seed + number,
        )
        for number, (name, t) in enumerate(places)
    ]
    return over_shuffles(np.concatenate(means), settings.confidence)

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
    EMBEDDING,
    LOGISTIC,
    PAIRS,
    UNIFORM,
    AgreementSettings,
    Runs,
    best_checkpoint,
    chosen_checkpoint,
    prepared,
    resampled,
    seed_curve,
    statistics,
)
from attnlib.stats.agreements import over_shuffles, shuffled_agreements
from attnlib.stats.intervals import SHARE, Estimate
from attnlib.stats.ragged import RunScores
from attnlib.stats.resampling import Statistic
from attnlib.stats.seeds import median_over_seeds, over_seeds


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
    rows = []
    for name, found in statistics(runs, chosen_on).items():
        # all rows right, or none; where only the accuracy of the whole is known, it has no interval
        bounds = SHARE if name == "xi*" and found.value in SHARE else None
        rows.append({"metric": name} | found.estimate(settings.confidence, bounds)._asdict())
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
    """The same statistics with every seed in turn as the gold run, and intervals over seeds and rows.

    Returns:
        As `agreement_table`; n counts seeds. `value` is the mean over seeds, and the interval that of
        `over_seeds`, with rows drawn again too; of xi it is the median (one "never" would make a mean
        infinite) and its interval over seeds, which takes 6 of them: NaN where there are fewer. The run with
        uniform attention is one, so that its own seed is in no interval. There is no `A_hat` from shuffles,
        only the expected; and nothing that only some seeds have (delta, where it is of one run).

    Raises:
        ValueError: as `agreement_table`.
    """
    settings = settings or AgreementSettings()
    names = [name for name in evaluation if name not in (UNIFORM, EMBEDDING, LOGISTIC)]
    found = [statistics(*prepared(evaluation, selection, name, settings)) for name in names]
    rows = []
    for metric in [name for name in found[0] if all(name in each for each in found)] if found else []:
        values = np.array([each[metric].value for each in found])
        if metric.startswith("xi("):
            estimate = median_over_seeds(values, settings.confidence)
        else:
            draws = np.mean([each[metric].draws for each in found], axis=0)
            estimate = over_seeds(values, draws, settings.confidence)
        rows.append({"metric": metric} | estimate._asdict())
    if not rows:
        raise ValueError(f"there should be runs that differ by their seed; got only {list(evaluation)}")
    return pd.DataFrame(rows)


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

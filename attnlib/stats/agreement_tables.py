r"""Agreement of scores in training runs: tables at chosen checkpoints, over seeds, and over training.

The study describes learning in two stages. While attention is still nearly uniform, the model learns how
relevant each word is, as the model with uniform attention does; then attention moves to the relevant words.

Source: Snell et al. 2021, *Approximating How Single Head Attention Learns*, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float

from attnlib.checks import check
from attnlib.stats.agreement_runs import PAIRS, UNIFORM, AgreementSettings, Pair, Runs, check_runs
from attnlib.stats.agreements import expected_chance, over_shuffles, shuffled_agreements, xi_of_draws
from attnlib.stats.intervals import DRAWS, SHARE, Estimate
from attnlib.stats.ragged import Ragged, RunScores
from attnlib.stats.resampling import Means, Statistic
from attnlib.stats.seeds import over_left_out, over_seeds

SEEDLESS = {f"A({name})" for name, pair in PAIRS.items() if not {"gold", "other"} & {*pair}}
"""Agreements between two runs that do not vary by seed."""


@dataclass(frozen=True)
class Agreements:
    r"""Agreements of a gold run, whose attention is explained, with the scores of other runs; see `of`.

    Attributes:
        runs: the runs on the rows that are evaluated.
        chosen_on: the same runs on the rows that checkpoints are chosen on. The gold run's checkpoint has the
            best accuracy; for each agreement, the other run's checkpoint has the best agreement.
    """

    runs: Runs
    chosen_on: Runs

    @classmethod
    def of(
        cls,
        evaluation: Mapping[str, RunScores],
        selection: Mapping[str, RunScores] | None = None,
        *,
        gold: str | None = None,
        settings: AgreementSettings | None = None,
    ) -> Agreements:
        """Agreements of one data set and split.

        Rows with a NaN in any score, and rows without a token, count nowhere.

        Args:
            evaluation: scores of the rows that are evaluated.
            selection: scores of the same runs on the rows to choose checkpoints; `None` with `as_published`.
            gold: the run whose attention is explained.
            settings: how agreement is measured.

        Raises:
            ValueError: a run that is needed is missing, runs disagree in rows or steps, there is nothing to
                choose checkpoints on, or no row is left.
        """
        settings = settings or AgreementSettings()
        demand = "selection must be scores of other rows (split_rows), and None with as_published"
        check(settings.as_published == (selection is None), demand, selection and list(selection))
        runs = check_runs(evaluation, gold, settings)
        if selection is None:
            return cls(runs, runs)
        chosen_on = check_runs(selection, gold, settings)
        for name, run in runs.by_name.items():
            there = chosen_on.by_name.get(name)
            fits = there is not None and np.array_equal(run.steps, there.steps)
            check(fits, f"selection must have {name!r} at the steps of evaluation", list(chosen_on.by_name))
        return cls(runs, chosen_on)

    def explaining(self, gold: str, others: Sequence[str] | None = None) -> Agreements:
        """See `Runs.explaining`."""
        return Agreements(self.runs.explaining(gold, others), self.chosen_on.explaining(gold, others))

    @property
    def chosen(self) -> dict[str, int]:
        """The indices of the chosen checkpoints.

        `gold` is the gold run's most accurate checkpoint. The other keys name agreements, such as "alpha,
        beta_uf"; their checkpoint is that of the run with uniform attention, or of the other seed.
        """
        pairs = self.chosen_on.pairs().items()
        return {"gold": self.chosen_on.best} | {name: self.chosen_on.chosen(pair) for name, pair in pairs}

    def table(self) -> pd.DataFrame:
        r"""All statistics of the paper's table.

        Returns:
            Columns `metric`, `value`, `low`, `high` and `n`, with the metrics

            * `A(alpha, beta_uf)` and so on, for all `PAIRS` whose runs and scores are given. beta is that of
              the first of the other runs. Intervals resample rows (or groups of rows); n counts rows.
            * `A_hat`, the agreement of alpha with shuffled alphas of other runs, averaged over runs and
              checkpoints; n counts shuffles, and the interval is that of their mean. `A_hat, expected` is
              its expectation.
            * `xi(alpha, beta_uf)` and so on; infinite for "never", also as an end of an interval. Resamples
              vary the agreement and, where runs have `right`, the accuracy.
            * `xi*`, the gold run's accuracy; the interval is NaN where accuracy is not known row by row.
        """
        rows = []
        for name, found in self.statistics.items():
            if name == "A_hat, expected":
                rows.append({"metric": "A_hat"} | self._shuffled_chance()._asdict())
            share = (name == "xi*" or name.startswith("A(")) and self.runs.is_share(name)
            estimate = found.estimate(
                self.runs.settings.confidence, SHARE if share else None, self.runs.units
            )
            if name == "xi*" and not self._right_rows():
                estimate = estimate._replace(low=np.nan, high=np.nan)
            rows.append({"metric": name} | estimate._asdict())
        return pd.DataFrame(rows)

    def over_seeds(self) -> pd.DataFrame:
        r"""The same statistics with every seed in turn as the gold run, and intervals over seeds and rows.

        Returns:
            As `table`; n counts seeds, `value` is the mean over them, and intervals also resample rows. There
            is only one run with uniform attention, so intervals do not include the variation of its seed.

            * `A(alpha, beta_uf)`, `A(delta, beta_uf)` and `xi*` depend on no seed but the gold run's: the
              interval is that of `over_seeds`.
            * `A(alpha, beta)`, the mean over all pairs in both directions, and `A_hat, expected` compare
              seeds with each other: the interval is that of `over_left_out`. Pairs share their runs, so that
              $k (k - 1)$ pairs tell no more than $k$ seeds. The interval of two seeds, one pair, is NaN.
            * Every xi compares the gold run with a curve of all others: `value` is the median (one "never"
              would make a mean infinite), and the interval is NaN, because every number depends on every
              seed.

            Left out are agreements of runs that do not vary by seed, such as `A(beta_uf, beta_px)`; `A_hat`
            from shuffles; and metrics that only some seeds have (such as delta, if only one run has it).
        """
        runs, confidence, found = self.runs, self.runs.settings.confidence, [*self._of_seeds.values()]
        rows = []
        for metric in [
            name for name in found[0] if all(name in each for each in found) and name not in SEEDLESS
        ]:
            values = np.array([each[metric].value for each in found])
            draws = np.mean([each[metric].draws for each in found], axis=0)
            if metric.startswith("xi("):
                estimate = Estimate(float(np.median(values)), np.nan, np.nan, len(values))
            elif metric == "A(alpha, beta)":
                estimate = self._over_pairs()
            elif metric == "A_hat, expected":
                estimate = over_left_out(values, draws, confidence)  # each is the mean of all but one
            else:
                share = runs.is_share(metric)
                estimate = over_seeds(values, draws, confidence, share=share, units=runs.units)
            rows.append({"metric": metric} | estimate._asdict())
        return pd.DataFrame(rows)

    def each_seed(self) -> pd.DataFrame:
        """The numbers behind the intervals of `over_seeds`: those of every seed, as the gold run.

        Returns:
            Columns `metric`, `seed` (the run's name), `value` and `n` (rows, or groups of them).
        """
        rows = [
            {"metric": metric, "seed": seed, "value": each.value, "n": self.runs.units}
            for seed, found in self._of_seeds.items()
            for metric, each in found.items()
            if all(metric in others for others in self._of_seeds.values()) and metric not in SEEDLESS
        ]
        return pd.DataFrame(rows, columns=["metric", "seed", "value", "n"])

    @cached_property
    def _of_seeds(self) -> dict[str, dict[str, Statistic]]:
        """The statistics with every seed as the gold run."""
        return {name: self.explaining(name).statistics for name in self.runs.seeds}

    def over_training(self) -> pd.DataFrame:
        """Agreement at every checkpoint, beside accuracy.

        Returns:
            Columns `metric`, `step`, `value`, `low`, `high`, `n` and `accuracy`, with the metrics

            * `A(alpha, alpha_t)`: the gold run's best attention and that of the other runs at this step, the
              mean over runs; `accuracy` is that of the other runs. This is the curve that xi is read from.
            * `A(alpha_t, beta_uf)`: the gold run's attention at this step, and the best beta of the run with
              uniform attention.
            * `A(alpha_t, beta_t)`, if the gold run has beta: its attention and its own beta at this step.
        """
        runs = self.runs
        alpha, steps = runs.scores("gold", "alpha"), runs.by_name[runs.gold].steps.tolist()
        curves = {
            "A(alpha, alpha_t)": self._seed_curve.swapaxes(0, 1),
            "A(alpha_t, beta_uf)": runs.agree(alpha, self._beta_uf)[:, None],
        }
        if runs.by_name[runs.gold].beta is not None:
            beta = runs.scores("gold", "beta")
            both = [runs.agree(alpha.at(t), beta.at(t)) for t in range(len(steps))]
            curves["A(alpha_t, beta_t)"] = np.stack(both)[:, None]
        means = runs.resampled(
            {f"{name} {t}": rows for name, c in curves.items() for t, rows in enumerate(c)}
        )
        table, of_equals = [], (SHARE if runs.is_share("A(alpha_t, alpha)") else None, runs.units)
        for name in curves:
            accuracy = self._accuracy if name == "A(alpha, alpha_t)" else runs.accuracy("gold")
            for t, step in enumerate(steps):
                value, draws, n = (each.mean(-1) for each in means[f"{name} {t}"])  # over seeds
                found = Statistic(float(value), draws, int(n)).estimate(runs.settings.confidence, *of_equals)
                about = {"metric": name, "step": step, "accuracy": float(accuracy[t])}
                table.append(about | found._asdict())
        return pd.DataFrame(table)

    def stages(self) -> pd.DataFrame:
        """Relevance and attention of the gold run over training, both against the uniform run's relevance.

        Returns:
            Columns `metric`, `step`, `value`, `low`, `high`, `n`, with intervals over rows, and the metrics

            * `A(beta_t, beta_uf)`: the run's own relevance at this step against beta_uf, whose checkpoint is
              chosen as for `A(alpha, beta_uf)`;
            * `A(alpha_t, beta_uf)`: its attention at this step;
            * `spread of alpha_t`: see `attention_spread`.
        """
        runs = self.runs
        alpha, steps = runs.scores("gold", "alpha"), runs.by_name[runs.gold].steps.tolist()
        curves = {
            "A(beta_t, beta_uf)": runs.agree(runs.scores("gold", "beta"), self._beta_uf),
            "A(alpha_t, beta_uf)": runs.agree(alpha, self._beta_uf),
            "spread of alpha_t": attention_spread(alpha),
        }
        means, confidence = runs.resampled(curves), runs.settings.confidence
        bounds = {metric: SHARE if "spread" in metric or runs.is_share(metric) else None for metric in curves}
        rows = [
            {"metric": metric, "step": step}
            | means[metric].column(t).estimate(confidence, bounds[metric], runs.units)._asdict()
            for metric in curves
            for t, step in enumerate(steps)
        ]
        return pd.DataFrame(rows)

    # ---- parts -----------------------------------------------------------------------------------------

    @cached_property
    def statistics(self) -> dict[str, Statistic]:
        """Every number of `table` except the shuffled A_hat, in the order of the table."""
        runs, pairs, curve = self.runs, self.runs.pairs(), self._seed_curve
        means = runs.resampled(
            {
                "curve": curve.reshape(-1, curve.shape[-1]),
                "pairs": np.stack([self._rows(pair) for pair in pairs.values()]),
                "chance": self._chance_rows()[None],
            }
            | self._right_rows()
        )
        if "accuracy" not in means:
            means |= self._whole_accuracies(n=curve.shape[-1])
        agreements = {name: means["pairs"].column(index) for index, name in enumerate(pairs)}
        seeds = Means(*(each.reshape(*each.shape[:-1], *curve.shape[:2]).mean(-2) for each in means["curve"]))
        return (
            {f"A({name})": found for name, found in agreements.items()}
            | {"A_hat, expected": means["chance"].column(0)}
            | {f"xi({name})": _xi(seeds, means["accuracy"], found) for name, found in agreements.items()}
            | {"xi*": means["gold accuracy"].column(0)}
        )

    def _rows(self, pair: Pair) -> Float[np.ndarray, " row"]:
        """A pair's agreement with its trained run at the checkpoint that is chosen for it."""
        at, sides = self.chosen_on.chosen(pair), self.runs.sides(pair, self.chosen_on.best)
        return self.runs.agree(*(each.at(at) if each.values.ndim > 1 else each for each in sides))

    @cached_property
    def _seed_curve(self) -> Float[np.ndarray, "other checkpoint row"]:
        """The gold run's best attention against that of the other seeds at every checkpoint."""
        runs = self.runs
        alpha = runs.scores("gold", "alpha").at(self.chosen_on.best)
        return np.stack([runs.agree(alpha, runs.scores(name, "alpha")) for name in runs.others])

    @cached_property
    def _beta_uf(self) -> Ragged:
        return self.runs.scores(UNIFORM, "beta").at(self.chosen_on.chosen(PAIRS["alpha, beta_uf"]))

    @property
    def _accuracy(self) -> Float[np.ndarray, " checkpoint"]:
        """The mean accuracy of the other seeds at each checkpoint."""
        return np.mean([self.runs.accuracy(name) for name in self.runs.others], axis=0)

    def _over_pairs(self) -> Estimate:
        """A(alpha, beta) over all pairs of seeds, with the jackknife, which leaves out one seed at a time."""
        seeds, pair = self.runs.seeds, PAIRS["alpha, beta"]
        both = [(gold, other) for gold in seeds for other in seeds if gold != other]
        rows = np.stack([self.explaining(gold, (other,))._rows(pair) for gold, other in both])
        means = self.runs.resampled({"pairs": rows})["pairs"]
        pairs = {names: means.column(index) for index, names in enumerate(both)}
        if len(seeds) == 2:
            return Estimate(float(np.mean([each.value for each in pairs.values()])), np.nan, np.nan, 2)
        without = [[each.value for names, each in pairs.items() if seed not in names] for seed in seeds]
        draws = np.mean([each.draws for each in pairs.values()], axis=0)
        share = self.runs.is_share("A(alpha, beta)")
        return over_left_out(np.mean(without, axis=1), draws, self.runs.settings.confidence, share=share)

    def _shuffled_chance(self) -> Estimate:
        """A_hat, with the shuffles divided among the checkpoints of the other seeds."""
        runs, settings = self.runs, self.runs.settings
        shuffles = settings.shuffles or (1000 if settings.measure == "top match" else 20)
        alpha = runs.scores("gold", "alpha").at(self.chosen_on.best)
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

    def _chance_rows(self) -> Float[np.ndarray, " row"]:
        """The expected chance agreement of each row, averaged over the other seeds and their checkpoints."""
        settings = self.runs.settings
        alphas = [self.runs.scores(name, "alpha") for name in self.runs.others]
        chances = [expected_chance(alpha, settings.measure, settings.fraction).mean(0) for alpha in alphas]
        return np.mean(chances, axis=0)

    def _right_rows(self) -> dict[str, Float[np.ndarray, "column row"]]:
        """Accuracies row by row: the mean of the other seeds, and the gold run; empty if not known."""
        runs, best = self.runs, self.chosen_on.best
        gold, others = runs.by_name[runs.gold].right, [runs.by_name[name].right for name in runs.others]
        known = [np.asarray(right, dtype=float) for right in others if right is not None]
        if gold is None or len(known) < len(others):
            return {}
        return {"accuracy": np.mean(known, axis=0), "gold accuracy": np.asarray(gold, dtype=float)[[best]]}

    def _whole_accuracies(self, n: int) -> dict[str, Means]:
        """Accuracies that are known only for all rows together, the same in every resample."""
        gold = self.runs.accuracy("gold")[[self.chosen_on.best]]
        return {
            name: Means(value, np.tile(value, (DRAWS, 1)), np.full(len(value), n))
            for name, value in {"accuracy": self._accuracy, "gold accuracy": gold}.items()
        }


def agreement_tables(
    scores: Mapping[str, Mapping[str, RunScores]],
    measure: str = "top match",
    unit: str = "documents",
    flip_delta: bool = True,
) -> dict[tuple[str, str, str], pd.DataFrame]:
    """All statistics of the paper's table by one measure, for several splits, choices and intervals.

    Args:
        scores: by split ("train", "validation" and "test") and name of the run.
        measure: "top match", "kendall" or "spearman".
        unit: the name of what is resampled: groups of rows, or rows where there are no groups.
        flip_delta: for the table as published; see `AgreementSettings`.

    Returns:
        Tables as of `Agreements.table`. Their keys are the split, how checkpoints were chosen, and what the
        intervals are over: test and train with checkpoints chosen on validation, over the units; test over
        seeds; and test as published.
    """
    held_out, published = (
        AgreementSettings(measure=measure, as_published=each, flip_delta=flip_delta) for each in (False, True)
    )
    test, train = (
        Agreements.of(scores[split], scores["validation"], settings=held_out) for split in ("test", "train")
    )
    return {
        ("test", "held out", unit): test.table(),
        ("test", "held out", "seeds"): test.over_seeds(),
        ("train", "held out", unit): train.table(),
        ("test", "as published", unit): Agreements.of(scores["test"], settings=published).table(),
    }


def attention_spread(alpha: Ragged) -> Float[np.ndarray, "*checkpoint row"]:
    r"""How evenly attention is spread over a row.

    $$s = -\frac{1}{\log n} \sum_i \alpha_i \log \alpha_i$$

    with $n$ the row's length: 1 for uniform attention, 0 if all attention is on one token.
    """
    check((alpha.lengths >= 2).all(), "rows must have at least two tokens", int(alpha.lengths.min()))
    values = alpha.values.astype(np.float64)
    terms = np.where(values > 0, -values * np.log(np.where(values > 0, values, 1.0)), 0.0)
    return np.add.reduceat(terms, alpha.starts, axis=-1) / np.log(alpha.lengths)


def _xi(curve: Means, accuracy: Means, threshold: Statistic) -> Statistic:
    """The xi of the curve over checkpoints, and of each resample of the curve."""
    value = xi_of_draws(curve.value[None], accuracy.value[None], np.array([threshold.value]))
    draws = xi_of_draws(curve.draws, accuracy.draws, threshold.draws)
    return Statistic(float(value[0]), draws, int(accuracy.n[0]))

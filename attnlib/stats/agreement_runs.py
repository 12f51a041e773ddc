"""Runs of training side by side: which checkpoints are chosen, and what agrees with what.

`agreement_results` lays out what is computed here.

Source: Snell et al. 2021, *Approximating How Single Head Attention Learns*, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attnlib.stats.agreements import expected_chance, xi_of_draws
from attnlib.stats.intervals import DRAWS
from attnlib.stats.ragged import Ragged, RunScores
from attnlib.stats.rank_measures import per_row
from attnlib.stats.resampling import Means, Statistic, resampled_means

UNIFORM, EMBEDDING, LOGISTIC = "uniform", "embedding", "logistic"

PAIRS = {
    "alpha, beta_uf": ("gold", "alpha", UNIFORM, "beta"),
    "beta_uf, beta_px": (UNIFORM, "beta", EMBEDDING, "beta"),
    "beta_px, beta_uf": (EMBEDDING, "beta", UNIFORM, "beta"),
    "delta, beta_uf": ("gold", "delta", UNIFORM, "beta"),
    "alpha, beta": ("gold", "alpha", "other", "beta"),
    "beta_uf, beta_logistic": (UNIFORM, "beta", LOGISTIC, "beta"),
    "beta_logistic, beta_uf": (LOGISTIC, "beta", UNIFORM, "beta"),
}
"""What is compared: whose score's largest token is looked up, and in whose score."""

AS_PUBLISHED = {
    "beta_uf, beta_px": PAIRS["beta_px, beta_uf"],
    "beta_uf, beta_logistic": PAIRS["beta_logistic, beta_uf"],
}
"""What the original's code compares under these names; it does not have the reverse."""

SEEDLESS = {f"A({name})" for name, pair in PAIRS.items() if not {"gold", "other"} & {*pair}}
"""Agreements of runs that there is one of each: no seed varies."""

_TRAINED = (UNIFORM, "other")  # an agreement is the best over the checkpoints of these


@dataclass(frozen=True)
class AgreementSettings:
    """How agreement is measured, and how sure it is.

    Attributes:
        measure: "top match", "kendall" or "spearman".
        fraction: of `top_match`.
        as_published: as the original's code does it: choose checkpoints on the rows that are evaluated, and
            under the names A(beta_uf, beta_px) and A(beta_uf, beta_logistic) look the largest tokens of
            beta_px and beta_logistic up in beta_uf.
        flip_delta: with `as_published`, take minus delta. The original's classification half negates its
            gradients twice; its translation half does not.
        shuffles: of A_hat; by default 1,000, and 20 for rank correlations, where each is a whole agreement.
        confidence: of the intervals.
        seed: of resamples and shuffles.
    """

    measure: str = "top match"
    fraction: float | int = 0.05
    as_published: bool = False
    flip_delta: bool = True
    shuffles: int | None = None
    confidence: float = 0.95
    seed: int = 0


@dataclass(frozen=True)
class Runs:
    """Runs that all have the same rows, each row with a token and without a NaN.

    Attributes:
        by_name: all runs.
        gold: the one whose attention is explained.
        others: those that differ from it by their seed.
        settings: how agreement is measured.
    """

    by_name: dict[str, RunScores]
    gold: str
    others: tuple[str, ...]
    settings: AgreementSettings

    @property
    def seeds(self) -> tuple[str, ...]:
        """The runs that differ by their seed."""
        return (self.gold, *self.others)

    def explaining(self, gold: str, others: Sequence[str] | None = None) -> Runs:
        """The same with another run's attention explained, by all others of `seeds` unless they are named."""
        others = others or [name for name in self.seeds if name != gold]
        return replace(self, gold=gold, others=tuple(others))

    def run(self, role: str) -> RunScores | None:
        """The run that plays a role in `PAIRS`; `None` if there is none."""
        return self.by_name.get({"gold": self.gold, "other": self.others[0]}.get(role, role))

    def pairs(self) -> dict[str, tuple[str, str, str, str]]:
        """Those of `PAIRS` whose runs and scores there are, in the original's way if that is asked for."""
        pairs = PAIRS
        if self.settings.as_published:
            reverse = set(AS_PUBLISHED.values())
            pairs = {
                name: AS_PUBLISHED.get(name, pair) for name, pair in pairs.items() if pair not in reverse
            }
        sides = {name: (pair[:2], pair[2:]) for name, pair in pairs.items()}
        there = {
            name
            for name, both in sides.items()
            if all(getattr(self.run(r), s, None) is not None for r, s in both)
        }
        return {name: pair for name, pair in pairs.items() if name in there}

    def scores(self, role: str, name: str) -> Ragged:
        """A run's scores at all checkpoints."""
        run = self.run(role)
        if run is None:
            raise ValueError(f"there should be a run {role!r}; got {list(self.by_name)}")
        scores = run.scores(name)
        flipped = name == "delta" and self.settings.as_published and self.settings.flip_delta
        return Ragged(-scores.values, scores.lengths) if flipped else scores

    def accuracy(self, role: str) -> Float[np.ndarray, " checkpoint"]:
        """How good a run is at its checkpoints.

        Raises:
            ValueError: it does not say.
        """
        run = self.run(role)
        if run is None or run.accuracy is None:
            raise ValueError(f"the {role} run should come with right or accuracy; it has neither")
        return run.accuracy

    def is_share(self, metric: str) -> bool:
        """Whether it is a share of rows: accuracy that is told row by row (BLEU is not), and top matches."""
        if metric == "xi*":
            return self.by_name[self.gold].right is not None
        return self.settings.measure == "top match"

    def agree(self, x: Ragged, y: Ragged) -> Float[np.ndarray, "*checkpoint row"]:
        """The measure of every row."""
        return per_row(x, y, self.settings.measure, self.settings.fraction)


def prepared(
    evaluation: Mapping[str, RunScores],
    selection: Mapping[str, RunScores] | None,
    gold: str | None,
    settings: AgreementSettings,
) -> tuple[Runs, Runs]:
    """What is evaluated, and what checkpoints are chosen on.

    Raises:
        ValueError: see `agreement_results.agreement_table`.
    """
    if settings.as_published and selection is not None:
        raise ValueError("as_published chooses checkpoints on the evaluated rows; leave selection out")
    if not settings.as_published and selection is None:
        raise ValueError(
            "there should be a selection, scores of other rows to choose checkpoints on (split_rows makes "
            "two parts of one), or as_published=True to choose on the evaluated rows as the original does"
        )
    runs = _checked(evaluation, gold, settings)
    if selection is None:
        return runs, runs
    chosen_on = _checked(selection, gold, settings)
    for name, run in runs.by_name.items():
        if name not in chosen_on.by_name or not np.array_equal(run.steps, chosen_on.by_name[name].steps):
            raise ValueError(f"selection should have run {name!r} with the same checkpoints as evaluation")
    return runs, chosen_on


def _checked(scores: Mapping[str, RunScores], gold: str | None, settings: AgreementSettings) -> Runs:
    seeds = [name for name in scores if name not in (UNIFORM, EMBEDDING, LOGISTIC)]
    gold = gold or next(iter(seeds), "none")
    if gold not in seeds or len(seeds) < 2 or UNIFORM not in scores:
        raise ValueError(
            f"there should be a run {UNIFORM!r}, and at least two that differ by their seed, with the gold "
            f"one ({gold!r}) among them; got {list(scores)}"
        )
    if scores[UNIFORM].beta is None:
        raise ValueError(f"the run {UNIFORM!r} should come with beta; it has none")
    others = tuple(name for name in seeds if name != gold)
    lengths, steps = scores[gold].lengths, scores[gold].steps
    for name, run in scores.items():
        if not np.array_equal(run.lengths, lengths):
            raise ValueError(
                f"all runs should score the same rows; the lengths of {name!r} and {gold!r} differ"
            )
        if name in others and not np.array_equal(run.steps, steps):
            raise ValueError(
                f"seeds should have the same checkpoints; {name!r} has {run.steps.tolist()}, {gold!r} has "
                f"{steps.tolist()}"
            )
    broken = np.logical_or.reduce([run.broken() for run in scores.values()])
    if broken.all():
        raise ValueError(f"no row is left: all {len(lengths)} have a NaN in some run's scores, or no token")
    kept = {name: run.take(~broken) for name, run in scores.items()} if broken.any() else dict(scores)
    return Runs(kept, gold, others, settings)


def best_checkpoint(chosen_on: Runs) -> int:
    """The gold run's most accurate checkpoint, the first of equals."""
    return int(chosen_on.accuracy("gold").argmax())


def sides(runs: Runs, pair: tuple[str, str, str, str], best: int) -> list[Ragged]:
    """Both scores of a pair: the gold run's at its best checkpoint, a trained run's at all, others' last."""
    both = [(role, runs.scores(role, name)) for role, name in (pair[:2], pair[2:])]
    return [
        scores if role in _TRAINED else scores.at(best if role == "gold" else -1) for role, scores in both
    ]


def chosen_checkpoint(chosen_on: Runs, pair: tuple[str, str, str, str], best: int) -> int:
    """The checkpoint of a pair's trained run at which it agrees best, the first of equals."""
    rows = chosen_on.agree(*sides(chosen_on, pair, best))
    there = ~np.isnan(rows)
    means = np.where(there, rows, 0).sum(-1) / np.maximum(there.sum(-1), 1)
    return int(np.where(there.any(-1), means, -np.inf).argmax())


def agreement_rows(runs: Runs, chosen_on: Runs, pair: tuple[str, str, str, str]) -> Float[np.ndarray, " row"]:
    """A pair's agreement with its trained run at the checkpoint that is chosen for it."""
    best = best_checkpoint(chosen_on)
    at = chosen_checkpoint(chosen_on, pair, best)
    return runs.agree(*(each.at(at) if each.values.ndim > 1 else each for each in sides(runs, pair, best)))


def seed_curve(runs: Runs, best: int) -> Float[np.ndarray, "other checkpoint row"]:
    """The gold run's best attention against that of the other seeds at every checkpoint."""
    alpha = runs.scores("gold", "alpha").at(best)
    return np.stack([runs.agree(alpha, runs.scores(name, "alpha")) for name in runs.others])


def seed_pairs(runs: Runs, chosen_on: Runs) -> dict[tuple[str, str], Statistic]:
    """A(alpha, beta) of every two seeds, alpha of the first, all with the same resamples of rows."""
    names, pair = runs.seeds, PAIRS["alpha, beta"]
    both = [(gold, other) for gold in names for other in names if gold != other]
    found = [
        agreement_rows(runs.explaining(gold, (other,)), chosen_on.explaining(gold, (other,)), pair)
        for gold, other in both
    ]
    means = resampled(runs, {"pairs": np.stack(found)})["pairs"]
    return {names: means.column(index) for index, names in enumerate(both)}


def resampled(runs: Runs, blocks: Mapping[str, Float[np.ndarray, "column row"]]) -> dict[str, Means]:
    """Means of blocks of columns, all with the same resamples of rows."""
    groups = runs.by_name[runs.gold].groups
    together = resampled_means(np.concatenate(list(blocks.values())).T, groups, runs.settings.seed)
    ends = np.cumsum([len(block) for block in blocks.values()])[:-1]
    split = [np.split(each, ends, axis=-1) for each in together]
    return {name: Means(*each) for name, each in zip(blocks, zip(*split, strict=True), strict=True)}


def statistics(runs: Runs, chosen_on: Runs) -> dict[str, Statistic]:
    """Every number of `agreement_table` but the shuffled A_hat, in its order."""
    pairs, best = runs.pairs(), best_checkpoint(chosen_on)
    curve = seed_curve(runs, best)
    rows = [agreement_rows(runs, chosen_on, pair) for pair in pairs.values()]
    blocks = {
        "curve": curve.reshape(-1, curve.shape[-1]),
        "pairs": np.stack(rows),
        "chance": _chance_rows(runs)[None],
    }
    means = resampled(runs, blocks | _right_rows(runs, best))
    if "accuracy" not in means:
        means |= _whole_accuracies(runs, best, n=curve.shape[-1])
    agreements = {name: means["pairs"].column(index) for index, name in enumerate(pairs)}
    seeds = Means(*(each.reshape(*each.shape[:-1], *curve.shape[:2]).mean(-2) for each in means["curve"]))
    return (
        {f"A({name})": found for name, found in agreements.items()}
        | {"A_hat, expected": means["chance"].column(0)}
        | {f"xi({name})": _xi(seeds, means["accuracy"], found) for name, found in agreements.items()}
        | {"xi*": means["gold accuracy"].column(0)}
    )


def _xi(curve: Means, accuracy: Means, threshold: Statistic) -> Statistic:
    """The xi of the curve over checkpoints, and of each of its resamples."""
    value = xi_of_draws(curve.value[None], accuracy.value[None], np.array([threshold.value]))
    draws = xi_of_draws(curve.draws, accuracy.draws, threshold.draws)
    return Statistic(float(value[0]), draws, int(accuracy.n[0]))


def _chance_rows(runs: Runs) -> Float[np.ndarray, " row"]:
    """What each row agrees by chance, averaged over the other seeds and their checkpoints."""
    settings = runs.settings
    alphas = [runs.scores(name, "alpha") for name in runs.others]
    chances = [expected_chance(alpha, settings.measure, settings.fraction).mean(0) for alpha in alphas]
    return np.mean(chances, axis=0)


def _right_rows(runs: Runs, best: int) -> dict[str, Float[np.ndarray, "column row"]]:
    """Accuracies row by row, of the other seeds' mean and of the gold run; nothing where they are unknown."""
    gold, others = runs.by_name[runs.gold].right, [runs.by_name[name].right for name in runs.others]
    known = [np.asarray(right, dtype=float) for right in others if right is not None]
    if gold is None or len(known) < len(others):
        return {}
    return {"accuracy": np.mean(known, axis=0), "gold accuracy": np.asarray(gold, dtype=float)[[best]]}


def _whole_accuracies(runs: Runs, best: int, n: int) -> dict[str, Means]:
    """The same, given as whole numbers: every resample has them."""
    found = {
        "accuracy": np.mean([runs.accuracy(name) for name in runs.others], axis=0),
        "gold accuracy": runs.accuracy("gold")[[best]],
    }
    return {
        name: Means(value, np.tile(value, (DRAWS, 1)), np.full(len(value), n))
        for name, value in found.items()
    }

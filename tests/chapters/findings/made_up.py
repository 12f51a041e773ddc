"""Small made-up records that support, refute and leave open every claim: by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from attnlib.benchmarking.scoring import features
from book.chapters.attribution_benchmark.settings import FURTHER, SETTINGS
from book.chapters.copying.claims import LONGER, STUDY_SIZE, TELLS
from book.chapters.copying.tables import SECOND
from book.chapters.faithfulness_metrics.measures import called
from book.chapters.faithfulness_metrics.predictions import PREDICTIONS, TODAY
from book.chapters.findings.rules import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from book.chapters.flow.measures import FLOW, RAW, ROLLOUT, WITH_CLS, WORDS
from book.chapters.flow.tables import ADVANTAGE, AGREEMENT
from book.chapters.generative.claims import MODEL, NEEDLE
from book.chapters.generative.measures import MEAN_ROLLOUT
from book.chapters.lens.tables import SIZE
from book.chapters.programs.predictions import SUPPORTED, USUAL
from book.chapters.reasoning import few_columns
from book.chapters.reasoning.claims import LONGER as LONGER_STRINGS
from book.chapters.reasoning.claims import ROTARY
from book.chapters.reasoning.measures import NOTHING
from book.chapters.reasoning.tables import RIGHT

Rows = Sequence[Mapping[str, Any]]

THREE = (-0.01, 0.0, 0.01)
"""What seeds differ by."""


class Cases(NamedTuple):
    """Records of one claim, by the verdict that they should get."""

    support: pd.DataFrame
    refute: pd.DataFrame
    open: pd.DataFrame

    def items(self) -> Iterable[tuple[str, pd.DataFrame]]:
        """The verdict, and the records."""
        return zip((REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE), self, strict=True)


def made(of: Callable[..., Rows], support: Any, refute: Any, unsure: Any) -> Cases:
    return Cases(*(pd.DataFrame(of(value)).assign(recorded="now") for value in (support, refute, unsure)))


def seeds(middle: float, apart: float = 1.0) -> list[float]:
    return [middle + apart * step for step in THREE]


def estimate(value: float, reach: float = 0.02, n: int = 100) -> dict[str, Any]:
    return {"value": value, "low": value - reach, "high": value + reach, "n": n}


# ---- RASP ------------------------------------------------------------------------------------------------


def rasp(numbers: Mapping[tuple[str, str, bool, str], Sequence[float]]) -> Rows:
    """By language (its task), what is lacking, whether it was told, and the metric."""
    about = {"alphabet_size": 10, "length": 30, "width": 64, "positions": "sinusoidal", "validated": 1.0}
    return [
        {
            "task": task,
            "ablation": less,
            "supervised": told,
            "metric": metric,
            "seed": seed,
            "value": value,
            "n": 1000,
            "low": value - 0.001,
            "high": value + 0.001,
        }
        | about
        | {"bos": not task.endswith("without BOS"), "record": "a", "run": f"{task} {less} {told} {seed}"}
        | {"uniform": 0.1 if metric.startswith("mass") else None, "up_to": 40 if "length" in metric else None}
        for (task, less, told, metric), values in numbers.items()
        for seed, value in enumerate(values)
    ]


FULL = {
    "reverse": 0.999,
    "hist2": 0.99,
    "sort": 0.998,
    "sort_by_freq": 0.939,
    "dyck1_ptf": 0.993,
    "dyck2_ptf": 0.997,
}
"""The paper's means, as remembered."""


def sizes(less: float) -> Rows:
    right = {(task, "", False, "accuracy"): seeds(value - less, 0.1) for task, value in FULL.items()}
    return rasp(right | {("sort", "", False, "accuracy, length 36 to 40"): [0.5, 0.5, 0.5]})


def smaller(lost: Mapping[tuple[str, str], Sequence[float]]) -> Rows:
    """What each loses without a part, seed by seed."""
    whole = {(task, "", False, "accuracy"): [0.95] * 3 for task, _ in lost}
    return rasp(
        whole
        | {(task, less, False, "accuracy"): [0.95 - each for each in by] for (task, less), by in lost.items()}
    )


LAYER, HEAD, WIDER = "one layer fewer", "one head fewer", "one layer fewer, twice as wide"

ORDER = [("sort", LAYER), ("dyck1_ptf", LAYER), ("hist2", HEAD), ("reverse", WIDER), ("reverse", LAYER)]
"""Some cells, by how much the paper's models lose."""


def ordered(places: Sequence[int]) -> Rows:
    return smaller({cell: seeds(0.1 * place, 0.001) for cell, place in zip(ORDER, places, strict=True)})


def told(metric: str, by: Sequence[float], before: float = 0.5) -> Rows:
    return rasp(
        {
            ("sort", "", False, metric): [before] * 3,
            ("sort", "", True, metric): [before + each for each in by],
        }
    )


RASP = {
    "size": made(sizes, 0.0, 0.05, 0.0101),
    "size, best run": made(
        lambda right: rasp({("hist", "", False, "accuracy"): right}), [0.9, 0.999], [0.9, 0.98], [0.9, 0.9901]
    ),
    "size, hist without BOS": made(
        lambda values: rasp({("hist without BOS", "", False, "accuracy"): values}),
        seeds(0.999, 0.1), seeds(0.9), [0.8, 0.99, 1.0],
    ),
    "second layer of reverse, hist2": made(
        lambda by: smaller({(task, LAYER): by for task in ("reverse", "hist2")}),
        seeds(0.5), seeds(0.001, 0.1), [0.0, 0.5, 0.1],
    ),
    "second layer of sort": made(
        lambda by: smaller({("sort", LAYER): by}), seeds(0.003, 0.1), seeds(0.1), [0, 0.02, 0]
    ),
    "second head of sort_by_freq": made(
        lambda by: smaller({("sort_by_freq", HEAD): by}), seeds(0.1), seeds(-0.05), [0.0, -0.1, 0.1]
    ),
    "second head of hist": made(
        lambda by: smaller({("hist without BOS", HEAD): by}), seeds(0.1), seeds(-0.05), [0.0, -0.1, 0.5]
    ),
    "what smaller models lose": made(ordered, [0, 1, 2, 4, 3], [4, 3, 2, 0, 1], [2, 4, 0, 1, 3]),
    "supervision, more attention": made(partial(told, "mass 0"), seeds(0.3), seeds(-0.3), [0.3, -0.3, 0.1]),
    "supervision, nine tenths": made(partial(told, "mass 0"), seeds(0.45), seeds(0.1), [0.45, 0.3, 0.45]),
    "supervision, its price": made(
        partial(told, "accuracy", before=0.9), seeds(0.05), seeds(-0.05), [0.05, -0.05, 0.0]
    ),
}  # fmt: skip


# ---- rollout of language models --------------------------------------------------------------------------


def needle(model: str, share: float, reach: float = 0.05) -> Rows:
    rows = {
        **{NEEDLE + way: estimate(share, reach) for way in (MEAN_ROLLOUT, "rollout", "mean attention")},
        NEEDLE + "chance": estimate(0.5, 0.0),
        "trained, first token, layer 1": estimate(0.9),
        "uniform, first token, layer 1": estimate(0.8),
        f"one name, first: {MEAN_ROLLOUT}": estimate(share, reach),
        "one name, first: AttnLRP": estimate(0.9),
        "one name, first: chance": estimate(0.5, 0.0),
    }
    return [{"metric": metric, **numbers, "record": f"{model}-1"} for metric, numbers in rows.items()]


def models(shares: Sequence[float]) -> Rows:
    return [row for place, share in enumerate(shares) for row in needle(f"model {place}", share)]


GENERATIVE = {
    "rollout, needle": made(partial(needle, MODEL), 0.9, 0.1, 0.52),
    "rollout, names": made(partial(needle, MODEL), 0.9, 0.1, 0.52),
    "rollout, language models": made(models, [0.9, 0.8, 0.9], [0.9, 0.1, 0.9], [0.9, 0.52, 0.9]),
}


# ---- flow ------------------------------------------------------------------------------------------------


def agreements(way: str, data: str, relevance: str, ahead: Sequence[float]) -> Rows:
    about = {
        "data": data,
        "causal": False,
        "untrained": False,
        "relevance": relevance,
        "record": "a",
        "slip": "",
    }
    return [
        about
        | {"metric": metric, "way": name, "items": items, "layer": layer, "seed": seed}
        | {"tested on": "", "spread": 0.1, "chance": None}
        | estimate(value)
        for seed, value in enumerate(ahead)
        for items in (WORDS, WITH_CLS)
        for metric, name in ((ADVANTAGE, way), (AGREEMENT, way), (AGREEMENT, RAW))
        for layer in (1, 2, 3)
    ]  # fmt: skip


FLOWS = {
    f"{way} and {to}, {words}": made(
        partial(agreements, way, data, relevance), seeds(0.2), seeds(-0.2), [0.2, -0.2, 0.1]
    )
    for to, relevance in {"occlusion": "blank-out", "gradients": "gradient"}.items()
    for data, words in {"templates": "templates", "linzen": "Wikipedia", "sst": "movie reviews"}.items()
    for way in (ROLLOUT, FLOW)
    if to == "occlusion" or data == "linzen"
}


# ---- Attend or Perish ------------------------------------------------------------------------------------


def reasoning(kind: str, **columns: Any) -> dict[str, Any]:
    about = {"record": "a", "setting": "from scratch", "ranges": LONGER_STRINGS, "uniform": None, "n": 100}
    about |= {
        "task": "string_reversal",
        "positions": "",
        "supervised": "supervised" in kind,
        "closed in": None,
    }
    return about | {"kind": kind, "model": kind, "seeds": None, "low": None, "high": None} | columns


def lengths(lost: Sequence[float]) -> Rows:
    return [
        reasoning("flip flop", run=f"flip flop, seed {seed}", seed=seed, value=value,
                  metric=f"teacher-forced exact match {split}")
        for seed, less in enumerate(lost)
        for split, value in (("ID", 0.5), ("OOD", 0.5 - less))
    ]  # fmt: skip


def pushed(kind: str, setting: str, back: tuple[float, float]) -> Rows:
    """What comes back, and how sure that is, of .6 that models lose."""
    beside = {
        "heads": 4,
        "ID": 0.9,
        "OOD": 0.3,
        "changed": 0.3 + back[0],
        "control": 0.1,
        "closed": back[0] / 0.6,
    }
    gain = estimate(back[0], back[1], 3) | beside | {"closed in": 2, "seeds": 3}
    rows = [
        reasoning(
            kind,
            run=f"{kind}, over seeds",
            metric="gain, by the reference",
            setting=setting,
            seed=None,
            **gain,
        )
    ]
    return rows + [
        reasoning(kind, run=f"{kind}, seed {seed}", seed=seed, setting=setting,
                  metric=RIGHT.format(split=split, change=NOTHING, heads=0), **estimate(value + step))
        for seed, step in enumerate(THREE)
        for split, value in (("ID", 0.9), ("OOD", 0.3))
    ]  # fmt: skip


def lookers(right: Sequence[float]) -> Rows:
    """Kinds that look ever more at the reference, and how right they are."""
    return [
        reasoning(f"kind {place}", run=f"kind {place}, seed {seed}", seed=seed, value=value + 0.1 * step,
                  uniform=0.0, metric=metric)
        for place, accuracy in enumerate(right)
        for seed, step in enumerate(THREE)
        for metric, value in {
            "teacher-forced accuracy OOD": accuracy, "rollout, OOD": 0.1 * place, "rollout, ID": 0.5
        }.items()
    ]  # fmt: skip


def further(back: Mapping[str, Sequence[float]]) -> Rows:
    """Shares of a loss of .5 that come back, by what is trained further."""
    every = {
        few_columns.NOTHING: [0.0] * 3,
        few_columns.WHOLE: seeds(0.9),
        few_columns.ALL: seeds(0.9),
    } | dict(back)
    return [
        reasoning(ROTARY, run=f"{ROTARY}, seed {seed}", seed=seed, positions="rotary", value=value,
                  metric=f"further, {way}: {metric} {split}")
        for way, shares in every.items()
        for seed, share in enumerate(shares)
        for split, value in (("ID", 1.0), ("OOD", 0.5 + share / 2))
        for metric in ("accuracy", "mean attention")
    ]  # fmt: skip


def two_columns(share: Sequence[float]) -> Rows:
    return further({few_columns.STEEPEST: share, few_columns.RANDOM: seeds(0.2)})


def columns(shares: Sequence[float]) -> Rows:
    """Of four columns, as many as there are shares."""
    return further({f"column {place} of 4": seeds(share) for place, share in enumerate(shares, 1)} | {
        few_columns.STEEPEST: seeds(shares[0]), few_columns.RANDOM: seeds(shares[1])
    })  # fmt: skip


SCRATCH, TUNED = "from scratch", "fine-tuned"
KINDS = {
    "cause, reversal, language model": ("string reversal", TUNED),
    "cause, reversal, supervised head": ("string reversal, supervised", SCRATCH),
    "cause, reversal, Llama": ("string reversal", SCRATCH),
    "cause, reversal, positions": ("string reversal, rotary positions", SCRATCH),
    "cause, successor": ("successor", SCRATCH),
    "cause, value assignment": ("value assignment", TUNED),
    "cause, addition": ("long addition, no positions", SCRATCH),
    "cause, multiplication": ("long multiplication", SCRATCH),
}
REASONING = {
    "longer texts": made(lengths, seeds(0.4), seeds(-0.2), [0.4, -0.3, 0.1]),
    **{name: made(partial(pushed, *of), (0.5, 0.1), (0.01, 0.02), (0.3, 0.2)) for name, of in KINDS.items()},
    "who looks is right": made(
        lookers, [0.1, 0.2, 0.3, 0.4, 0.5], [0.5, 0.4, 0.3, 0.2, 0.1], [0.3, 0.5, 0.1, 0.2, 0.4]
    ),
    "one column, the steepest": made(two_columns, seeds(0.9), seeds(0.2), [0.2, 0.9, 0.5]),
    "one column, any": made(columns, [0.2, 0.3, 0.9, 0.2], [0.2, 0.3, 0.1, 0.2], [0.2, 0.3]),
}


# ---- Attention Lens --------------------------------------------------------------------------------------


def layers(part: str, middle: float) -> Rows:
    about = {"record": "a", "setting": f"{SIZE}; addition, seed 0", "run": "addition, seed 0", "n": 1000}
    exact = about | {"metric": "exact match"} | estimate(0.99)
    return [
        exact,
        about | {"metric": f"claim: {part}", "run": "over seeds", "setting": None} | estimate(middle, 0.1, 3),
    ]


LENS = {
    name: made(partial(layers, part), 0.3, -0.3, 0.05)
    for name, part in {
        "early layers, local": "early layers look local",
        "middle layers, operator": "middle layers find the operator",
        "late layers, columns": "late layers combine the columns",
    }.items()
}


# ---- one head --------------------------------------------------------------------------------------------


def learned(task: str, numbers: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By the metric, and what its interval is over; and that the models get 9 of 10 right."""
    about = {
        "measure": "top match",
        "split": "test",
        "checkpoints": "held out",
        "accuracy": "tokens",
        "setting": "s",
    }
    about |= {"record": task, "task": task}
    every = {("A_hat", "documents"): estimate(0.05, 0.0), ("xi*", "documents"): estimate(0.9)} | dict(numbers)
    return [about | {"metric": metric, "interval": over} | given for (metric, over), given in every.items()]


PREDICTED = "A(alpha, beta_uf)"


def predicted(task: str, value: float) -> Rows:
    return learned("other", {(PREDICTED, "seeds"): estimate(0.5, 0.05, 3)}) + learned(
        task, {(PREDICTED, "seeds"): estimate(value, 0.03, 3)}
    )


def ceiling(value: float) -> Rows:
    return learned(
        "SST", {(PREDICTED, "documents"): estimate(value), ("A(alpha, beta)", "documents"): estimate(0.5)}
    )


def single_words(value: float) -> Rows:
    return learned("SST", {("A(beta_px, beta_uf)", "documents"): estimate(value)})


def stages(relevance: float) -> Rows:
    """Attention rises by .2."""
    values = {("beta", 0): 0.1, ("beta", 50): 0.1 + relevance, ("alpha", 0): 0.1, ("alpha", 50): 0.3}
    return learned("SST", {(f"step {step}: A({of}_t, beta_uf)", "documents"): estimate(value)
                           for (of, step), value in values.items()})  # fmt: skip


SNELL = {
    "relevance, classification": made(partial(predicted, "SST"), 0.3, 0.01, 0.06),
    "relevance, IMDB": made(partial(predicted, "IMDB"), 0.53, 0.3, 0.47),
    "relevance, uniform attention": made(ceiling, 0.5, 0.2, 0.46),
    "single words, classification": made(single_words, 0.3, 0.01, 0.06),
    "what first, then where": made(stages, 0.5, 0.0, 0.21),
    "relevance, translation": made(partial(predicted, "multi30k"), 0.3, 0.01, 0.06),
    "relevance, Multi30k": made(partial(predicted, "multi30k"), 0.31, 0.1, 0.27),
    "relevance, IWSLT14": made(partial(predicted, "iwslt14 de-en"), 0.3, 0.1, 0.26),
    "single words, translation": made(single_words, 0.3, 0.01, 0.06),
}


# ---- copying ---------------------------------------------------------------------------------------------

HARD, EASY = "permutations of 40", "40 of 60"


def copies(apart: tuple[float, float]) -> Rows:
    about = {"setting": f"{STUDY_SIZE}, batch 128", "budget": 200.0, "step": None}
    right = [about | {"task": task, "metric": "learned", "count": 10} | estimate(0.5, 0.2, 20)
             for task in (HARD, EASY, f"{HARD}, both directions", "40 of 42")]  # fmt: skip
    lead = {"task": EASY, "metric": f"learned, less {HARD}", "count": None} | estimate(*apart, 40)
    return [*right, about | lead]


def later(count: int) -> Rows:
    about = {"setting": f"{LONGER}, batch 128", "task": HARD, "metric": "learned", "count": count}
    return [about | {"budget": budget} | estimate(count / 100, 0.1) for budget in (200.0, 400.0)]


def hints(value: float) -> Rows:
    about = {"setting": f"{STUDY_SIZE}, batch 128", "metric": "hint (AUC)", "count": None, "budget": None}
    every = {(HARD, 20): value, (EASY, 20): 1.0, (HARD, 200): 0.9}
    return [about | {"task": task, "step": step} | estimate(each) for (task, step), each in every.items()]


def heads(numbers: Mapping[str, Mapping[str, Any]]) -> Rows:
    about = {
        "setting": "permutations of 40; GRU; hidden 256, batch 128; base 0",
        "task": "heads",
        "count": None,
    }
    several = (
        about
        | {"task": "8 not graded", "metric": "learned, several heads", "count": 9}
        | estimate(0.9, 0.1, 10)
    )
    return [about | {"metric": metric} | given for metric, given in numbers.items()] + [several]


def again(shares: tuple[float, float]) -> Rows:
    return heads(
        {
            SECOND.format(first): estimate(share, 0.1, 20)
            for first, share in zip(("good", "bad"), shares, strict=True)
        }
    )


COPYING = {
    "copying, fewer learn": made(copies, (0.5, 0.2), (-0.5, 0.2), (0.1, 0.2)),
    "copying, none learns": made(later, 0, 100, 50),
    "copying, the hint": made(hints, 0.51, 0.8, 0.56),
    "heads, a good one stays good": made(again, (0.9, 0.1), (0.1, 0.9), (0.5, 0.4)),
    "heads, told before training": made(lambda auc: heads({TELLS: estimate(auc, 0.1)}), 0.8, 0.2, 0.55),
}


# ---- measures, and tests of them -------------------------------------------------------------------------

ALL = "all settings"
CHOSEN, UNTOLD = "without the first R, replace, log p", "without the first, replace, log p"
FREE = ("reverse", "sort", "addition", "arithmetic")
"""Settings that chose no judge, and whose heads nobody told."""

MEASURES = ("rollout", "raw attention, last layer", "AttnLRP")


def measured(by: str, numbers: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    return [
        {"run": setting, "metric": f"{by} ranks: {method}", **estimate(value, 0.0, 1)}
        for method, values in numbers.items()
        for setting, value in zip(FREE, values, strict=True)
    ]


def judging(rows: Sequence[dict[str, Any]]) -> Rows:
    """With what every record says."""
    judges = {"chosen": CHOSEN, "chosen, not told R": UNTOLD, "expected": UNTOLD, "usual": TODAY}
    every = [
        {"run": ALL, "metric": f"{name} is: {judge}", **estimate(1.0, 0.0, 1)}
        for name, judge in judges.items()
    ]
    for judge in (TODAY, UNTOLD):
        every += [
            {"run": ALL, "metric": f"{what}: {judge}", **estimate(0.5, 0.1, 15)}
            for what in ("tau", "above", "before")
        ]
        every += [{"run": "confirmed on", "metric": f"tau: {judge}", **estimate(0.5, 0.1, 8)}]
        every += [{"run": setting, "metric": f"{what}: {judge}", **estimate(0.5, 0.0, 1)}
                  for setting in FREE for what in ("tau", "above", "before")]  # fmt: skip
    told = {(row["run"], row["metric"]) for row in rows}
    kept = [row for row in every if (row["run"], row["metric"]) not in told]
    return [row | {"record": "a"} for row in [*kept, *rows]]


def ahead(by: str, other: str, lead: Sequence[float]) -> Rows:
    """Rollout against another measure, setting by setting; the third has nothing."""
    rest = {name: [0.0] * 4 for name in MEASURES}
    return judging(measured(by, rest | {"rollout": [0.5 + each for each in lead], other: [0.5] * 4}))


def usual(what: str, values: Sequence[float]) -> Rows:
    """What the standard metric has in every setting, and in two that were named later."""
    every = [{"run": setting, "metric": f"{what}: {TODAY}", **estimate(value, 0.0, 1)}
             for setting, value in zip((*FREE, *FURTHER[:2]), values, strict=True)]  # fmt: skip
    return [row | {"record": "b"} if row["run"] in FURTHER else row for row in judging(every)]


def better(leads: Sequence[float]) -> Rows:
    """How much more tau the chosen judge has."""
    return judging([{"run": setting, "metric": f"tau: {UNTOLD}", **estimate(0.5 + lead, 0.0, 1)}
                    for setting, lead in zip(FREE, leads, strict=True)])  # fmt: skip


def expected(words: str, lead: tuple[float, float]) -> Rows:
    return judging([{"run": ALL, "metric": f"expected: {words}", **estimate(*lead, 15)}])


def masking(lead: Sequence[float], other: str = MEASURES[1]) -> Rows:
    """The same of the chapter on measures, with models that were not trained."""
    every = dict.fromkeys((*MEASURES, "rollout, untrained"), (0.0,) * 4)
    every |= {"rollout": tuple(0.5 + each for each in lead), other: (0.5,) * 4}
    return [
        {
            "run": setting,
            "metric": f"faithfulness: {method}",
            **estimate(value, 0.0, 3),
            "over": "questions",
            "seeds": 3,
            "record": "a",
        }
        for method, values in every.items()
        for setting, value in zip(FREE, values, strict=True)
    ]


assert set(FREE) <= set(SETTINGS)

AHEAD, LEVEL, BEHIND, UNSURE = (
    *([0.2, 0.21, 0.19, 0.2], [0.0, 0.01, -0.01, 0.0], [-0.2, -0.21, -0.19, -0.2], [0.3, -0.2, 0.3, -0.2]),
)
KNOWN = "the known answers"
JUDGING = {
    "needed tokens": made(
        lambda values: judging(measured(KNOWN, dict.fromkeys(MEASURES, values))),
        [0.5, 0.4, 0.5, 0.4], BEHIND, UNSURE,
    ),
    "needed tokens, and raw attention": made(partial(ahead, KNOWN, MEASURES[1]), AHEAD, LEVEL, UNSURE),
    "needed tokens, and the best": made(partial(ahead, KNOWN, MEASURES[2]), LEVEL, BEHIND, UNSURE),
    "used tokens, and raw attention": made(partial(ahead, CHOSEN, MEASURES[1]), AHEAD, LEVEL, UNSURE),
    "used tokens, and the best": made(partial(ahead, CHOSEN, MEASURES[2]), LEVEL, BEHIND, UNSURE),
    "standard metric, ground truth first": made(
        partial(usual, "before"),
        [0.02, 0.03, 0.01, 0.02, 0.03, 0.01],
        [0.6, 0.61, 0.59, 0.6, 0.61, 0.59], [0.0, 0.3, 0.1, 0.0, 0.3, 0.1],
    ),
    "standard metric, the same order": made(
        partial(usual, "tau"),
        [0.9, 0.91, 0.89, 0.9, 0.91, 0.89],
        [0.4, 0.41, 0.39, 0.4, 0.41, 0.39], [0.5, 0.9, 0.6, 0.9, 0.7, 0.6],
    ),
    "metric chosen by ground truth": made(better, AHEAD, BEHIND, UNSURE),
    "masking, and raw attention": made(masking, AHEAD, LEVEL, UNSURE),
    "masking, and the best": made(partial(masking, other="AttnLRP"), LEVEL, BEHIND, UNSURE),
    **{
        name: made(partial(expected, each.words), (0.3, 0.1), (0.01, 0.05), (0.1, 0.2))
        for name, each in zip(
            ("expected and usual", "replace or mask", "replace or random", "log p or p", "first or shares",
             "LDS or shares", "delete or mask"), PREDICTIONS, strict=True)
    },
}  # fmt: skip

# ---- random programs -------------------------------------------------------------------------------------

READ_LOG_P = called("comprehensiveness", "mask", "log p")
ASKED = tuple(range(1000, 1040))
NAMES = [f"method {k}" for k in range(10)]


def programs(
    values: Mapping[tuple[str, str], Callable[[int, int], float]], truth: str, of: str = "compiled"
) -> Rows:
    """Rows of programs: by metric and sign, the value of the program of a seed, which stands at a place."""
    return [
        {
            "of": of,
            "seed": seed,
            "metric": metric,
            "truth": truth,
            "sign": sign,
            "value": value(place, seed),
            "record": "a",
        }
        for (metric, sign), value in values.items()
        for place, seed in enumerate(ASKED)
    ]


def spread(mean: float, reach: float = 0.01) -> Value:
    """Values around a mean, by turns above and below."""
    return lambda place, seed: mean + reach * (-1) ** (place // 2)


def leading(
    first: str,
    second: str,
    lead: tuple[float, float],
    truth: str = "reads",
    of: str = "compiled",
    signs: tuple[str, str] = ("as given", "as given"),
) -> Rows:
    """One ahead of another by so much, give or take so much."""
    values = {(first, signs[0]): spread(0.5 + lead[0], lead[1]), (second, signs[1]): spread(0.5, 0.0)}
    rows = programs(values, truth, of)
    return rows if of != "trained" else [*rows, *programs(values, truth)]


def by_feature(method: str, sign: str, feature: str, drop: tuple[float, float]) -> Rows:
    """A method that has so much less where programs have a feature."""
    has = features(ASKED).set_index("seed")[feature].astype(bool)
    value = spread(0.5, drop[1])
    return programs({(method, sign): lambda place, seed: value(place, seed) - drop[0] * has[seed]}, "reads")


def ordered(order: tuple[Sequence[int], float], of: tuple[str, str] = ("compiled", "trained")) -> Rows:
    """Methods in their order on programs of one kind, and in another on another, more or less clearly."""
    places, noise = order
    names = [ROLLOUT, "raw attention, last layer", *NAMES[2:]]

    def value(rank: int, method: int) -> Value:
        return lambda place, seed: rank / 10 + noise * ((place * (method + 3)) % 7 - 3)

    compiled = {(name, "as given"): value(k, 0) for k, name in enumerate(names)}
    learned = {(name, "as given"): value(places[k], k) for k, name in enumerate(names)}
    return [*programs(compiled, "causes", of[0]), *programs(learned, "causes", of[1])]


AHEAD_BY, LEVEL_BY, BEHIND_BY, UNSURE_BY = (0.3, 0.01), (0.0, 0.01), (-0.3, 0.01), (0.0, 1.0)
AT_MARGIN = (0.1, 1.0)
LAST_LAYER, PATCHING = "raw attention, last layer", "activation patching"
FORWARD = (AHEAD_BY, LEVEL_BY, UNSURE_BY)
EITHER = (AHEAD_BY, BEHIND_BY, UNSURE_BY)
BY_CAUSES: Mapping[str, Any] = {"truth": "causes"}
METRICS: Mapping[str, Any] = {"of": "metrics"}
LEARNED: Mapping[str, Any] = {"truth": "causes", "of": "trained"}
ORDERS = ((range(10), 0.01), (range(9, -1, -1), 0.01), ([3, 0, 6, 1, 2, 9, 4, 5, 8, 7], 1.0))
PROGRAMS = {
    "programs: rollout, raw attention": made(partial(leading, ROLLOUT, LAST_LAYER), *FORWARD),
    "programs: rollout, mean attention": made(
        partial(leading, ROLLOUT, "mean attention"), LEVEL_BY, AHEAD_BY, AT_MARGIN
    ),
    "programs: gradient norm, rollout": made(partial(leading, "gradient norm", ROLLOUT), *FORWARD),
    "programs: the best by causes": made(partial(leading, PATCHING, "AttnLRP", **BY_CAUSES), *EITHER),
    "programs: sign": made(
        partial(leading, "gradient x embedding", "gradient x embedding", signs=("absolute", "as given")),
        *(AHEAD_BY, LEVEL_BY, AT_MARGIN),
    ),
    "programs: counting": made(partial(by_feature, "AttnLRP", "absolute", "counts"), *EITHER),
    "programs: rotation": made(partial(by_feature, "ALTI", "as given", "rotated"), *EITHER),
    "programs: metric, by causes": made(partial(leading, SUPPORTED, USUAL, **BY_CAUSES, **METRICS), *EITHER),
    "programs: metric, by reads": made(partial(leading, SUPPORTED, USUAL, **METRICS), *EITHER),
    "programs: log p": made(partial(leading, READ_LOG_P, USUAL, **BY_CAUSES, **METRICS), *EITHER),
    "trained: the same order": made(ordered, *ORDERS),
    "twice the size: the same order": made(partial(ordered, of=("trained", "twice")), *ORDERS),
    "trained: rollout, raw attention": made(partial(leading, ROLLOUT, LAST_LAYER, **LEARNED), *FORWARD),
    "trained: the best by causes": made(partial(leading, PATCHING, "AttnLRP", **LEARNED), *EITHER),
}

CASES: Mapping[str, Cases] = (
    RASP | GENERATIVE | FLOWS | REASONING | LENS | SNELL | COPYING | JUDGING | PROGRAMS
)

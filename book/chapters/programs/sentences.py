"""Numbers and clauses that the sentences of the page quote."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from attnlib.benchmarking.learned import RIGHT
from attnlib.benchmarking.population import POPULATION
from book.chapters.display import display_name, significance
from book.chapters.findings.finding import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from book.chapters.programs import predictions, tables
from book.chapters.records import one_number
from book.chapters.telling import tell, tell_in_words

ORDER = {
    REPRODUCED: {
        "order headline": "The order of methods carries over to trained transformers.",
        "order clause": "So a method that does well on compiled programs can be expected to do well on "
        "trained ones.",
        "summary order": "The order of methods is the same in compiled and in trained transformers.",
    },
    NOT_REPRODUCED: {
        "order headline": "The order of methods does not carry over to trained transformers.",
        "order clause": "So a method that does well on compiled programs need not do well on trained ones.",
        "summary order": "The order of methods depends on how the weights came about. Do not choose a method "
        "for a trained model by its score on compiled ones.",
    },
    INCONCLUSIVE: {
        "order headline": "Whether the order of methods carries over to trained transformers is open.",
        "order clause": "Whether a method that does well on compiled programs does so on trained ones is "
        "open.",
        "summary order": "Do not choose a method for a trained model by its score on compiled ones before "
        "more is known.",
    },
}
"""What the page says of the order of methods in trained transformers, by the verdict on the prediction."""


def tell_this_run(programs: int, again: pd.DataFrame) -> None:
    """How many programs this run tested again, and whether their scores are as recorded."""
    tell({"told anew": programs, "found clause": found_again(again)})


def tell_methods(rows: pd.DataFrame, by_truth: pd.DataFrame) -> None:
    """The best method and rollout, by reads and by causes; how many pairs of methods differ."""
    firsts = {}
    for truth in ("reads", "causes"):
        scores = by_truth[by_truth["truth"] == truth].set_index("method")
        firsts[truth] = str(scores["value"].idxmax())
        tell({f"first {truth}": display_name(firsts[truth])})
        tell_in_words(
            {f"score, first {truth}": scores.loc[firsts[truth]], f"rollout, {truth}": scores.loc["rollout"]},
            digits=2,
        )
    tell({
        "population": POPULATION,
        "told programs": int(rows["seed"].nunique()),
        "told pairs": int(predictions.pairs(rows).value),
        "settings clause": settings_clause(*tables.pairs_over_settings()),
        "summary first": summary_clause(firsts),
    })  # fmt: skip


def tell_leads(rows: pd.DataFrame) -> None:
    """The leads of methods over others, by reads, in programs of two and three layers."""
    deep = predictions.deep(rows)
    leads = {
        "raw": predictions.lead(deep, "rollout", predictions.LAST, "reads"),
        "mean": predictions.lead(deep, "rollout", "mean attention", "reads"),
        "norm": predictions.lead(deep, "gradient norm", "rollout", "reads"),
    }
    found = {name: predictions.over_programs(each)._asdict() for name, each in leads.items()}
    tell_in_words(found, "lead, {}", digits=2)


def tell_metrics(agreement: pd.DataFrame, table: pd.DataFrame) -> None:
    """τ of the standard metric, what the selected one adds to it, and the best metric by causes."""
    usual, selected = predictions.USUAL, predictions.SUPPORTED
    for truth, part in agreement.groupby("truth"):
        wide = part.pivot(index="seed", columns="metric", values="value")
        taus = {"usual": wide[usual], "gain": wide[selected] - wide[usual]}
        found = {name: predictions.over_programs(each)._asdict() for name, each in taus.items()}
        tell_in_words(found, f"{{}}, {truth}", digits=2)
        tell({f"gain, {truth}, significance": significance(found["gain"])})
    best = table[table["truth"] == "causes"].sort_values("value")["metric"].iloc[-1]
    tell({"best metric": display_name(best), "metric programs": int(agreement["seed"].nunique())})


def tell_trained(rows: pd.DataFrame, trained: pd.DataFrame, beside: pd.DataFrame) -> None:
    """Trained transformers beside compiled ones, by causes: the order of methods, and single methods."""
    tell({
        "told trained": int(trained["seed"].nunique()),
        "told tried": len(tables.TRIED),
        "told right": f"{RIGHT:.0%}".replace("%", " %"),
    })  # fmt: skip
    kinds = tables.trained(tables.OTHER_POSITIONS).groupby("positions")
    orders = {
        "same": predictions.same_order(trained, rows),
        "twice": predictions.TWICE.answer(tables.trained(tables.TWICE_THE_SIZE), trained),
        **{str(kind): predictions.POSITIONS.answer(some, trained) for kind, some in kinds},
    }
    tell_in_words({name: answer._asdict() for name, answer in orders.items()}, "{} order", digits=2)
    tell({name: answer.verdict for name, answer in orders.items()}, "{} order, verdict")
    tell(ORDER[orders["same"].verdict])

    scores = beside[beside["truth"] == "causes"].set_index(["weights", "method"])
    rollout = {weights: scores.loc[(weights, "rollout")] for weights in ("trained", "compiled")}
    tell_in_words(rollout, "{} rollout", digits=2)
    of_rollout = scores.xs("rollout", level="method")["value"]
    first = display_name(str(scores.loc["trained"]["value"].idxmax()))
    tell({"trained first": first, "plain clause": plain_clause(of_rollout)})


def tell_outcomes(outcomes: pd.DataFrame) -> None:
    """How many predictions have each verdict."""
    verdicts = [REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE]
    tell(outcomes["verdict"].value_counts().reindex(verdicts, fill_value=0), "predictions {}")


def tell_counting(rows: pd.DataFrame, effects: pd.DataFrame) -> None:
    """The loss of a method in programs that count, and the gain of absolute values, by reads."""
    counting = effects[effects["feature"] == "counts"].set_index("method")
    tell_in_words({name: counting.loc[name] for name in ("AttnLRP", "rollout")}, "counting, {}", digits=2)
    gains = tables.gain_of_absolute(rows).set_index("method")[["value", "low", "high", "n"]]
    tell_in_words(gains.to_dict("index"), "absolute, {}", digits=2)


def tell_populations(populations: Mapping[str, pd.DataFrame], orders: pd.DataFrame) -> None:
    """Rollout in each population, and the populations that are most and least like the language model."""
    rollout = {name: float(each["rollout"].mean()) for name, each in populations.items()}
    tell(rollout, "rollout in {}")
    model = orders[orders["and"] == "a language model"].set_index("population")
    for name, population in {
        "most": str(model["value"].idxmax()),
        "least": str(model["value"].idxmin()),
    }.items():
        tell({f"{name} like": population})
        found = model.loc[population].drop("and").to_dict()
        tell_in_words({f"like the model, {name}": found}, digits=2)


def tell_exercises(rows: pd.DataFrame) -> None:
    """Numbers that the solutions quote."""
    layers = tables.by_layers(rows, [predictions.ROLLOUT, predictions.LAST]).query("layers == '1 layer'")
    tell_in_words({"exercise one layer, rollout": one_number(layers, method=predictions.ROLLOUT)}, digits=2)
    for truth in ("reads", "causes"):
        gains = tables.gain_of_absolute(rows, truth).set_index("method")
        tell_in_words({f"exercise sign, {truth}": gains.loc["AttnLRP"]}, digits=2)
    tell(tables.questions_that_differ(1014), "exercise {}")


def found_again(rows: pd.DataFrame) -> str:
    """Whether scores that were computed again equal the recorded ones, to their five decimals."""
    if rows.empty:
        return "none of them is recorded"
    same = int(np.isclose(rows["now"], rows["recorded"], rtol=0, atol=2e-5).sum())
    if same == len(rows):
        return "every score is as recorded"
    return f"{same:,} of {len(rows):,} scores are as recorded"


def settings_clause(significant: int, pairs: int, settings: int) -> str:
    """How many pairs of methods differ significantly over the settings that were chosen by hand."""
    found = f"{significant:,}" if significant else "none"
    return f"Over {settings} of the 15 settings picked by hand, {found} of {pairs} pairs do."


def plain_clause(rollout: pd.Series) -> str:
    """A sentence on whether the disguises explain rollout's lower scores in compiled transformers.

    `rollout` has its scores by kind of weights: trained, compiled, and compiled without disguise (plain).
    """
    if "compiled, plain" not in rollout:
        return ""
    gap = rollout["trained"] - rollout["compiled"]
    share = (rollout["compiled, plain"] - rollout["compiled"]) / gap if gap > 0 else 1.0
    if share > 2 / 3:
        return "The disguises explain most of the difference: without them, rollout does as well."
    if share > 1 / 3:
        return "The disguises explain a part of the difference; without them, rollout is in between."
    return "The disguises do not explain the difference: without them, rollout does hardly better."


def summary_clause(firsts: Mapping[str, str]) -> str:
    """The sentence on the best method by both truths."""
    reads, causes = (display_name(firsts[truth]) for truth in ("reads", "causes"))
    if reads == causes:
        return f"Over this population, {reads} is the best method by both truths."
    return f"Over this population, {reads} is best by reads, and {causes} by causes."

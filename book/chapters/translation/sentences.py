"""Numbers and clauses that the sentences of the page quote.

Recorded numbers are of the first translator of a language pair, unless their name says `models`: those are
means over several translators.
"""

from __future__ import annotations

import pandas as pd

from attnlib.generators.translation import lexicon
from book.chapters.classification.claims import published, that_learned
from book.chapters.classification.sentences import by_task, paper_clause, sets_clause
from book.chapters.classification.tables import (
    CHANCE,
    PREDICTED,
    SINGLE_WORDS,
    WITH_ATTENTION,
    of_one_model,
    over_models,
)
from book.chapters.records import in_words, one_number, paper_figures
from book.chapters.telling import side_clause, tell, tell_in_words
from book.chapters.this_run import if_learned
from book.chapters.translation.claims import LEARNED, THEIRS
from book.chapters.translation.tables import TranslationResults


def tell_recorded(rows: pd.DataFrame) -> None:
    """Tell all numbers of the runs that came with the book."""
    first = of_one_model(rows)
    tell_agreements(first)
    tell_predicted(that_learned(rows, LEARNED))
    tell_alignment(first[first["task"].eq("invented")])
    tell_exercises(first)


def tell_agreements(first: pd.DataFrame) -> None:
    """Tell agreements and accuracies on Multi30k and IWSLT14, and the paper's numbers."""
    of_pair = first[first["task"].eq("multi30k")]
    box = {"multi30k": PREDICTED, "chance": CHANCE}
    found = {name: one_number(of_pair, metric=metric) for name, metric in box.items()}
    tell_in_words(found, "minute {}", "%")
    quoted = of_pair[of_pair["metric"].isin([WITH_ATTENTION, SINGLE_WORDS])]
    tell_in_words(quoted, "told {task}: {metric}", "%")
    over_steps = ["A(beta_t, beta_uf)", "A(alpha_t, beta_uf)", "spread of alpha_t"]
    metrics = ["xi*", "xi(alpha, beta_uf)", *(f"step 500: {metric}" for metric in over_steps)]
    quoted = first[first["task"].isin(["multi30k", "iwslt14 de-en"]) & first["metric"].isin(metrics)]
    tell(quoted, "{task}: {metric}, value", "%")
    figures = paper_figures()
    tell(figures[figures["table"].eq(THEIRS)], "theirs {task}")


def tell_predicted(rows: pd.DataFrame) -> None:
    """Tell how well KTIW predicts attention in models that learned, beside chance and the paper's number."""
    models, single = over_models(rows), by_task(of_one_model(rows), SINGLE_WORDS)
    chance, predicted = by_task(models, CHANCE)["value"], by_task(models, PREDICTED)
    for name, found in {"predicted": predicted, "single": single}.items():
        shown = found["low"] > chance[found.index]
        tell({f"above chance: {name}": sets_clause(shown, "language pairs")})
    tell_in_words(predicted.reset_index(), "models {task}", "%")
    clause = paper_clause(predicted.loc["multi30k"], published("multi30k", PREDICTED, THEIRS))
    tell({"against theirs multi30k": clause})


def tell_alignment(invented: pd.DataFrame) -> None:
    """Tell how often the largest score is on the right source word, and the alignment error rates."""
    scores = {"on it": "alpha", "single on it": "beta_px"}
    found = {name: one_number(invented, metric=f"{score}: on it") for name, score in scores.items()}
    tell_in_words(found, "minute {}", "%")
    tell_in_words({"minute right": one_number(invented, metric="xi*")}, unit="%", digits=1)
    errors = {score: one_number(invented, metric=f"{score}: AER") for score in scores.values()}
    tell_in_words(errors, "minute AER, {}", digits=3)
    ours, attention = errors["beta_px"], errors["alpha"]
    words = [f"aligns {how} attention" for how in ("better than", "about as well as", "worse than")]
    tell({"single words align": side_clause(ours, *words, bound=attention, lacking="was not run")})
    tell({"conjunction": " ".join(lexicon().joiner.target)})


def tell_exercises(first: pd.DataFrame) -> None:
    """Tell what the solutions of the exercises quote."""
    for name, task in {"iwslt14": "iwslt14 de-en", "multi30k": "multi30k", "invented": "invented"}.items():
        of_pair = first[first["task"].eq(task)]
        for model in ("first seed", "uniform"):
            bleu = in_words(one_number(of_pair, metric=f"{model}: BLEU"), "%", 1)
            tell({f"exercise {name}, {model} BLEU": bleu.replace(" %", "", 1)})
        for metric in (SINGLE_WORDS, "A(beta_uf, beta_px)"):
            tell({f"exercise {name}, {metric}": in_words(one_number(of_pair, metric=metric), "%")})
    misses = {}
    for score in ("alpha", "alpha, seed 13", "alpha, seed 14"):
        for side in ("more before", "more after"):
            misses[f"{score} {side}"] = one_number(first, task="invented", metric=f"{score}: {side}")
    tell_in_words(misses, "exercise {}", "%", 1)


def tell_this_run(found: TranslationResults) -> None:
    """Tell how far relevance leads attention in this run, if its translator has learned."""
    right = found.here[found.gold].accuracy
    assert right is not None  # as of all translators
    clause = if_learned(right[found.chosen["gold"]], 0.0, lead_clause(found.stages))
    tell({"relevance ahead": clause})


def lead_clause(stages: pd.DataFrame) -> str:
    """Give both agreements at the step at which relevance is furthest ahead of attention."""
    by_step = stages.pivot(index="step", columns="metric", values="value")
    lead = by_step["A(beta_t, beta_uf)"] - by_step["A(alpha_t, beta_uf)"]
    ahead = by_step.iloc[int(lead.argmax())]
    return (
        f"the lead is largest at step {ahead.name}, where relevance agrees with KTIW for "
        f"{100 * ahead['A(beta_t, beta_uf)']:.0f} % of the target tokens and attention for "
        f"{100 * ahead['A(alpha_t, beta_uf)']:.0f} %"
    )

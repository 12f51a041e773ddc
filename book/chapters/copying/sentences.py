"""Numbers that the sentences of the page quote: recorded ones, and those of this run's heads."""

from __future__ import annotations

import pandas as pd

from book.chapters.classification.sentences import paper_clause
from book.chapters.copying.claims import EASY, HARD, LATE, LONGER, SOON, TABLE
from book.chapters.copying.heads import CopyingHeads
from book.chapters.copying.tables import (
    AT_SIZE,
    OF_BASES,
    SIZE,
    STAYS_GOOD,
    HeadResults,
    of_bases,
    over_bases,
)
from book.chapters.records import came_with_the_book, one_number, paper_figures
from book.chapters.telling import tell, tell_in_words

CHAPTER = "sequence_copying"

QUOTED = dict(zip(AT_SIZE, ("good", "bad", "good after good", "good after bad", "told"), strict=True)) | {
    "learned, several heads": "several"
}
"""The names in the text for the metrics of heads at the paper's size."""

KINDS = {"all bad": " bad", "one good": " good", "random": "graded"}
"""The names in the text for models of several heads, and the ending of their task's name."""


def tell_study(study: pd.DataFrame) -> None:
    """Tell how many seeds learn each task at the paper's size, the paper's number, and the KTIW signal."""
    learned = study[study["metric"] == "learned"].astype({"count": int})
    tell(learned, "study, {task} by {budget:.0f}", of="count")
    tell({"study, seeds": int(learned["n"].max())})

    permutations, easy = (one_number(learned, task=task, budget=SOON) for task in (HARD, EASY))
    tell_in_words({"permutations": permutations, "easy": easy}, "minute learned, {}", "%")
    published = paper_figures()
    theirs = published[published["table"] == TABLE].set_index("task")["value"] / 100
    clause = "not run" if permutations is None else paper_clause(permutations, theirs[HARD])
    tell({"against theirs": clause})

    hints = study[study["metric"] == "hint (AUC)"]
    tasks = {"permutations": HARD, "easy": EASY, "two more": "40 of 42"}
    early = {name: one_number(hints, task=task, step=20) for name, task in tasks.items()}
    tell_in_words(early | {"late": one_number(hints, task=HARD, step=200)}, "minute hint, {}")


def tell_longer(kept: pd.DataFrame) -> None:
    """Tell how many seeds learn permutations at the paper's size if they are trained for longer."""
    longer = kept[kept["setting"].str.startswith(LONGER) & kept["metric"].eq("learned")]
    longer = longer[longer["task"] == HARD].astype({"count": int})
    tell(longer.drop_duplicates("budget"), "longer, {task} by {budget:.0f}", of="count")
    tell_in_words({"minute learned, longer": one_number(longer, budget=LATE)}, unit="%")


def tell_heads_at_size() -> None:
    """Tell how heads are graded at the paper's size on two bases, and which measure predicts good ones."""
    for base in (0, 2):
        rows = came_with_the_book(CHAPTER, heads_hidden=SIZE, heads_base=base)
        rows = rows[rows["metric"].isin(QUOTED)].replace({"metric": QUOTED})
        tell_in_words(rows[rows["metric"] == "told"], f"large {base}, {{metric}}")
        rows = rows.fillna({"count": 0}).astype({"count": int, "n": int})
        tell(rows, f"large {base}, {{metric}}: {{of}}", of=["n", "count", "p_holm"])


def tell_bases(kept: pd.DataFrame) -> None:
    """Tell means over five bases: what predicts good heads, whether they stay good, one among bad ones."""
    means = over_bases(of_bases(kept)).rename_axis("asked").reset_index()
    predicted = one_number(means, asked=OF_BASES["AUC of beyond place, good against bad"])
    tell_in_words({"bases, beyond place": predicted})
    gains = {"stays good": STAYS_GOOD, "one good": OF_BASES["learned, several heads, less 4 bad"]}
    found = {name: one_number(means, asked=asked) for name, asked in gains.items()}
    tell_in_words(found, "bases, {}", "points")


def tell_several_heads(p: CopyingHeads, found: HeadResults) -> None:
    """Tell how models with several heads are trained in this run, and how many of them learn, by kind."""
    tell(
        {"base": p.heads_base, "together": p.heads_together, "together_steps": p.together_steps}, "heads, {}"
    )
    learned = found.learned[found.learned["metric"] == "learned, several heads"]
    for name, ending in KINDS.items():
        of_kind = learned[learned["task"].str.endswith(ending)]
        tell({of: int(of_kind[of].sum()) for of in ("n", "count")}, f"heads, {name}: {{}}")


def tell_exercises() -> None:
    """Tell what the solutions quote: of runs of this page's size, and of models with uniform attention."""
    here = came_with_the_book(CHAPTER, precision="float32", steps=200, length=20)
    others = {"repeated": "20 of 20, repeated", "two more": "20 of 22"}
    starts = {f"start {steps}": f"permutations of 20, after {steps} steps of 20 of 30" for steps in (10, 20)}
    medians = {
        name: one_number(here, task=task, metric="median step") for name, task in (others | starts).items()
    }
    tell_in_words(medians, "exercise {}, median", digits=0)
    for name, task in others.items():
        tell_in_words({f"exercise {name}, hint": one_number(here, task=task, metric="hint (AUC)", step=20)})
        learned = one_number(here, task=task, metric="learned", budget=100)
        tell_in_words({f"exercise {name}, learned": learned}, unit="%")
    for name, task in (starts | {"no start": "permutations of 20, no head start"}).items():
        learned = one_number(here, task=task, metric="learned", budget=200)
        tell_in_words({f"exercise {name}": learned}, unit="%")

    at_size = came_with_the_book(CHAPTER, length=40)
    largest = one_number(at_size, task=EASY, metric="largest relevance", step=200)
    tell_in_words({"exercise even, largest": largest}, unit="%", digits=1)
    even = one_number(at_size, task=f"{EASY}, uniform", metric="learned", budget=200)
    tell_in_words({"exercise even, learned": even}, unit="%")

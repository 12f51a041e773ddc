"""Which method to use: the recommended method for each cost, with its recorded scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from attnlib.stats import with_interval
from book.chapters.attribution_benchmark.settings import were_told
from book.chapters.display import display_name
from book.chapters.faithfulness_metrics import tables
from book.chapters.faithfulness_metrics.figures import kept

RECOMMENDED = {
    "one forward pass": "rollout of value-weighted attention",
    "one forward and one backward pass": "AttnLRP",
    "a pass per token": "blank-out",
    "a pass per token, and a second input": "activation patching",
}
"""The recommended method by affordable cost."""

COMPARED = {"(for comparison, one forward pass)": "rollout"}

PASSES = Path(__file__).parents[1] / "performance/measures.csv"
"""The recorded cost of each method on one prompt."""

CAPTION = """\
:::{{container}} caption
Means over {needs} and {uses} settings, with 95 % confidence intervals over settings. A *setting* is a \
task with its models; models whose attention was supervised are left out. The cost is compared with [one \
full forward pass](/book/performance.md). A mean does not hold for every model: in the first column, \
rollout scores {least:.2f} in one setting and {most:.2f} in another. So test the method that you choose on \
prompts whose answer you know.
:::"""


def using(stage: Path) -> str:
    """A table with a row per method, or a line if the records are missing."""
    found = measured()
    if found.empty:
        return "*Not run yet*: `papermill` with the profile `paper` of `faithfulness_metrics`."
    lines = [
        "::::{container} using",
        "| you can afford | use | finds what the task needs | finds what the model uses | forward passes |",
        "|---|---|---|---|---|",
    ]
    of: Any
    for afford, name in (RECOMMENDED | COMPARED).items():
        of = found.loc[name]
        needs, uses = (with_interval(of[by]) for by in ("needs", "uses"))
        use = f"**{display_name(name)}**" if afford in RECOMMENDED else display_name(name)
        lines.append(f"| {afford} | {use} | {needs} | {uses} | {of['cost', 'passes']:.2g} |")
    counts = {by: int(found[by]["n"].max()) for by in ("needs", "uses")}
    known = kept().measured[tables.KNOWN]
    rollout = known[known["method"].eq("rollout") & ~were_told(known["setting"])]["value"]
    ends = {"least": rollout.min(), "most": rollout.max()}
    return "\n".join([*lines, "", CAPTION.format(**counts, **ends), "::::"])


def measured() -> pd.DataFrame:
    """By method, `value`, `low`, `high` and `n` under `needs` and under `uses`, and `passes` under `cost`."""
    known, chosen = (kept().measured.get(by) for by in (tables.KNOWN, tables.CHOSEN))
    if known is None or chosen is None or chosen.empty:
        return pd.DataFrame()
    free = {
        "needs": tables.ranked(known[~were_told(known["setting"])], tables.KNOWN),
        "uses": tables.ranked(
            chosen[tables.are_free(chosen["setting"]) & tables.works(chosen)], tables.CHOSEN
        ),
    }
    by = {name: each.set_index("method").rename(columns={"settings": "n"}) for name, each in free.items()}
    cost = pd.read_csv(PASSES, index_col="method").rename(columns={"products, times": "passes"})
    return pd.concat(by | {"cost": cost}, axis=1)

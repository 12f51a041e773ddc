"""The prompts that the chapter's explorer offers for the model in the page, and shares by layer."""

from __future__ import annotations

from itertools import cycle

import pandas as pd
from matplotlib.ticker import MaxNLocator

from attnlib.generators.prompts import EXAMPLES
from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.panels import finished, legend_of, row_of_panels
from attnlib.plots.style import plain
from attnlib.plots.themes import colour, colours
from attnlib.plots.words import extremes, listed
from attnlib.widgets.language_model_explorer import Trial
from book.chapters.generative.study import STUDY

FACTS = ("The code of Grace is 4821.", "The code of Hugo is 1936.", "The code of Omar is 7350.")
QUESTION = "Q: What is the code of Hugo? A: The code of Hugo is"

NOTES = {
    "Putin": "Forced, the study's words. Rollout ranks 'Putin' low for 'Russia'; compare with occlusion.",
    "Abdul": "Forced, the study's words: 'Pakistan' is not what this model would write. Empty the box "
    "'Force' to see what it would.",
    "weather": "Forced, the study's words. Blank the token 'sunny' of the context: how likely is it then?",
    "Colosseum": "Forced, the study's words: 'David' stands in the prompt, and occlusion finds it.",
}

TRIALS = (
    Trial(
        "a needle",
        " ".join((*FACTS, QUESTION)),
        word="1",
        note="The answer can only come from '1936', in the second fact. AttnLRP finds it. Choose rollout or "
        "attention under Show, and compare.",
        source="1936",
    ),
    Trial(
        "the needle moved",
        " ".join((FACTS[1], FACTS[0], FACTS[2], QUESTION)),
        word="1",
        source="1936",
        note="The same facts, and the one that is asked for comes first. The answer stays; what follows it?",
    ),
    *(Trial(name, each.text, each.completion, each.word, note=NOTES[name]) for name, each in STUDY.items()),
    Trial(
        "a name and a country",
        EXAMPLES["a name and a country"],
        note="Switch all heads of a layer off, one layer after the other: which can the model do without?",
    ),
    Trial(
        "a chat",
        "Name three animals that live in the sea.",
        chat=True,
        note="In the form in which the model was taught to answer; with a temperature it draws its words.",
    ),
)
"""Instructive prompts: a needle, also moved; the study's four; one to switch heads in; a chat."""

HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---")
"""Hatches of areas, in addition to their colours."""


@drawing
def shares_by_layer(rows: pd.DataFrame) -> Drawn:
    """Shares that add up to 1 in every layer, a panel per model."""
    models = list(rows["model"].unique())
    figure, axes = row_of_panels(len(models), height=2.9, sharey=True)
    for axis, model in zip(axes, models, strict=True):
        shares = rows[rows["model"] == model].pivot(index="layer", columns="kind", values="value")
        shares = shares[list(rows["kind"].unique())]
        areas = axis.stackplot(shares.index, shares.T, labels=shares.columns, colors=colours())
        for area, hatch in zip(areas, cycle(HATCHES)):
            area.set(hatch=hatch, hatchcolor=colour("page"), edgecolor=colour("page"), linewidth=0.6)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set(
            title=plain(model), xlabel="layer", xlim=(shares.index.min(), shares.index.max()), ylim=(0, 1)
        )
    axes[0].set_ylabel("share of the rollout")
    legend_of(figure)
    ends = {
        f"layer {layer}": rows[rows["layer"] == layer] for layer in (rows["layer"].min(), rows["layer"].max())
    }
    seen = listed(
        f"{model}, {name}: {extremes(part[part['model'] == model], 'kind')}"
        for model in models
        for name, part in ends.items()
    )
    return finished(figure, axes=False), rows, f"Areas that add up to 1 over layers. {seen}."

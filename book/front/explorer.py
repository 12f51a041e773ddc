"""The explorer of the first page: stored models that the page computes itself, whatever the reader types."""

from pathlib import Path
from typing import Any

from attnlib.generators.rasp import Language
from attnlib.models.stored import StoredModel, stored_model, stored_models
from attnlib.widgets import ModelExplorer
from attnlib.widgets.attention_explorer import Attention
from book.chapters.lens.measures import lines_on_heads
from book.chapters.readings import reading
from book.chapters.trying import to_try

ROOM = 150_000
"""The most weights of the models of RASP languages on the page, without those of the model that adds."""

SUMS = ["58+67", "99+9", "5+3"]
"""The first inputs of the model that adds; it gets the last one wrong."""


def explorer(stage: Path) -> str:
    """An explorer with a model that adds, shown first (see `opened`), and models of RASP languages."""
    adds = stored_model("arithmetic_lens", "addition, seed 0")
    stored = stored_models("rasp_languages")
    languages = to_try(stored, "sort", room=ROOM).models
    _, (layer, head, query) = opened(adds)
    widget = ModelExplorer(
        {
            "addition": {
                "model": adds.model,
                "task": adds.task,
                "texts": SUMS,
                "note": how_good(adds),
                "heads": lines_on_heads(adds),
            },
            **{name: shown | {"note": how_good(stored[name])} for name, shown in languages.items()},
        },
        title="Type a sum or a sequence: where does the model look?",
        layer=layer,
        head=head,
        query=query,
    )
    return placed(widget, stage, "explorer", "book/")


def placed(widget: ModelExplorer, stage: Path, name: str, book: str = "") -> str:
    """Write an explorer into a file of the stage; return the MyST that includes the file."""
    file = stage / f"book/_front/{name}.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(widget.to_html(), encoding="utf-8")
    return f"```{{raw}} html\n:file: {book}_front/{name}.html\n```"


def opened(adds: StoredModel) -> tuple[dict[str, Any], tuple[int, int, int]]:
    """The reading of the first sum, and the layer, head and query with most attention on the reference."""
    read = reading(adds.model, adds.task.tokenizer, adds.task.annotate(f"{SUMS[0]}="))
    return read, Attention.of("", **read).most_on_reference()


def how_good(kept: StoredModel) -> str:
    """A line on a model's accuracy on held-out samples."""
    right = kept.accuracy["exact match"]
    samples = "sequences" if isinstance(kept.task, Language) else "problems"
    share = f"{100 * right['value']:.1f} % of {right['n']:,.0f} {samples}"
    return f"Right: {share} that it was not trained on."

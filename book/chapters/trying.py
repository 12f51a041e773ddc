"""Stored models for a reader to try: the choice of models for a page, and their first input texts.

A page contains the weights of its models, so it can hold only a few of them. One model of each language is
worth more than two models of one language.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from attnlib.generators.rasp import LANGUAGES, Language
from attnlib.models.stored import StoredModel
from attnlib.widgets.model_explorer import check_asked

ROOM = 320_000
"""The most weights, in half precision, that a chapter's page can hold: about 0.8 MB."""

EXAMPLES = ("cabbage", "hidefgabcjij")
"""The first input texts of models whose alphabet has letters."""


class ToTry(NamedTuple):
    """The models that `to_try` chose, as `ModelExplorer` takes them, and the names of the others."""

    models: dict[str, dict[str, Any]]
    left_out: list[str]

    @property
    def note(self) -> str:
        """A sentence on the models that were left out, and how to try them; "" if none was."""
        if not self.left_out:
            return ""
        return (
            f"The explorer leaves out {', '.join(self.left_out)}, to keep this page small. To try one, build "
            "the chapter of its language (-p language ...)."
        )


def to_try(stored: Mapping[str, StoredModel], first: str, text: str = "", room: int = ROOM) -> ToTry:
    """The stored models of languages that a page has room for.

    A model of the language `first` comes first, then one of every other language in the order of `LANGUAGES`,
    then all further models. Among a language's models, a supervised one comes first, since its heads can be
    interpreted. Models that are too large for the remaining room are left out.
    """
    order = [first, *(name for name in LANGUAGES if name != first)]
    seen: dict[str, int] = {}
    ranked = []
    for kept in sorted(stored.values(), key=lambda kept: "supervised" not in kept.name):
        name = _language(kept).name
        rank = seen[name] = seen.get(name, -1) + 1
        ranked.append((rank, order.index(name), kept))
    models, left_out = dict[str, dict[str, Any]](), list[str]()
    for *_, kept in sorted(ranked, key=lambda each: each[:2]):
        size = sum(weight.numel() for weight in kept.model.parameters())
        if models and size > room:
            left_out.append(kept.name)
            continue
        room -= size
        models[kept.name] = {
            "model": kept.model,
            "task": kept.task,
            "texts": texts_for(kept, text),
            "note": kept.note,
        }
    return ToTry(models, left_out)


def texts_for(kept: StoredModel, text: str = "") -> list[str]:
    """The text, if the model can read it, and further examples (random ones if there are no letters)."""
    found = [each for each in (text, *EXAMPLES) if not why_not(kept, each)]
    if set(found) <= {text}:
        task = _language(kept)
        longest = min(12, kept.model.config.max_length - task.bos)
        drawn = task.sequences(2, split="test", min_length=min(8, longest), max_length=longest)
        found += task.decode(drawn)
    return list(dict.fromkeys(found))


def text_for(kept: StoredModel, text: str = "") -> tuple[str, str]:
    """A text that the model can read (`text` if possible), and a sentence on why it is another, or ""."""
    own = texts_for(kept, text)[0]
    if not text or own == text:
        return own, ""
    return (
        own,
        f"The stored model {kept.name!r} cannot read {text!r}: {why_not(kept, text)}. Shown is {own!r}.",
    )


def why_not(kept: StoredModel, text: str) -> str:
    """Why a model cannot read a text; "" if it can."""
    try:
        check_asked(kept.model, kept.task, text)
    except ValueError as error:
        return str(error)
    return ""


def _language(kept: StoredModel) -> Language:
    return cast(Language, kept.task)

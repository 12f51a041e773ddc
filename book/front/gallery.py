"""The gallery of all explorers: a small picture, a line on what the explorer shows, and a link to it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import numpy as np
import yaml

from attnlib.widgets.encoding import dequantise
from book.front.explorer import explorer
from book.pipeline.contents import documents

STATE = re.compile(r"^const state = (\{.*\});$", re.MULTILINE)
"""The state from which an explorer's HTML draws (`attnlib.widgets.static`)."""

MOST = 20
"""The most rows and columns of a small picture; larger maps show the maximum of neighbours."""

LEVELS = (0.2, 0.4, 0.6, 0.8, 1)
"""Opacities of a small picture's cells."""

CARD = """\
:::{{grid-item-card}}
```{{raw}} html
{picture}
```
[{name}]({address})

{seen}
:::"""

TOLD = Path(__file__).with_name("explorers.yaml")
"""The names and descriptions of the explorers by page, and findings to open."""

FINDINGS = """Each link opens an explorer in a state that shows something. The button *copy link* below an
explorer makes such a link of what you have found."""


class Place(NamedTuple):
    """An explorer: its page in the table of contents, its number there, from 0, and its initial state."""

    document: str
    number: int
    state: dict[str, Any]


def gallery(stage: Path) -> str:
    """A card for each explorer on the rendered pages, and links to findings in explorers."""
    toc = yaml.safe_load((stage / "_toc.yml").read_text(encoding="utf-8"))
    told = yaml.safe_load(TOLD.read_text(encoding="utf-8"))
    there = [document for document in documents(toc) if document in told["pages"]]
    cards = [card(place, told["pages"][document]) for document in there for place in places(stage, document)]
    found = [
        f"- [{each['name']}]({address(each['page'], each['address'])}). {each['seen']}"
        for each in told["findings"]
        if each["page"] in there
    ]
    grid = ["::::{grid} 1 2 2 3\n:gutter: 3\n:class-container: gallery", *cards, "::::"]
    return "\n\n".join([*grid, "## Findings to open", FINDINGS, "\n".join(found)])


def places(stage: Path, document: str) -> Iterator[Place]:
    """The explorers of a page in their order."""
    for number, state in enumerate(STATE.findall(_html(stage, document))):
        yield Place(document, number, json.loads(state))


def card(place: Place, told: list[dict[str, str]]) -> str:
    """A card: an explorer's picture, its name as a link to the explorer, and what it shows."""
    unknown = {"name": place.state["title"] or "An explorer", "seen": ""}
    said = told[place.number] if place.number < len(told) else unknown
    to = address(place.document, f"explorer={place.number}")
    return CARD.format(picture=picture(place.state), address=to, **said)


def address(document: str, chosen: str) -> str:
    """The address of an explorer in MyST (`book/_ext/addresses.py`)."""
    return f"/{document}.{'md' if document == 'index' else 'ipynb'}#{chosen}"


def picture(state: dict[str, Any]) -> str:
    """An SVG of the map that an explorer shows first, or of the text that its model is given."""
    found = opened_map(state)
    drawn, box = _cells(found) if found is not None else _letters(opened_text(state))
    return f'<svg viewBox="{box}" aria-hidden="true">{drawn}</svg>'


def opened_text(state: dict[str, Any]) -> str:
    """The first input of an explorer's model."""
    trials = state.get("trials") or [{"prompt": ""}]
    own = state["items"][state["item"]].get("text") if state["items"] else None
    return str(state.get("text") or own or state.get("asked") or next(iter(trials[0].values())))


def opened_map(state: dict[str, Any]) -> np.ndarray | None:
    """The matrix that an explorer shows first, from 0 to 1; `None` if the page computes the values itself."""
    if not state["items"]:
        return None
    at = state["item"]
    shown = state["items"][at]
    start = sum(each["bytes"] for each in state["items"][:at])
    packed = base64.b64decode(state["weights"]["base64"])[start:]
    if "scores" in shown:
        return _scores(state, shown, packed)
    if "config" in shown or "cells" in shown:
        return None
    steps = np.frombuffer(zlib.decompressobj(-15).decompress(packed), np.uint8)
    if len(shown["shape"]) == 3:  # generated, prompt, layer
        generated, prompt, layers = shown["shape"]
        values = dequantise(steps[: generated * layers * prompt]).reshape(generated, layers, prompt)
        return values.mean(1) if state["layer"] < 0 else values[:, state["layer"]]
    values = dequantise(steps[: int(np.prod(shown["shape"]))]).reshape(shown["shape"])
    layer = values[-1, state["layer"]]
    return layer.mean(0) if state["head"] < 0 else layer[state["head"]]


def _scores(state: dict[str, Any], shown: dict[str, Any], packed: bytes) -> np.ndarray:
    """The scores of an item at the last checkpoint, a row each, or the matrix of the first score of pairs."""
    steps = np.frombuffer(zlib.decompressobj(-15).decompress(packed), np.uint8)
    rows, at = {}, 0
    for score in shown["scores"]:
        size = score["moments"] * shown["places"]
        last = steps[at : at + size].reshape(score["moments"], -1)[-1]
        rows[score["name"]] = ((last.astype(float) - 128) / 127) ** 2 if score["signed"] else dequantise(last)
        at += size
    if "source" in shown:
        return next(iter(rows.values())).reshape(-1, len(shown["source"]))
    both = [rows[state[side]] for side in ("first", "second") if state.get(side) in rows]
    return np.array(both or [*rows.values()])


def _cells(values: np.ndarray) -> tuple[str, str]:
    """The SVG elements and the view box of a map; cells of one shade form one path."""
    values = _fewer(_fewer(values, 0), 1)
    values = values / (values.max() or 1)
    height, width = values.shape
    shades = np.ceil(values * len(LEVELS) - 0.5).clip(0).astype(int)
    drawn = [f'<rect class="room" width="{width}" height="{height}"/>']
    for shade, opacity in enumerate(LEVELS, 1):
        path = "".join(f"M{x} {y}h1v1h-1z" for y, x in zip(*np.nonzero(shades == shade), strict=True))
        drawn += [f'<path class="own" opacity="{opacity}" d="{path}"/>'] if path else []
    return "".join(drawn), f"0 0 {width} {height}"


def _fewer(values: np.ndarray, axis: int) -> np.ndarray:
    """A matrix with at most `MOST` rows or columns: the maxima over groups of neighbours."""
    count = values.shape[axis]
    if count <= MOST:
        return values
    starts = np.linspace(0, count, MOST, endpoint=False).astype(int)
    return np.maximum.reduceat(values, starts, axis=axis)


def _letters(text: str) -> tuple[str, str]:
    """The SVG elements and the view box of a text: a tile for each of its first twelve letters."""
    shown = text[:12]
    tiles = [
        f'<rect class="room" x="{20 * k}" width="18" height="24"/>'
        f'<text x="{20 * k + 9}" y="17">{escape(letter)}</text>'
        for k, letter in enumerate(shown)
    ]
    return "".join(tiles), f"0 0 {max(20 * len(shown), 100)} 24"


def _html(stage: Path, document: str) -> str:
    """The HTML that the cells of a page show; for the first page, the HTML of its explorer."""
    if document == "index":
        explorer(stage)
        return (stage / "book/_front/explorer.html").read_text(encoding="utf-8")
    cells = nbformat.read(stage / f"{document}.ipynb", as_version=4).cells
    seen = [cell for cell in cells if "remove-cell" not in cell.metadata.get("tags", [])]
    shown = [
        output.get("data", {}).get("text/html", "") for cell in seen for output in cell.get("outputs", [])
    ]
    return "\n".join("".join(each) for each in shown)

"""From tables of labels and texts to three tables of two classes that share no document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from attnlib.generators.classification.sources import STARS, Classes
from attnlib.generators.classification.vocabulary import split_words

ORDER = ("test", "validation", "train")
"""Which split keeps a document that is in several."""


def allowed_labels(
    tables: dict[str, pd.DataFrame], classes: tuple[str, str] | None, known: Classes | None, source: str
) -> Classes:
    """The labels of class 0 and class 1."""
    if classes is not None:
        zero, one = classes
        return frozenset({zero}), frozenset({one})
    if all("stars" in table for table in tables.values()):
        return STARS
    if known is not None:
        return known
    found = sorted({label for table in tables.values() for label in table.iloc[:, 0]}, key=_numbers_first)
    if len(found) != 2:
        few = ", ".join(map(repr, found[:8])) + (", ..." if len(found) > 8 else "")
        raise ValueError(
            f"labels should be two; {source} has {len(found)}: {few}. Say which two to take: "
            f"classes=(label of class 0, label of class 1)."
        )
    return frozenset({found[0]}), frozenset({found[1]})


def _numbers_first(label: str) -> tuple[bool, float, str]:
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label


def binary(tables: dict[str, pd.DataFrame], classes: Classes, source: str) -> dict[str, pd.DataFrame]:
    """The tables with labels 0 and 1 and the words of each document; other labels are left out."""
    two = {}
    for split, table in tables.items():
        number = {label: index for index, labels in enumerate(classes) for label in labels}
        labels = table.iloc[:, 0].map(number)
        if not labels.notna().any() and len(table):
            there = ", ".join(map(repr, sorted(set(table.iloc[:, 0]))[:8]))
            raise ValueError(
                f"labels of {split} should be {' or '.join(sorted(classes[0]))} (class 0) and "
                f"{' or '.join(sorted(classes[1]))} (class 1); {source} has {there}"
            )
        kept = table[labels.notna()]
        two[split] = pd.DataFrame(
            {
                "label": labels.dropna().astype(int).to_list(),
                "text": kept["text"].to_list(),
                "words": [tuple(split_words(text)) for text in kept["text"]],
            }
        )
    return two


def without_copies(tables: dict[str, pd.DataFrame], about: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """The tables without empty documents, and with each sequence of words in one row of one table only."""
    seen: set[tuple[str, ...]] = {()}
    clean, empty, copies = {}, 0, 0
    for split in [*ORDER, "all"]:
        if split not in tables:
            continue
        keep = []
        for words in tables[split]["words"]:
            keep.append(words not in seen)
            seen.add(words)
            empty += not words
            copies += bool(words) and not keep[-1]
        clean[split] = tables[split][np.array(keep, dtype=bool)]
    about.setdefault("left out", {}).update({"without words": empty, "copies": copies})
    if not sum(map(len, clean.values())):
        raise ValueError(f"documents should have words; {about['source']} has none that does")
    return clean


def split_in_three(tables: dict[str, pd.DataFrame], rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Train, validation and test in random order; what is missing is drawn from the rest."""
    rest: Iterable[str] = [split for split in ("train", "all") if split in tables]
    parts = {split: _shuffled(tables[split], rng) for split in tables if split not in rest}
    pool = _shuffled(pd.concat([tables[split] for split in rest]), rng) if rest else pd.DataFrame()
    for split, share in [("test", 0.2), ("validation", 0.1)]:
        if split not in parts:
            n = round(share * len(pool))
            parts[split], pool = pool[:n], pool[n:]
    if not len(pool):
        raise ValueError(f"there should be a file train*.tsv or all*.tsv; there are {', '.join(tables)}")
    return {**parts, "train": pool}


def _shuffled(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return table.iloc[rng.permutation(len(table))]

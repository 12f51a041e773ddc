"""Questions about the class of planted documents."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from attnlib.generators.classification import Documents, Planting, Vocabulary
from attnlib.generators.classification.vocabulary import SPECIAL
from attnlib.generators.exchanged import opposites
from attnlib.measures.asked.question import Question


def about_documents(
    vocabulary: Vocabulary,
    documents: Documents,
    planting: Planting | None = None,
    *,
    in_distribution: bool = True,
) -> Iterator[Question]:
    """A question about every document: what speaks for its class?

    Asked at `<eos>`, the last word. The truth are the keywords of the document's class; candidates are all
    words that the vocabulary has. In the counterfactual the truth's words have become those of the other
    class that count as much; documents with a keyword too rare for that are left out.

    Args:
        vocabulary: of the corpus that models were trained on.
        documents: whose relevance is known.
        planting: how they were made.
        in_distribution: whether models were trained on such.

    Raises:
        ValueError: their relevance is not known.
    """
    if documents.relevance is None:
        raise ValueError("documents should be planted ones, whose relevance is known")
    swap, known = torch.arange(len(vocabulary)), vocabulary.ids
    for one, other in opposites(planting).items():
        if one in known and other in known:
            swap[known[one]] = known[other]
    relevance = documents.toward_label(documents.relevance)
    rows = zip(
        documents.tokens.split(documents.lengths.tolist()),
        relevance.split(documents.lengths.tolist()),
        documents.labels.tolist(),
        strict=True,
    )
    for ids, speaks, label in rows:
        words = ids >= len(SPECIAL)
        truth = (speaks > 0) & words
        if (swap[ids] == ids)[truth].any() or not truth.any():  # of too rare a keyword, or its opposite
            continue
        yield Question(
            ids,
            len(ids) - 1,
            label,
            truth,
            words,
            1 - label,
            torch.where(truth, swap[ids], ids),
            in_distribution,
        )

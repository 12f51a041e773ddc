"""Questions about the class of planted documents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from attnlib.generators.classification import Documents, Planting, Vocabulary, opposites
from attnlib.generators.tokenizer import SPECIAL
from book.chapters.tells.asked.question import Alike, Question


def about_documents(
    vocabulary: Vocabulary,
    documents: Documents,
    planting: Planting | None = None,
    *,
    others: bool = False,
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about every document: what speaks for its class?

    Asked at `<eos>`, the last word. The truth are the keywords of the document's class; candidates are all
    words that the vocabulary has. In the counterfactual the truth's words have become those of the other
    class that count as much; documents with a keyword too rare for that are left out.

    Args:
        vocabulary: of the corpus that models were trained on.
        documents: whose relevance is known.
        planting: how they were made.
        others: whether counterfactuals are documents of their own: others of these, as long, of the other
            class.
        in_distribution: whether models were trained on such.
        seed: of what is drawn.

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
    tokens, labels = documents.tokens.split(documents.lengths.tolist()), documents.labels.tolist()
    alike = Alike(zip(tokens, labels, strict=True), lambda each: (len(each[0]), each[1]))
    rows = zip(tokens, relevance.split(documents.lengths.tolist()), labels, strict=True)
    for row, (ids, speaks, label) in enumerate(rows):
        words = ids >= len(SPECIAL)
        truth = (speaks > 0) & words
        if (swap[ids] == ids)[truth].any() or not truth.any():  # of too rare a keyword, or its opposite
            continue
        counterfactual = torch.where(truth, swap[ids], ids)
        if others:
            rng = np.random.default_rng([seed, row])
            found = alike.draw((len(ids), 1 - label), lambda each: True, rng)
            if found is None:
                continue
            counterfactual = found[0]
        yield Question(
            ids,
            len(ids) - 1,
            label,
            truth,
            words,
            1 - label,
            counterfactual,
            in_distribution,
        )

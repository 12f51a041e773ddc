"""What each token of a planted document is."""

from __future__ import annotations

import numpy as np

from attnlib.generators.classification import Corpus, Documents
from attnlib.generators.classification.planted import CONFOUNDERS
from attnlib.generators.tokenizer import BOS, EOS

TOKEN_KINDS = ("keyword for the label", "keyword against it", "confounder", "filler", "<bos> or <eos>")
"""What a token of a planted document can be."""


def token_kinds(corpus: Corpus, documents: Documents) -> np.ndarray:
    """What each token of planted documents is: an index into `TOKEN_KINDS`.

    Raises:
        ValueError: the documents' relevance is not known.
    """
    if documents.relevance is None:
        raise ValueError('the relevance of the documents should be known, as it is for corpus("planted")')
    toward = documents.toward_label(documents.relevance).numpy()
    names = {word for side in CONFOUNDERS for word in side}
    words = np.array(corpus.vocabulary.words)[documents.tokens.numpy()]
    conditions = [toward > 0, toward < 0, np.isin(words, sorted(names)), np.isin(words, [BOS, EOS])]
    return np.select(conditions, [0, 1, 2, 4], 3)

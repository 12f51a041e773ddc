"""Sequences of the RASP languages with other symbols where an output was made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from attnlib.generators.rasp import Language, Sequences


def exchanged_symbols(
    lang: Language,
    sequence: Sequences,
    query: int,
    places: Bool[Tensor, " position"],
    rng: np.random.Generator,
) -> Sequences | None:
    """A sequence with another symbol at some places, and so with another output at one position.

    Where that is not enough (sort: an equal symbol elsewhere takes the place of the one that is gone), all
    occurrences of the places' symbols are exchanged.

    Args:
        lang: whose output it is.
        sequence: one.
        query: the position of the output.
        places: what the output was made of.
        rng: draws the symbol that is put there: one that stood at none of the places.

    Example:
        >>> from attnlib.generators.rasp import language
        >>> lang = language("reverse", alphabet_size=10)
        >>> places = torch.tensor([False, False, True])
        >>> other = exchanged_symbols(lang, lang.encode("cab"), 0, places, np.random.default_rng(0))
        >>> lang.decode(other)[0][:2], lang.outputs(lang.decode(other)[0])[0] != "b"
        ('ca', True)
    """
    (symbols,) = sequence.symbols
    gone = symbols[places].unique()
    others = torch.tensor([s for s in rng.permutation(len(lang.alphabet)).tolist() if s not in gone])
    if not len(others):
        return None
    wider = torch.isin(symbols, gone) & sequence.real[0]
    tried = torch.cat([torch.where(mask, others[:, None], symbols) for mask in (places, wider)])
    every = replace(sequence, symbols=tried, lengths=sequence.lengths.expand(len(tried)))
    was = lang.definition.outputs(sequence)[0, query]
    differs = (lang.definition.outputs(every)[:, query] != was).nonzero()
    return every[differs[0]] if len(differs) else None

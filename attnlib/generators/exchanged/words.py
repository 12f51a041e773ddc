"""Keywords of planted documents, and their opposites."""

from __future__ import annotations

from attnlib.generators.classification import Planting, lexicon


def opposites(planting: Planting | None = None) -> dict[str, str]:
    """For every keyword that of the other class that counts as much.

    With all keywords that speak for a document's label exchanged, its sum of strengths has the other sign: so
    the label is the other one.

    Args:
        planting: whose keywords; the default one's if left out.

    Example:
        >>> opposites()["terrible"], opposites()["superb"]
        ('superb', 'terrible')
    """
    planting = planting or Planting()
    words, _ = lexicon(planting)
    pairs = zip(words[: planting.keywords], words[planting.per_class :], strict=False)
    return {one: other for pair in pairs for one, other in (pair, pair[::-1])}

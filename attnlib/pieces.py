"""From tokens to the text they write, and from a part of the text back to its tokens.

In vocabularies of bytes a character may be spread over several tokens: an emoji over two to four, a letter of
many scripts over two or three. So a token's place in the text cannot be found by decoding it alone; it is
found by decoding what stands before it, with it and without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any

NEIGHBOURS = 8
"""So many tokens before one decide how it is decoded."""

UNFINISHED = "\ufffd"
"""What decoders write for bytes that are no whole character."""


def pieces(ids: Sequence[int], tokenizer: Any, start: int = 0) -> list[str]:
    """What each token from `start` on adds to the text, with its blanks: one string per id.

    If a character is spread over several tokens, the last shows it, the others `UNFINISHED`.
    """
    if start:
        base = max(start - NEIGHBOURS, 0)
        while base and _decoded(ids[base : base + 1], tokenizer).startswith(UNFINISHED):
            base -= 1  # to where a character begins
        return pieces(ids[base:], tokenizer)[start - base :]
    text, places = offsets(ids, tokenizer)
    begins = [first for first, _ in places[1:]] + [len(text)]
    return [
        text[first : min(stop, after)] + UNFINISHED * (stop > after)
        for (first, stop), after in zip(places, begins, strict=True)
    ]


def offsets(ids: Sequence[int], tokenizer: Any) -> tuple[str, list[tuple[int, int]]]:
    """The text of tokens, and for each the place of its first character there and the one after its last.

    Tokens that share a character have it in common; for a token that adds nothing, the two places are equal.
    """
    text, found = "", list[tuple[int, int]]()
    for read in _runs(ids, tokenizer):
        whole = read[-1]
        for before, now in pairwise(read):
            first, stop = _shared(before, whole), _shared(now, whole)
            if stop < len(now):
                stop += 1  # what is unfinished is the character there
            elif first == stop and now.endswith(UNFINISHED):
                first -= 1  # one more byte of it
            found.append((len(text) + first, len(text) + stop))
        text += whole
    return text, found


def tokens_of(part: str, ids: Sequence[int], tokenizer: Any) -> tuple[int, int]:
    """The place of the first token of `part`, where it first occurs, and the place after its last token."""
    text, places = offsets(ids, tokenizer)
    begin = text.find(part)
    if begin < 0 or not part.strip():
        raise ValueError(f"should be a part of the text {text!r}; got {part!r}")
    end = begin + len(part)
    held = [i for i, (first, stop) in enumerate(places) if first < end and stop > begin]
    return held[0], held[-1] + 1


def _runs(ids: Sequence[int], tokenizer: Any) -> Iterator[list[str]]:
    """Tokens up to where the text is whole: what is written from there on by none, one, ..., all of them.

    They are decoded after their neighbours, since some vocabularies drop the blank before a lone token, and
    from where the text is whole, since some decoders give up every byte that stands beside a missing one.
    """
    wholes, start = [0], 0
    while start < len(ids):
        base = next(place for place in reversed(wholes) if place <= max(start - NEIGHBOURS, 0))
        before, read, stop = _decoded(ids[base:start], tokenizer), [""], start
        while stop == start or (stop < len(ids) and read[-1].endswith(UNFINISHED)):
            stop += 1
            text = _decoded(ids[base:stop], tokenizer)
            own = text[len(before) :] if text.startswith(before) else _decoded(ids[start:stop], tokenizer)
            read.append(own)
        yield read
        wholes.append(stop)
        start = stop


def _decoded(ids: Sequence[int], tokenizer: Any) -> str:
    return tokenizer.decode(ids, clean_up_tokenization_spaces=False) if len(ids) else ""


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in alike)

"""From tokens to their text, and from a part of the text back to its tokens.

In byte-level vocabularies a character may be spread over several tokens: an emoji over two to four, a letter
of many scripts over two or three. So decoding a token alone does not give its place in the text. Instead, the
tokens before it are decoded with and without the token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any

NEIGHBOURS = 8
"""The least number of preceding tokens, if there are as many, that a token is decoded with."""

UNFINISHED = "\ufffd"
"""The character that decoders write for bytes of an incomplete character."""


def pieces(ids: Sequence[int], tokenizer: Any, start: int = 0) -> list[str]:
    """The text that each token from `start` on adds, spaces included: one string per id.

    If a character is spread over several tokens, the last token has it, the others have `UNFINISHED`.
    """
    if start:
        base = max(start - NEIGHBOURS, 0)
        while base and _decoded(ids[base : base + 1], tokenizer).startswith(UNFINISHED):
            base -= 1  # go back to the start of a character
        return pieces(ids[base:], tokenizer)[start - base :]
    text, places = offsets(ids, tokenizer)
    begins = [first for first, _ in places[1:]] + [len(text)]
    return [
        text[first : min(stop, after)] + UNFINISHED * (stop > after)
        for (first, stop), after in zip(places, begins, strict=True)
    ]


def offsets(ids: Sequence[int], tokenizer: Any) -> tuple[str, list[tuple[int, int]]]:
    """The text of tokens, and for each token the start and end of its characters in the text (end excluded).

    Ranges of tokens that share a character overlap; for a token that adds nothing, start and end are equal.
    """
    text, found = "", list[tuple[int, int]]()
    for read in _runs(ids, tokenizer):
        whole = read[-1]
        for before, now in pairwise(read):
            first, stop = _shared(before, whole), _shared(now, whole)
            if stop < len(now):
                stop += 1  # the unfinished character is the next one
            elif first == stop and now.endswith(UNFINISHED):
                first -= 1  # one more byte of the last character
            found.append((len(text) + first, len(text) + stop))
        text += whole
    return text, found


def tokens_of(part: str, ids: Sequence[int], tokenizer: Any) -> tuple[int, int]:
    """The index of the first token of the first occurrence of `part`, and the index after its last token."""
    text, places = offsets(ids, tokenizer)
    begin = text.find(part)
    if begin < 0 or not part.strip():
        raise ValueError(f"should be a part of the text {text!r}; got {part!r}")
    end = begin + len(part)
    held = [i for i, (first, stop) in enumerate(places) if first < end and stop > begin]
    return held[0], held[-1] + 1


def _runs(ids: Sequence[int], tokenizer: Any) -> Iterator[list[str]]:
    """For each run of tokens that ends with a whole character: the texts of its first 0, 1, ..., all tokens.

    A run is decoded with the tokens before it, since some vocabularies drop the space before a lone token;
    decoding starts at a whole character, since some decoders lose all bytes next to an incomplete one.
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
    """The length of the common prefix of two texts."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in alike)

"""How fast the algorithmic tasks are sampled, with reference: in chunks, one at a time, and by the original.

    python benchmarks/algorithmic_sampling.py [--original FOLDER] [--record]

"Plain" draws, writes, encodes and labels one sample after the other, by loops over its characters, as one
would at first; its tokenizer is a dictionary, the fastest there is. With the FOLDER of the original's code
(AttentionSpan, not part of this repository), that code is timed too, with the same dictionary; with a Hugging
Face tokenizer, which it asks for every character, it makes a third of that. All draw at the tasks' default
sizes, on one thread, in turn; the ratio is what to look at.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch
from timing import ORIGINAL, PLAIN, Way, common_options, compared, report

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import task
from attnlib.generators.algorithmic.string_reversal import ALPHANUMERIC

N = {"long_addition": 2048, "long_multiplication": 256, "successor": 1024, "value_assignment": 1024}
TOKENIZER = char_tokenizer()
IDS = TOKENIZER.get_vocab()
Written = tuple[str, int, list[tuple[int, int]]]


def number(chance: random.Random) -> int:
    """A number of 1 to 20 digits."""
    size = chance.randint(1, 20)
    return chance.randrange(10 ** (size - 1) if size > 1 else 0, 10**size)


def plain_addition(chance: random.Random) -> Written:
    """A text, the length of its question, and pairs of query and key."""
    numbers = [number(chance) for _ in range(chance.randint(2, 3))]
    width = max(len(str(one)) for one in numbers) + 1
    *parts, total = (str(one)[::-1].ljust(width, "0") for one in [*numbers, sum(numbers)])
    question = "+".join(parts) + "="
    rows = range(width)
    pairs = [(len(question) - 1 + i, j * (width + 1) + i) for i in rows for j in range(len(parts))]
    return question + total, len(question), pairs


def plain_multiplication(chance: random.Random) -> Written:
    """As `plain_addition`."""
    second, first = sorted((number(chance), number(chance)))
    width = 2 * len(str(first))
    digits = [int(digit) for digit in str(second)[::-1].ljust(width, "0")]
    products = [first * digit * 10**i for i, digit in enumerate(digits)]
    one, two, total, *parts = (
        str(part)[::-1].ljust(width, "0") for part in (first, second, first * second, *products)
    )
    question = f"{one}*{two}="
    pairs = []
    for i in range(width):
        for j in range(i, width):
            query = len(question) - 1 + i * (width + 1) + j
            pairs += [(query, j - i), (query, width + 1 + i)]
    return question + "+".join(parts) + "=" + total, len(question), pairs


def plain_successor(chance: random.Random) -> Written:
    """As `plain_addition`."""
    start = chance.randint(1, 100)
    numbers = [str(start + i) for i in range(chance.randint(2, 100))]
    pairs, at = [], 0
    for before, after in pairwise(numbers):
        own = at + len(before) + 1
        pairs += [(query, key) for query in range(own - 1, own + len(after)) for key in range(at, query + 1)]
        at = own
    text = " ".join(numbers) + " "
    return text, len(numbers[0]) + 1, [pair for pair in pairs if pair[0] < len(text) - 2]


def plain_assignment(chance: random.Random) -> Written:
    """As `plain_addition`."""
    size = chance.randint(1, 62)
    keys, values = chance.sample(ALPHANUMERIC, size), chance.sample(ALPHANUMERIC, size)
    table = {key: chance.choice(values) for key in keys}
    asked = chance.choices(keys, k=chance.randint(1, 100))
    question = "".join(key + value for key, value in table.items()) + " " + "".join(asked) + "="
    pairs = []
    for i, symbol in enumerate(asked):
        place = 2 * keys.index(symbol)
        pairs += [(len(question) - 1 + i, key) for key in (2 * size + 1 + i, place, place + 1)]
    return question + "".join(table[symbol] for symbol in asked), len(question), pairs


PLAINLY: dict[str, Callable[[random.Random], Written]] = {
    "long_addition": plain_addition,
    "long_multiplication": plain_multiplication,
    "successor": plain_successor,
    "value_assignment": plain_assignment,
}


def plainly(write: Callable[[random.Random], Written], n: int) -> None:
    """Tokens, targets and masks of samples, one after the other."""
    chance = random.Random(0)
    for _ in range(n):
        text, asked, pairs = write(chance)
        tokens = torch.tensor([IDS["<bos>"], *(IDS[character] for character in text), IDS["<eos>"]])
        targets = tokens[1:].clone()
        targets[:asked] = -100
        reference, evaluated = torch.zeros(2, len(targets), len(targets), dtype=torch.bool)
        evaluated[asked:, 1:] = True
        for query, key in pairs:
            reference[query + 1, key + 1] = True


class Dictionary:
    """The little that the original asks of a tokenizer."""

    bos_token_id, eos_token_id = TOKENIZER.bos_token_id, TOKENIZER.eos_token_id

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """One id per character."""
        return [IDS[character] for character in text]


def original(folder: Path, name: str) -> Any:
    """The original's generator, with the settings that it needs to run at all on a Python of today."""
    sys.path[:0] = [str(folder), str(folder / "generators")]
    import generators  # type: ignore[import-not-found]

    settings: dict[str, Any] = {}
    if name == "value_assignment":
        sets = {"charset_from": list(ALPHANUMERIC), "charset_to": list(ALPHANUMERIC)}
        settings = {**sets, "encoding_length": (1, 62)}
    kind = "".join(word.capitalize() for word in name.split("_")) + "Generator"
    return getattr(generators, kind)(seed=0, tokenizer=Dictionary(), **settings).generate_samples()


def ours(name: str, n: int) -> None:
    """Draw, without keeping, so many samples of a task."""
    for _ in islice(task(name, TOKENIZER, seed=0).generate_samples(), n):
        pass


def main() -> None:
    """Print samples per second, and ratios."""
    options = common_options(__doc__, original="AttentionSpan").parse_args()
    torch.set_num_threads(1)
    lines = []
    for name, write in PLAINLY.items():
        n, few = N[name], N[name] // 16
        others = {PLAIN: Way(few, lambda write=write, few=few: plainly(write, few))}
        if options.original:
            theirs = original(options.original, name)
            others[ORIGINAL] = Way(few, lambda theirs=theirs, few=few: list(islice(theirs, few)))
        lines.append(compared(name.replace("_", " "), Way(n, lambda name=name, n=n: ours(name, n)), others))
    report("algorithmic_sampling", lines, options.record)


if __name__ == "__main__":
    main()

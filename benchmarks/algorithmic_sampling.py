"""How fast the algorithmic tasks are sampled, with reference: in chunks, one at a time, and by the original.

    python benchmarks/algorithmic_sampling.py [FOLDER]

"Plain" draws, writes, encodes and labels one sample after the other, by loops over its characters, as one
would at first; its tokenizer is a dictionary, the fastest there is. With the FOLDER of the original's code
(AttentionSpan, not part of this repository), that code is timed too, with the same dictionary; with a Hugging
Face tokenizer, which it asks for every character, it makes a third of that. All draw at the tasks' default
sizes, on one thread, in turn; the ratio is what to look at.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import task
from attnlib.generators.algorithmic.string_reversal import ALPHANUMERIC

N = {"long_addition": 2048, "long_multiplication": 128, "successor": 1024, "value_assignment": 1024}
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


PLAIN: dict[str, Callable[[random.Random], Written]] = {
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


def rate(n: int, work: Callable[[], object]) -> float:
    """Samples per second of this process's time, which is not that of its neighbours."""
    start = time.process_time()
    work()
    return n / (time.process_time() - start)


def main() -> None:
    """Print samples per second, and ratios: the median of three rounds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", nargs="?", type=Path, help="of the original's code")
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    rows = []
    for name, write in PLAIN.items():
        rounds = []
        theirs = original(folder, name) if folder else None
        for seed in range(3):  # in turn, so that a machine that slows down slows all
            g, n = task(name, TOKENIZER, seed=seed), N[name]
            found = {"samples/s": rate(n, lambda g=g, n=n: [None for _ in islice(g.generate_samples(), n)])}
            found["plain, samples/s"] = rate(n // 16, lambda w=write, n=n: plainly(w, n // 16))
            found["ratio to plain"] = found["samples/s"] / found["plain, samples/s"]
            if theirs is not None:
                some = n // 16
                found["original, samples/s"] = rate(some, lambda t=theirs, some=some: list(islice(t, some)))
                found["ratio to original"] = found["samples/s"] / found["original, samples/s"]
            rounds.append({"task": name, **found})
        rows.append(sorted(rounds, key=lambda found: found["ratio to plain"])[1])
    print(pd.DataFrame(rows).to_string(index=False, float_format="{:,.0f}".format))


if __name__ == "__main__":
    main()

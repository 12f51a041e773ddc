"""Flip-flop: commands to registers of one bit each, then a question about one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlib.generators.algorithmic.base import AlgorithmicGenerator
from attnlib.generators.algorithmic.texts import DIGITS, Pairs, Texts, bounds, pack, pairs, switch
from attnlib.generators.exchange import with_others

WRITE, IGNORED, FLIP, READ = range(10, 14)


class FlipFlopGenerator(AlgorithmicGenerator):
    """Registers of one bit that are written and flipped; the last command reads one.

    ::

        w11i11f10w00r10

    Each command is a letter, a register and a bit: `w` writes the bit, `f` flips the register, `i` is
    ignored; the bit after `f` and `i` has no meaning. Registers start at 0. The last command, `r`, reads a
    register, and its bit is the answer: here register 1 was set to 1 and then flipped, so it is 0.

    Reference: the query that predicts the answer looks at the register's digit in the last command (itself),
    at the last `w` to that register (letter, register and bit), and at letter and register of every later `f`
    of that register; without such a `w`, of every `f` of it. The end has no reference.

    Args:
        length: fewest and most commands, the last one (`r`) included.
        use_flip: whether there are `f` commands.
        num_registers: fewest and most registers, 1 to 10: a register is one digit.
        **settings: see `AlgorithmicGenerator`. With `as_published` the first command is no reference key.
    """

    NAME = "flip-flop"
    INSTRUCTION = (
        "\nFollow the commands to registers of one bit, which all start at 0. A command is a letter, the\n"
        "number of a register, and a bit: w writes the bit, f flips the register, i does nothing, and r\n"
        "reads it. Write the bit that the last command reads and nothing else.\n"
    )

    def __init__(
        self,
        *,
        length: Sequence[int] = (1, 100),
        use_flip: bool = True,
        num_registers: Sequence[int] = (1, 10),
        **settings: Any,
    ) -> None:
        self.length = bounds("length", length, 1)
        self.num_registers = bounds("num_registers", num_registers, 1, 10, why="a register is one digit")
        self.use_flip = switch("use_flip", use_flip)
        super().__init__(DIGITS + "wifr", 3 * self.length[1], **settings)

    def _draw(self, rng: np.random.Generator, n: int) -> Texts:
        lengths = rng.integers(self.length[0], self.length[1] + 1, n) - 1
        registers = rng.integers(self.num_registers[0], self.num_registers[1] + 1, n)
        shape = (n, self.length[1] - 1)
        letters = rng.integers(WRITE, FLIP + self.use_flip, shape)
        chosen, bits = rng.integers(0, registers[:, None], shape), rng.integers(0, 2, shape)
        return self._write(np.stack([letters, chosen, bits], axis=2), lengths, rng.integers(0, registers))

    def _write(self, commands: np.ndarray, lengths: np.ndarray, read: np.ndarray) -> Texts:
        """Texts of the first `lengths` `commands` [text command 3], and of the registers to `read`."""
        n, most, _ = commands.shape
        letters, registers, bits = np.moveaxis(commands, 2, 0)
        number = np.arange(most)
        own = (registers == read[:, None]) & (number < lengths[:, None])
        write = np.where(own & (letters == WRITE), number, -1).max(1, initial=-1)[:, None]
        flips = own & (letters == FLIP) & (number > write)
        written = np.where(write >= 0, np.take_along_axis(np.pad(bits, ((0, 0), (0, 1))), write, axis=1), 0)
        answer = (written[:, 0] + flips.sum(1)) % 2
        last = np.stack([np.full(n, READ), read, answer], axis=1)
        cells = np.concatenate([commands, last[:, None]], axis=1).astype(np.uint8)
        there = np.concatenate([number < lengths[:, None], np.ones((n, 1), dtype=bool)], axis=1)
        symbols, total, _ = pack(cells, np.repeat(there[..., None], 3, axis=2))
        places = {
            "write": 3 * write + np.where(write >= 0, np.arange(3), 2),
            "flips": np.where(flips, 3 * number, -1),
        }
        return Texts(symbols, total, 3 * lengths + 2, places)

    def _pairs(self, texts: Texts) -> Pairs:
        query = texts.prompts[:, None] - 1
        write, flips = texts.places["write"], texts.places["flips"]
        keys = np.concatenate([query, write, flips, np.where(flips >= 0, flips + 1, -1)], axis=1)
        if self.as_published:
            keys[:, 1:] = np.where(keys[:, 1:] < 3, -1, keys[:, 1:])
        return pairs(query, keys)

    def _read(self, text: str) -> Texts:
        letter = "[wif]" if self.use_flip else "[wi]"
        if not re.fullmatch(rf"({letter}[0-9][01])*r[0-9][01]", text):
            raise self._unlike(text, "" if self.use_flip else ", without f (use_flip=False)")
        commands = np.array([self.alphabet.index(symbol) for symbol in text[:-3]], dtype=np.int64)
        lengths = np.array([len(commands) // 3])
        return self._write(commands.reshape(1, -1, 3), lengths, np.array([int(text[-2])]))

    def _redrawn(self, text: str, keys: Sequence[int], rng: np.random.Generator) -> str:
        kinds = ("wif" if self.use_flip else "wi", DIGITS[: self.num_registers[1]], "01")  # of a command
        return with_others(text, {key: kinds[key % 3] for key in keys}, rng)

    def _examples(self) -> list[str]:
        return ["w11i11f10w00r10", "i11f00f11w01r01"] if self.use_flip else ["w11i10w00r11", "i11w01i00r01"]

r"""A fixed distribution of programs: `draw(seed)` returns one of them.

The population is called `POPULATION`. Its name has a version, since any change of the random draws in this
module would give every seed another program; a test checks a hash of twenty programs. Per program:

* 1, 2 or 3 **layers** with probability .2, .4 and .4;
* an **alphabet** of 3 to 5 symbols, inputs of 8 to 12 symbols, **causal** or not (one half each), 1 to 4
  heads and 0 to 2 lookups in each layer;
* the **selector** of a head: *equal* (both have one value, .22), *set* (the key's value is in a random set,
  .20), *relation* (a random map, .14), *offset* of up to 3 positions (.16), *pointer* (a computed value names
  a position, .12), *mirror* (.08), *fixed* (the first, second, last or last but one, .08). The first three
  are limited to keys before the query (.3), to keys other than the query's token (.2), or not limited;
* a head with one of the first three selectors **counts** with probability .55, up to 1, 2, 3 or all; all
  others **copy**;
* arguments are drawn from the variables computed before, those of the layer before three times as likely;
* a **lookup** is a random balanced table of two variables, with 2 to 4 values;
* the **output** is a variable of the last layer: if this has lookups, one of these with probability .6, and
  else any variable of the layer.

A head or lookup is drawn again where its value is constant, or always that of one of its arguments. A program
is drawn again where its output does not depend on symbols, where not every layer has a head on the longest
chain to the output, where its variables have more than 220 values together, or where one output is given by
more than 80 % of 200 inputs. So the chain (`Program.hops`) has as many heads as there are layers. Heads that
the output does not depend on (distractors) arise without being drawn on purpose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from attnlib.benchmarking.programs import COPY, COUNT, LOOKUP, ONE_KEY, Program, Values, Variable
from attnlib.checks import check_seed

POPULATION = "programs-1"
"""The population's name. Scores of methods are scores on the programs of one population."""

SELECTORS = {
    "equal": 0.22,
    "set": 0.20,
    "relation": 0.14,
    "offset": 0.16,
    "mirror": 0.08,
    "fixed": 0.08,
    "pointer": 0.12,
}

LAYERS = (0.2, 0.4, 0.4)

_ATTEMPTS, _VALUES, _MOST, _PROBES = 20_000, 220, 0.8, 200
_POSITION = 1


def draw(seed: int) -> Program:
    """The program of a seed: the first accepted one of a sequence of random programs.

    Args:
        seed: a whole number from 0 on.

    Raises:
        ValueError: the seed is no such number.
    """
    check_seed(seed)
    n_layers = 1 + int(np.random.default_rng(int(seed)).choice(len(LAYERS), p=LAYERS))
    for attempt in range(_ATTEMPTS):
        program = _Drawing(int(seed), n_layers, np.random.default_rng([int(seed), attempt])).program()
        if program is not None:
            return program
    raise RuntimeError(f"no program of seed {seed} is accepted after {_ATTEMPTS} attempts")


def fingerprint(seeds: range) -> str:
    """A hash of the outputs of the programs of some seeds; it changes if the population changes."""
    digest = hashlib.sha256()
    for seed in seeds:
        program = draw(seed)
        ids = program.draw_inputs(np.random.default_rng(seed), 50)
        about = (program.causal, program.n_layers, len(program.variables), program.queries)
        digest.update(
            repr(about).encode() + np.ascontiguousarray(program.outputs(ids)).astype("<i8").tobytes()
        )
    return digest.hexdigest()[:16]


class _Drawing:
    """One attempt to draw a program: variables are added, with their values on some inputs."""

    def __init__(self, seed: int, n_layers: int, rng: np.random.Generator) -> None:
        self.rng = rng
        alphabet, length = int(rng.integers(3, 6)), int(rng.integers(8, 13))
        given = (Variable("symbol", alphabet + 1), Variable("position", length + 1))
        causal, self.n_heads = bool(rng.random() < 0.5), int(rng.integers(1, 5))
        self.made = Program(seed, alphabet, length, causal, n_layers, given)
        self.ids = self.made.draw_inputs(rng, _PROBES)
        self.values: Values = self.made.values(self.ids)

    def program(self) -> Program | None:
        """The program, or `None` if this attempt is not accepted."""
        for layer in range(self.made.n_layers):
            known = len(self.made.variables)
            for _ in range(self.n_heads):
                if not self._add(partial(self._head, layer, known)):
                    return None
            for _ in range(int(self.rng.integers(0, 3))):
                self._add(partial(self._lookup, layer))
        last = [i for i, each in enumerate(self.made.variables) if each.layer == self.made.n_layers - 1]
        looked_up = [i for i in last if self.made.variables[i].operation == LOOKUP]
        output = int(self.rng.choice(looked_up if looked_up and self.rng.random() < 0.6 else last))
        made = replace(self.made, output=output, queries=self._queries())
        return made if self._accepted(made) else None

    def _queries(self) -> tuple[int, ...]:
        """The positions of questions: the last one of a causal program, else two random ones."""
        if self.made.causal:
            return (self.made.length,)
        return tuple(int(at) for at in self.rng.choice(np.arange(1, self.made.tokens), 2, replace=False))

    def _accepted(self, made: Program) -> bool:
        if 0 not in made.used() or made.hops() < made.n_layers:
            return False
        if sum(each.size for each in made.variables) > _VALUES:
            return False
        outputs = self.values[made.output]
        return all(np.bincount(outputs[:, at]).max() <= _MOST * len(outputs) for at in made.queries)

    def _add(self, drawn: Callable[[], Variable | None], attempts: int = 20) -> bool:
        """Draw a variable until its value is neither constant nor always that of one of its arguments."""
        for _ in range(attempts):
            variable = drawn()
            if variable is None:
                return False
            value = self.made.value_of(variable, self.ids, self.values)
            own = value[:, 1:]
            same = any(np.array_equal(own, self.values[i][:, 1:]) for i in variable.arguments)
            if not same and own.min() != own.max():
                self.made = self.made.extended(variable)
                self.values.append(value)
                return True
        return False

    def _some(self, upto: int, layer: int, fits: Callable[[Variable], bool]) -> int:
        """A variable that fits, those of the layer before three times as likely; the symbol if none does."""
        known = self.made.variables[:upto]
        those = [i for i, each in enumerate(known) if fits(each)] or [0]
        weights = np.array([3.0 if 0 < layer == known[i].layer + 1 else 1.0 for i in those])
        return int(self.rng.choice(those, p=weights / weights.sum()))

    def _head(self, layer: int, known: int) -> Variable:
        rng, variables, tokens = self.rng, self.made.variables, self.made.tokens
        selector = str(rng.choice([*SELECTORS], p=[*SELECTORS.values()]))
        query = key = _POSITION
        allowed = None
        if selector in ("equal", "set", "relation"):
            query, key, relation = self._by_content(selector, layer, known)
            far = rng.random()
            if far < 0.3:
                allowed = np.tri(tokens, k=-1, dtype=bool)
            elif far < 0.5:
                allowed = ~np.eye(tokens, dtype=bool)
        elif selector == "pointer":
            query = self._some(known, layer, _no_position)
            size = variables[query].size
            relation = np.zeros((size, tokens), dtype=bool)
            start = int(rng.integers(1, tokens))
            relation[np.arange(size), 1 + (start + np.arange(size)) % (tokens - 1)] = True
        else:
            relation = self._by_position(selector)
        if selector not in ONE_KEY and rng.random() < 0.55:
            most = int(rng.choice([1, 2, 3, self.made.length]))
            return Variable(COUNT, most + 1, layer, (query, key), selector, relation, allowed)
        copied = self._some(known, layer, lambda each: _no_position(each) or rng.random() < 0.3)
        pick = "first" if rng.random() < 0.5 else "last"
        size = variables[copied].size + 1
        return Variable(COPY, size, layer, (query, key, copied), selector, relation, allowed, pick)

    def _by_content(self, selector: str, layer: int, known: int) -> tuple[int, int, np.ndarray]:
        """The variables of query and key, and the relation of their values."""
        rng, variables = self.rng, self.made.variables
        key = self._some(known, layer, _no_position)
        size = variables[key].size
        if selector == "equal":
            relation = np.eye(size, dtype=bool)
            if variables[key].operation == "symbol":
                relation[-1] = False
            return key, key, relation
        if selector == "relation":
            query = self._some(known, layer, _no_position)
            relation = np.zeros((variables[query].size, size), dtype=bool)
            relation[np.arange(len(relation)), rng.integers(size, size=len(relation))] = True
            return query, key, relation
        chosen = np.zeros(size, dtype=bool)
        chosen[rng.permutation(size)[: int(rng.integers(1, max(2, size // 2 + 1)))]] = True
        return _POSITION, key, np.tile(chosen, (self.made.tokens, 1))

    def _by_position(self, selector: str) -> np.ndarray:
        """The relation of positions: which query position selects which key position."""
        tokens, places = self.made.tokens, np.arange(self.made.tokens)
        if selector == "offset":
            to = places + int(self.rng.choice([-3, -2, -1] if self.made.causal else [-3, -2, -1, 1, 2, 3]))
        elif selector == "mirror":
            to = tokens - places
        else:
            to = np.full(tokens, int(self.rng.choice([1, 2, tokens - 1, tokens - 2])))
        relation = np.zeros((tokens, tokens), dtype=bool)
        inside = (to >= 1) & (to < tokens)
        relation[places[inside], to[inside]] = True
        return relation

    def _lookup(self, layer: int) -> Variable | None:
        """A random table of two variables, no lookups or counts of this layer; None without two of them."""
        variables = self.made.variables

        def fits(each: Variable) -> bool:
            return _no_position(each) and (each.layer < layer or each.operation == COPY)

        recent = [i for i, each in enumerate(variables) if fits(each) and each.layer >= layer - 1]
        if not recent:
            return None
        first = int(self.rng.choice(recent))
        second = self._some(
            len(variables), layer + 1, lambda each: fits(each) and each is not variables[first]
        )
        if second == first:
            return None
        sizes = variables[first].size, variables[second].size
        n = int(self.rng.integers(2, 5))
        table = self.rng.permutation(np.arange(sizes[0] * sizes[1]) % n).reshape(sizes)
        return Variable(LOOKUP, n, layer, (first, second), table=table)


def _no_position(variable: Variable) -> bool:
    return variable.operation != "position"

r"""Programs over sequences of symbols: their exact values, and which tokens an output depends on.

A program has *variables*, each with one of finitely many values at every token. The symbol and the position
are given. The other variables are computed, layer by layer, by *heads* and *lookups*:

* a head **selects** keys for each query, by a binary relation of one variable at the query and one at the
  key, and then **copies** a variable of the first or the last selected key (or "none found"), or **counts**
  the selected keys up to a maximum;
* a lookup reads a table at two variables of one token.

Token 0 is the beginning of the sequence: no head selects it, and it selects nothing.

"The tokens that an output depends on" has two exact meanings here, and they differ:

* **reads**: the tokens on the trace of the computation: those from which the selected keys, the copied
  values and the selectors' own arguments were computed;
* **causes**: the tokens at which another symbol, with the rest unchanged, changes the output.

A token that was not selected, but would have been with another symbol, may be a cause that was not read. A
token that was read is no cause if every other symbol there gives the same output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int

Ids = Int[np.ndarray, "row token"]
Values = list[Int[np.ndarray, "row token"]]

COPY, COUNT, LOOKUP = "copy", "count", "lookup"
HEADS = (COPY, COUNT)

ONE_KEY = ("offset", "mirror", "fixed", "pointer")
"""Selectors that select at most one key."""


@dataclass(frozen=True)
class Variable:
    """A variable of a program, with a value from 0 on at every token.

    Attributes:
        operation: how the variable is computed: "symbol", "position", "copy", "count" or "lookup".
        size: the number of values. The last value of a copy means that no key was selected.
        arguments: indices of variables; for a head, of the query, the key and, in a copy, the copied one.
        allowed: for a head, the keys that each query may select, by position; `None` for all.
        pick: which of several selected keys is copied: the "first" or the "last".
    """

    operation: str
    size: int
    layer: int = -1
    arguments: tuple[int, ...] = ()
    selector: str = ""
    relation: Bool[np.ndarray, "query_value key_value"] | None = None
    allowed: Bool[np.ndarray, "query key"] | None = None
    pick: str = "last"
    table: Int[np.ndarray, "first second"] | None = None

    @property
    def is_head(self) -> bool:
        """Whether an attention head computes the variable."""
        return self.operation in HEADS


@dataclass(frozen=True)
class Program:
    """A program, known by its seed and the version of the population it was drawn from.

    Attributes:
        alphabet: the number of symbols; the id `alphabet` is the start token.
        length: the number of symbols in an input, which has one token more.
        variables: symbol, position, and the others in the order in which they are computed.
        output: the index of the variable that is predicted.
        queries: the positions whose predictions the questions are about.
    """

    seed: int
    alphabet: int
    length: int
    causal: bool
    n_layers: int
    variables: tuple[Variable, ...]
    output: int = 0
    queries: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of an input, the beginning included."""
        return self.length + 1

    def heads(self, layer: int) -> list[int]:
        """The numbers of the variables that the heads of a layer compute."""
        return [i for i, each in enumerate(self.variables) if each.layer == layer and each.is_head]

    def lookups(self, layer: int) -> list[int]:
        """The numbers of the variables that a layer looks up."""
        return [
            i for i, each in enumerate(self.variables) if each.layer == layer and each.operation == LOOKUP
        ]

    def used(self) -> frozenset[int]:
        """The numbers of the variables that the output is computed from, itself included."""
        found, waiting = set[int](), [self.output]
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting += self.variables[number].arguments
        return frozenset(found)

    def hops(self) -> int:
        """The longest chain of heads from the symbols to the output."""
        depth: list[int] = []
        for each in self.variables:
            depth.append(max((depth[i] for i in each.arguments), default=0) + each.is_head)
        return depth[self.output]

    def draw_inputs(self, rng: np.random.Generator, n: int) -> Ids:
        """`n` random inputs: the start token, then symbols drawn uniformly."""
        ids = rng.integers(self.alphabet, size=(n, self.tokens))
        ids[:, 0] = self.alphabet
        return ids

    def values(self, ids: Ids) -> Values:
        """The value of every variable at every token."""
        found: Values = []
        for each in self.variables:
            found.append(self.value_of(each, ids, found))
        return found

    def outputs(self, ids: Ids) -> Int[np.ndarray, "row token"]:
        """The value of the output at every token."""
        return self.values(ids)[self.output]

    def selected(self, head: Variable, values: Values) -> Bool[np.ndarray, "row query key"]:
        """Which keys each query of a head selects."""
        assert head.relation is not None
        query, key = (values[i] for i in head.arguments[:2])
        found = head.relation[query[:, :, None], key[:, None, :]]
        found[:, :, 0] = found[:, 0] = False
        if head.allowed is not None:
            found &= head.allowed
        return found & np.tri(self.tokens, dtype=bool) if self.causal else found

    def value_of(self, variable: Variable, ids: Ids, values: Values) -> Int[np.ndarray, "row token"]:
        """The value of one variable at every token, given those of the variables before it."""
        if variable.operation == "symbol":
            return ids
        if variable.operation == "position":
            return np.broadcast_to(np.arange(self.tokens), ids.shape)
        if variable.operation == LOOKUP:
            assert variable.table is not None
            first, second = variable.arguments
            return variable.table[values[first], values[second]]
        selected = self.selected(variable, values)
        if variable.operation == COUNT:
            return np.minimum(selected.sum(-1), variable.size - 1)
        at, found = _picked(selected, variable.pick)
        copied = np.take_along_axis(values[variable.arguments[2]], at, 1)
        return np.where(found, copied, variable.size - 1)

    def reads(self, ids: Ids) -> Bool[np.ndarray, "row token source"]:
        """Which tokens the output at each token was computed from: the trace of the program.

        A head reads what its arguments were computed from: the first at the query, others at the key that it
        copies, or at all keys that it counts. A lookup reads both of its arguments.
        """
        values, rows = self.values(ids), np.arange(len(ids))[:, None]
        read: list[np.ndarray] = []
        for each in self.variables:
            if each.operation == "symbol":
                own = np.broadcast_to(np.eye(self.tokens, dtype=bool), (*ids.shape, self.tokens)).copy()
                own[:, 0] = False
                read.append(own)
            elif each.operation == "position":
                read.append(np.zeros((*ids.shape, self.tokens), dtype=bool))
            elif each.operation == LOOKUP:
                first, second = each.arguments
                read.append(read[first] | read[second])
            else:
                selected = self.selected(each, values)
                query, key, *copied = each.arguments
                if each.operation == COUNT:
                    keys = selected.astype(np.float32) @ read[key].astype(np.float32) > 0
                else:
                    at, found = _picked(selected, each.pick)
                    keys = (read[key][rows, at] | read[copied[0]][rows, at]) & found[..., None]
                read.append(read[query] | keys)
        return read[self.output]

    def causes(self, ids: Ids, query: Int[np.ndarray, " row"]) -> Bool[np.ndarray, "row token"]:
        """The tokens at which another symbol changes the output at `query`; all symbols are tried."""
        n, now = len(ids), self.outputs(ids)[np.arange(len(ids)), query]
        found = np.zeros(ids.shape, dtype=bool)
        for token in range(1, self.tokens):
            changed = np.repeat(ids, self.alphabet, 0)
            changed[:, token] = np.tile(np.arange(self.alphabet), n)
            after = self.outputs(changed)[np.arange(len(changed)), np.repeat(query, self.alphabet)]
            found[:, token] = (after.reshape(n, self.alphabet) != now[:, None]).any(1)
        return found

    def extended(self, *more: Variable) -> Program:
        """The same program with further variables."""
        return replace(self, variables=(*self.variables, *more))

    def lines(self) -> Iterator[str]:
        """The program in words, a line for each variable that the output is computed from."""
        used = self.used()
        for number, each in enumerate(self.variables):
            if number in used:
                yield f"{self.name(number)} = {self._said(each)}" + " (output)" * (number == self.output)

    def name(self, number: int) -> str:
        """The name of a variable: `symbol`, `position`, or `v` with its index."""
        operation = self.variables[number].operation
        return operation if operation in ("symbol", "position") else f"v{number}"

    def value_names(self, number: int) -> list[str]:
        """The names of a variable's values: symbols are letters, and "none" is the copy of no key."""
        variable = self.variables[number]
        if variable.operation == "symbol":
            return [*"abcdefgh"[: self.alphabet], "^"]
        if variable.operation == COPY:
            return [*self.value_names(variable.arguments[2]), "none"]
        return [str(value) for value in range(variable.size)]

    def _said(self, variable: Variable) -> str:
        names = [self.name(i) for i in variable.arguments]
        if variable.operation in ("symbol", "position"):
            return "given"
        if variable.operation == LOOKUP:
            assert variable.table is not None
            return f"table[{', '.join(names)}], {variable.table.tolist()}"
        keys = self._keys(variable, names)
        if variable.operation == COUNT:
            return f"number of {keys}, at most {variable.size - 1}"
        one = "" if variable.selector in ONE_KEY else f"the {variable.pick} of "
        return f"{names[2]} of {one}{keys}, or none"

    def _keys(self, head: Variable, names: list[str]) -> str:
        """Which keys a head selects, in words."""
        assert head.relation is not None
        query, key = names[:2]
        if head.selector in ("offset", "mirror", "fixed"):
            queries, keys = head.relation.nonzero()
            pairs = zip(queries.tolist(), keys.tolist(), strict=True)
            if head.selector == "fixed":
                return f"the key at position {keys[0]}"
            if head.selector == "mirror":
                return f"the key at position {self.tokens} minus the query's"
            away = next(at - query for query, at in pairs)
            return f"the key {abs(away)} {'before' if away < 0 else 'after'} the query"
        limit = (
            ""
            if head.allowed is None
            else " before the query"
            if not np.triu(head.allowed).any()
            else " elsewhere"
        )
        if head.selector == "equal":
            return f"keys{limit} with the query's {key}"
        if head.selector == "set":
            names = self.value_names(head.arguments[1])
            chosen = ", ".join(names[at] for at in head.relation[0].nonzero()[0] if names[at] != "^")
            return f"keys{limit} whose {key} is in {{{chosen}}}"
        asked, found = (self.value_names(number) for number in head.arguments[:2])
        pairs = zip(*head.relation.nonzero(), strict=True)
        named = ", ".join(f"{asked[value]} -> {found[at]}" for value, at in pairs if asked[value] != "^")
        where = (
            "the key at the position" if head.selector == "pointer" else f"keys{limit} whose {key} is the one"
        )
        return f"{where} that the query's {query} names ({named})"


def _picked(
    selected: Bool[np.ndarray, "row query key"], pick: str
) -> tuple[Int[np.ndarray, "row query"], Bool[np.ndarray, "row query"]]:
    """The first or the last selected key of each query, and whether there is one."""
    last = selected.shape[-1] - 1 - selected[..., ::-1].argmax(-1)
    return (selected.argmax(-1) if pick == "first" else last), np.asarray(selected.any(-1))

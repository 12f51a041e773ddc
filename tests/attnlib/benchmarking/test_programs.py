"""Programs: their values, reads and causes against an interpreter that goes token by token."""

from __future__ import annotations

import numpy as np
import pytest

from attnlib.benchmarking.population import POPULATION, draw, fingerprint
from attnlib.benchmarking.programs import COPY, COUNT, LOOKUP, Program, Variable

SEEDS = range(40)


def interpreted(program: Program, symbols: list[int]) -> tuple[list[list[int]], list[list[set[int]]]]:
    """Values and reads of all variables, computed one token and one key at a time."""
    values: list[list[int]] = []
    reads: list[list[set[int]]] = []
    for each in program.variables:
        value, read = [], []
        for query in range(program.tokens):
            if each.operation == "symbol":
                now, seen = symbols[query], {query} - {0}
            elif each.operation == "position":
                now, seen = query, set()
            elif each.operation == LOOKUP:
                a, b = each.arguments
                now, seen = each.table[values[a][query], values[b][query]], reads[a][query] | reads[b][query]
            else:
                keys = [
                    key
                    for key in range(1, (query if program.causal else program.length) + 1)
                    if query > 0
                    and each.relation[values[each.arguments[0]][query], values[each.arguments[1]][key]]
                    and (each.allowed is None or each.allowed[query, key])
                ]
                seen = set(reads[each.arguments[0]][query])
                if each.operation == COUNT:
                    now = min(len(keys), each.size - 1)
                    for key in keys:
                        seen |= reads[each.arguments[1]][key]
                elif keys:
                    key = keys[0] if each.pick == "first" else keys[-1]
                    now = values[each.arguments[2]][key]
                    seen |= reads[each.arguments[1]][key] | reads[each.arguments[2]][key]
                else:
                    now = each.size - 1
            value.append(int(now))
            read.append(seen)
        values.append(value)
        reads.append(read)
    return values, reads


@pytest.mark.parametrize("seed", SEEDS)
def test_values_reads_and_causes_are_those_of_an_interpreter(seed: int) -> None:
    program = draw(seed)
    rng = np.random.default_rng(seed)
    ids = program.draw_inputs(rng, 3)
    values, reads = program.values(ids), program.reads(ids)
    for row, symbols in enumerate(ids.tolist()):
        slow, read = interpreted(program, symbols)
        assert [each[row].tolist() for each in values] == slow
        found = [set(np.flatnonzero(reads[row, query])) for query in range(1, program.tokens)]
        assert found == read[program.output][1:]
    query = rng.integers(1, program.tokens, len(ids))
    causes = program.causes(ids, query)
    symbols, at = ids[0].tolist(), int(query[0])
    now = interpreted(program, symbols)[0][program.output][at]
    for token in range(1, program.tokens):
        others = [[*symbols[:token], other, *symbols[token + 1 :]] for other in range(program.alphabet)]
        changed = any(interpreted(program, each)[0][program.output][at] != now for each in others)
        assert causes[0, token] == changed


def test_a_population_is_pinned_by_the_values_of_its_programs() -> None:
    """Another hash is another population: give it another name, and record its scores anew."""
    assert (POPULATION, fingerprint(range(20))) == ("programs-1", "b689c60238287424")


def test_every_layer_is_used_and_no_operation_gives_back_its_argument() -> None:
    rng = np.random.default_rng(0)
    for seed in SEEDS:
        program = draw(seed)
        assert program.hops() == program.n_layers
        values = program.values(program.draw_inputs(rng, 300))
        for number, each in enumerate(program.variables):
            own = values[number][:, 1:]
            if each.is_head or each.operation == LOOKUP:
                assert own.min() != own.max()
                assert not any(np.array_equal(own, values[i][:, 1:]) for i in each.arguments)


def test_a_program_reads_in_words() -> None:
    equal = np.eye(4, dtype=bool)
    given = (Variable("symbol", 4), Variable("position", 5))
    counted = Variable(COUNT, 3, 0, (0, 0), "equal", equal, np.tri(5, k=-1, dtype=bool))
    copied = Variable(COPY, 5, 1, (2, 2, 0), "equal", np.eye(3, dtype=bool), None, "first")
    program = Program(0, 3, 4, True, 2, (*given, counted, copied), output=3, queries=(4,))
    assert [*program.lines()][-2:] == [
        "v2 = number of keys before the query with the query's symbol, at most 2",
        "v3 = symbol of the first of keys with the query's v2, or none (output)",
    ]
    assert program.hops() == 2 and program.used() == {0, 2, 3}
    assert program.value_names(3) == ["a", "b", "c", "^", "none"] and program.value_names(2) == [
        "0",
        "1",
        "2",
    ]

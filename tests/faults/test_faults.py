"""The tables of faults fit the code, what was found is of these faults, and some drawn anew are noticed."""

import ast
import random

import pandas as pd
import pytest
import yaml

from book.front.faults import BUILT, FOUND

from .building import chapters, drawn, in_order, lines_of, said_by
from .drawing import EQUIVALENT, changes
from .planting import CONTRADICTIONS, ERRED, ROOT, TABLES, Fault, copied, faults, noticed_by, planted

FAULTS = faults(*TABLES.values())


def test_every_fault_can_be_planted_and_its_tests_are_there(tmp_path) -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    copy = copied(tmp_path / "copy")
    for fault in FAULTS:
        assert fault.old != fault.new and fault.asked
        assert [each for each in fault.asked if not (ROOT / each).exists()] == [], fault.name
        with planted(fault, copy):
            assert fault.new in (copy / fault.file).read_text()
        assert (copy / fault.file).read_text() == (ROOT / fault.file).read_text()


def test_what_was_found_is_of_these_faults() -> None:
    """Of those by rule some may not have been planted yet: `make faults` goes on."""
    found = pd.read_csv(FOUND, keep_default_na=False)
    asked = set(found["fault"])
    assert found["fault"].tolist() == [fault.name for fault in FAULTS if fault.name in asked], "make faults"
    assert asked >= {fault.name for fault in faults(ERRED, CONTRADICTIONS)}, "make faults"
    of_code = found[found["kind"] != "in words"]
    assert (of_code["noticed_by"] != "").mean() > 0.95 and of_code["of_room"].mean() > 0.85


def test_what_a_build_noticed_is_of_the_first_that_were_drawn() -> None:
    found, order = pd.read_csv(BUILT, keep_default_na=False), [fault.name for fault in drawn()]
    assert found["fault"].tolist() == order[: len(found)] and len(found) >= 40, (
        "python -m tests.faults.building"
    )
    said = found["said"] != ""
    assert said.mean() > 0.25 and found["asked"][said].min() > 0
    assert set(found["chapter"]) <= {*chapters(), ""}


def test_the_statement_of_a_fault_is_found_and_its_own_chapter_asked_first() -> None:
    code = (ROOT / "book/chapters/rasp/tables.py").read_text().splitlines()
    place = next(number for number, line in enumerate(code, 1) if line.startswith("    return"))
    fault = Fault("", "book/chapters/rasp/tables.py", "\n".join(code[place - 1 : place + 1]), "", [])
    (first, *_), file = sorted(lines_of(fault)), fault.file
    assert first <= place and "return" in code[first - 1]
    run = {"quick": {file: {1}}, "arithmetic_lens": {file: {first}}, "rasp_languages": {file: {first, 1}}}
    assert in_order(fault, run) == ["rasp_languages", "arithmetic_lens"]


@pytest.mark.slow
def test_a_build_notices_a_fault_and_nothing_where_there_is_none(tmp_path) -> None:
    copy, found = copied(tmp_path / "copy"), pd.read_csv(BUILT, keep_default_na=False)
    row = found[found["said"].str.endswith("differ")].sort_values("seconds").iloc[0]
    assert said_by(row["chapter"], copy) == ""
    with planted(next(fault for fault in FAULTS if fault.name == row["fault"]), copy):
        assert said_by(row["chapter"], copy) == row["said"]


CODE = '''
def mean_of(x: list[int], n: int = 3) -> float:
    """Of 2."""
    if not x or n < 1:
        raise ValueError(1 < 2)
    return x[1:n].mean(-1, keepdim=True) + other(axis=0, device=0)
'''


def test_the_rules_change_what_computes_and_nothing_else() -> None:
    made = {(each.kind, CODE[: each.start] + each.new + CODE[each.stop :]) for each in changes(CODE)}
    for kind, old, new in [
        ("constant", "n: int = 3", "n: int = 4"),
        ("sign", "if not x", "if  x"),
        ("logic", "x or n", "x and n"),
        ("comparison", "n < 1", "n <= 1"),
        ("bound", "x[1:n]", "x[1:n + 1]"),
        ("reduction", ".mean(", ".sum("),
        ("axis", "mean(-1", "mean(-2"),
        ("axis", "axis=0", "axis=1"),
        ("argument", ", keepdim=True", ""),
        ("arithmetic", " + other", " - other"),
    ]:
        assert (kind, CODE.replace(old, new)) in made
    untouched = ('"""Of 2."""', "raise ValueError(1 < 2)", "device=0")
    assert all(each in code for _, code in made for each in untouched)
    assert all(ast.parse(code) for _, code in made)


def test_what_changes_no_number_is_not_counted_and_says_why() -> None:
    reasons = yaml.safe_load(EQUIVALENT.read_text())
    assert not reasons.keys() & {fault.name for fault in FAULTS} and all(reasons.values())


@pytest.mark.slow
def test_faults_drawn_anew_are_noticed(tmp_path) -> None:
    found = pd.read_csv(FOUND, keep_default_na=False).set_index("fault")["noticed_by"]
    known = [fault for fault in FAULTS if found.get(fault.name)]
    copy = copied(tmp_path / "copy")
    for fault in random.SystemRandom().sample(known, 5):
        assert noticed_by(fault, copy), fault

"""The table of faults fits the code, what was found is of these faults, and some drawn anew are noticed."""

import random

import pandas as pd
import pytest

from book.front.faults import FOUND

from .planting import ROOT, copied, faults, noticed_by

FAULTS = faults()


def test_every_fault_can_be_planted_and_its_tests_are_there() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert (ROOT / fault.file).read_text().count(fault.old) == 1, fault.name
        assert fault.old != fault.new and fault.tests
        assert [each for each in fault.tests if not (ROOT / each).exists()] == [], fault.name


def test_what_was_found_is_of_these_faults() -> None:
    found = pd.read_csv(FOUND, keep_default_na=False)
    assert found["fault"].tolist() == [fault.name for fault in FAULTS], "make faults"
    assert (found["noticed_by"] != "").mean() > 0.95


@pytest.mark.slow
def test_faults_drawn_anew_are_noticed(tmp_path) -> None:
    found = pd.read_csv(FOUND, keep_default_na=False).set_index("fault")["noticed_by"]
    known = [fault for fault in FAULTS if found[fault.name]]
    copy = copied(tmp_path / "copy")
    for fault in random.SystemRandom().sample(known, 5):
        assert noticed_by(fault, copy), fault

"""Several readers who run one chapter at the same moment, over one cache."""

import pytest

from tests.class_at_once import compared


@pytest.mark.slow
def test_none_is_lost_and_none_is_wrong(tmp_path):
    found = compared("classification_dynamics", 3, tmp_path, at_once=3)
    assert (found["lost"], found["wrong"], found["records"], found["half files"]) == (0, 0, "the same", 0)

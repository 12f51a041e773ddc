"""The original's log as a dot plot: the accuracy in percent, the loss as it is."""

import pandas as pd

from book.chapters.lens.tables import beside_points

INDEX = pd.Index(["token accuracy, operands too", "cross entropy, operands too"], name="metric")
LOG = pd.DataFrame({"the original's log": [0.669, 0.873], "best possible": [0.7, 0.8]}, index=INDEX)


def test_ours_and_what_is_possible_are_on_the_logs_scales():
    ours = {"here": [0.68, 0.88], "low": [0.67, 0.87], "high": [0.69, 0.89], "n": [99, 99]}
    here, possible = beside_points(LOG.assign(**ours))
    assert here["metric"].tolist() == ["token accuracy", "cross entropy"]
    assert here[["value", "low", "high"]].round(9).values.tolist() == [[68, 67, 69], [0.88, 0.87, 0.89]]
    assert possible["value"].round(9).tolist() == [70, 0.8] and set(possible["mark"]) == {"best possible"}


def test_what_was_not_run_has_no_point():
    here, possible = beside_points(LOG.assign(here="not run"))
    assert here.empty and len(possible) == 2

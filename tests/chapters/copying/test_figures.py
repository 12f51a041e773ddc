"""Figures of who learns to copy: what is drawn is what was given."""

import numpy as np
import pandas as pd

from book.chapters.copying import figures


def test_survival_goes_down_in_stairs():
    rows = pd.DataFrame({"task": "a", "step": [0, 30, 50], "value": [1, 0.5, 0], "low": 0.0, "high": 1.0})
    (axis,) = figures.survival_curves(rows).figure.axes
    assert axis.lines[0].get_drawstyle() == "steps-post"
    np.testing.assert_allclose(axis.lines[0].get_ydata(), [1, 0.5, 0])


def test_every_dose_is_a_point_with_its_name_and_both_intervals():
    points = pd.DataFrame(
        {"name": ["20", "30"], "x": [0.5, 0.9], "x_low": [0.4, 0.8], "x_high": [0.6, 1.0]}
        | {"y": [0.0, 1.0], "y_low": [0.0, 0.7], "y_high": [0.3, 1.0]}
    )
    (axis,) = figures.dose_response(points, "hint", "learned", chance=0.5).figure.axes
    assert [text.get_text() for text in axis.texts] == ["20", "30"]
    across, up = (bars.get_segments() for bars in axis.containers[0][2])
    np.testing.assert_allclose(across[1], [[0.8, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(up[0], [[0.5, 0.0], [0.5, 0.3]])

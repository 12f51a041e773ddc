"""What the README shows runs, and what it points to is there; its findings are tested with the findings."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs_and_gives_what_it_says():
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict = {}
    exec(example, names)
    shown = dict(re.findall(r"^(sort\.\w+\(.*?\))\s+# (.*)$", example, flags=re.MULTILINE))
    assert str(eval('sort.outputs("cab")', names)) == shown['sort.outputs("cab")']


def test_every_file_it_points_to_is_there():
    for target in re.findall(r"\]\(([^)#:]+)[^)]*\)|src=\"([^\"]+)\"", README):
        assert (ROOT / (target[0] or target[1])).exists(), target

"""What the README shows runs, and what it points to is there; its findings are tested with the findings."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs_and_gives_what_it_says(tmp_path, monkeypatch):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    small = example.replace("load_language_model()", 'load_language_model("tiny-random")')
    names: dict = {}
    monkeypatch.chdir(tmp_path)
    exec(small.replace("SmolLM2-135M-Instruct", "tiny-random"), names)
    assert (tmp_path / "look.html").stat().st_size > 10_000
    shown = dict(re.findall(r"^(sort\.\w+\(.*?\))\s+# (.*)$", example, flags=re.MULTILINE))
    assert str(eval('sort.outputs("cab")', names)) == shown['sort.outputs("cab")']


def test_every_file_it_points_to_is_there():
    for target in re.findall(r"\]\((?!https:)([^)#:]+)[^)]*\)|src=\"([^\"]+)\"", README):
        assert (ROOT / (target[0] or target[1])).exists(), target

"""What of a chapter's code is folded, and what its folds say."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

PATH = Path(__file__).parents[2] / "book/_ext/folding.py"
SPEC = importlib.util.spec_from_file_location("folding", PATH)
assert SPEC is not None and SPEC.loader is not None
folding = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(folding)


def cell(*tags, label=None, source="1", shows=True):
    metadata = {"tags": list(tags)} | ({"mystnb": {"code_prompt_show": label}} if label else {})
    outputs = [{"output_type": "stream", "name": "stdout", "text": source}] if shows else []
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": outputs}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], ["hide-input"]),
        (["teaches"], ["teaches"]),
        (["hide-output"], ["hide-cell"]),
        (["remove-cell"], ["remove-cell"]),
        (["parameters"], ["parameters", "hide-input"]),
    ],
)
def test_code_is_folded_but_where_it_teaches(before, after):
    assert folding.folded(cell(*before))["metadata"]["tags"] == after


@pytest.mark.parametrize(
    ("of", "shown", "hidden"),
    [
        (cell("hide-cell", label="Show the shares"), "Show the shares", "Hide the shares"),
        (cell("hide-output"), "Show the code and its output", "Hide the code and its output"),
        (cell("parameters"), "Parameters of this run", "Hide them"),
    ],
)
def test_a_fold_says_what_is_in_it(of, shown, hidden):
    labels = folding.folded(of)["metadata"]["mystnb"]
    assert (labels["code_prompt_show"], labels["code_prompt_hide"]) == (shown, hidden)


@pytest.mark.parametrize(
    ("cells", "sources"),
    [
        ([cell(source="a", shows=False), cell(source=["b\n", "c"])], ["a\n\nb\nc"]),
        ([cell("hide-output", source="a", shows=False), cell("hide-cell", source="b")], ["a\n\nb"]),
        ([cell(source=each, shows=False) for each in "abc"], ["a\n\nb\n\nc"]),
        ([cell(source="a"), cell(source="b")], ["a", "b"]),
        ([cell("parameters", source="a", shows=False), cell(source="b")], ["a", "b"]),
        ([cell(source="a", shows=False), cell("teaches", source="b")], ["a", "b"]),
        ([cell(source="a", shows=False), cell("remove-cell", source="b")], ["a", "b"]),
        ([cell(source="a", shows=False), cell("hide-input", "remove-cell", source="b")], ["a", "b"]),
    ],
)
def test_folds_one_below_the_other_are_one_and_none_swallows_what_is_shown_or_named(cells, sources):
    kept = folding.joined([folding.folded(each) for each in cells])
    assert ["".join(each["source"]) for each in kept] == sources
    assert [each["outputs"] for each in kept if each["outputs"]] == [
        each["outputs"] for each in cells if each["outputs"]
    ]


@pytest.mark.parametrize(
    ("text", "suffix", "fold", "expected"),
    [
        ("```{admonition} In one minute\n:class: one-minute\n```", ".ipynb", True, ["hide-input"]),
        ("```{admonition} In one minute\n:class: one-minute\n```", ".ipynb", False, []),
        ("How to use it", ".ipynb", True, []),
    ],
)
def test_only_chapters_are_folded_and_one_setting_unfolds_them(text, suffix, fold, expected):
    app = SimpleNamespace(
        config=SimpleNamespace(fold_code=fold), env=SimpleNamespace(doc2path=lambda name: name + suffix)
    )
    prose = {"cell_type": "markdown", "source": text, "metadata": {}}
    source = [json.dumps({"cells": [prose, cell()]})]
    folding.fold(app, "chapter", source)
    found, code = json.loads(source[0])["cells"]
    assert found == prose and code["metadata"]["tags"] == expected

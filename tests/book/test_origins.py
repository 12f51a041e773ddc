"""Numbers of a build's own run are told from recorded ones, by what they depend on."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("origins", ROOT / "book/_ext/origins.py")
assert SPEC is not None and SPEC.loader is not None
origins = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(origins)

NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))


def cell(source, *tags, glued=()):
    outputs = [{"metadata": {"scrapbook": {"name": name}}} for name in glued]
    return {"cell_type": "code", "source": source, "metadata": {"tags": list(tags)}, "outputs": outputs}


def of_this_run(*sources):
    cells = [cell("seeds: int = 3  # how many", "parameters"), cell("p = A.from_notebook(globals())")]
    told = [cell(each, glued=[str(place)]) for place, each in enumerate(sources)]
    return origins.of_this_run([*cells, *told])


@pytest.mark.parametrize(
    "source",
    [
        "tell({'a': p.right})",
        "rows = train(seeds)\ntell({'a': rows.max()})",
        "rows = []\nrows += [p.right]\ntell({'a': rows})",
        "found = {}\nfound['a'] = p.right\ntell(found)",
        "found = []\nfor row in kept:\n    found.append(p.right)\ntell(found)",
        "for row in p.rows():\n    tell({'a': row})",
        "a, b = p.two()\ntell_in_words({'b': b})",
        "def mean(x):\n    return x / seeds\ntell({'a': mean(2)})",
        "sentences.tell_accuracy(p.rows())",
    ],
)
def test_what_depends_on_a_parameter_is_of_this_run(source):
    assert of_this_run(source) == {"0"}


@pytest.mark.parametrize(
    "source",
    [
        "kept = came_with_the_book(p.notebook)\ntell({'a': kept['value'].max()})",
        "every = records(p.notebook, p.record(p.rows()))\ntell_in_words(every)",
        "rows = p.rows()\nrows = came_with_the_book('x')\ntell(rows)",
        "rows = p.rows()\ntell({'a': kept.assign(b=lambda rows: rows['n'])})",
        "rows = p.rows()\ntell({'a': [rows for rows in kept]})",
        "rows = p.rows()\nsentences.tell_recorded()",
    ],
)
def test_what_is_read_from_records_is_not(source):
    assert of_this_run(source) == set()


def test_cells_are_followed_in_their_order():
    assert of_this_run("tell({'a': b})", "b = p.right", "tell({'c': b})") == {"2"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_cell_tells_both(notebook):
    """What a cell glued has one origin: recorded numbers are told in cells of their own."""
    for each, told, _ in origins.read(json.loads(notebook.read_text())["cells"]):
        assert len(set(told)) <= 1, "".join(each["source"])


@pytest.mark.parametrize("shown, expected", [("p.rows()", {"heads-of-run"}), ("kept", set())])
def test_a_table_is_of_this_run_where_what_it_shows_is(shown, expected):
    said = json.dumps({"name": "heads-of-run", "caption": "Heads."})
    table = cell(f"plots.table({shown}).captioned('heads-of-run', 'Heads.')")
    table["outputs"] = [{"data": {origins.SAID: said}}]
    setup = cell("p = A.from_notebook(globals())\nkept = came_with_the_book(p.notebook)")
    assert origins.of_this_run([setup, table]) == expected

"""Our numbers beside a paper's: at which share of its scale they were made, and what only one side has."""

import pandas as pd
import pytest

from attnlib.plots.dot_plots import BELOW
from book.chapters.records import (
    beside_the_paper,
    counted,
    paper_figures,
    paper_grid,
    paper_verdicts,
    share_of_scale,
)
from book.chapters.records.scale import paper_scales

RASP = "Thinking Like Transformers Table 1"
HERE = pd.DataFrame({"task": ["sort", "mine"], "run": "sort, seed 0", "record": "sort-1 [no checksum]"})
HERE = HERE.assign(told="no", value=[0.9, 0.5], low=[0.8, 0.4], high=[0.95, 0.6], n=3)


@pytest.fixture
def made(monkeypatch):
    """What a record says of itself."""
    told = {"parameters": {"steps": 0, "train_samples": 20_000, "seeds": [0, 1, 2]}}
    told["training"] = {"sort, seed 0": {"steps": 2_500}}
    known = {"sort-1 [no checksum]": told}
    monkeypatch.setattr("book.chapters.records.runs.provenance_of", lambda record: known.get(record, {}))
    return told["parameters"]


def test_the_share_of_the_scale_is_ours_over_the_originals(made):
    assert share_of_scale(HERE, RASP)[0] == "steps 2.5 %, data 40 %"
    made["steps"] = 120_000
    assert share_of_scale(HERE, RASP)[0] == "steps 120 %, data 40 %", "a parameter is ahead of the default"
    table = "Approximating How Single Head Attention Learns Table 1"
    assert share_of_scale(HERE, table)[0] == "steps 3000 %, seeds 50 %", "of a list, how many there are"
    assert share_of_scale(HERE.assign(record="unknown"), RASP) == ["", ""], "what is not known is not said"


def test_tables_as_printed_and_verdicts_say_the_scale_beside_each_number(made):
    table = "Approximating How Single Head Attention Learns Table 1"
    made["steps"] = 1_000
    here = HERE.assign(task=["IMDB", "mine"], setting="ours", metric="A(alpha, beta_uf)")
    grid = paper_grid(here, table, ["A(alpha, beta_uf)"]).set_index(["task", "by"])["of its scale"]
    assert grid["IMDB", "ours"] == "steps 25 %, seeds 50 %"
    assert grid["IMDB", "original"] == "" and grid["Furd", "ours"] == "", "not run: no scale"
    both = pd.concat([here, here.assign(metric="A_hat", value=0.1, low=0.05, high=0.15)])
    verdicts = paper_verdicts(both, table, "A(alpha, beta_uf)", "A_hat").set_index("task")
    assert verdicts.loc["IMDB", "of its scale"] == "steps 25 %, seeds 50 %"
    translated = f"{table}, translation"
    in_bleu = share_of_scale(here.assign(task="multi30k"), f"{translated}, BLEU")
    assert in_bleu == share_of_scale(here.assign(task="multi30k"), translated) and in_bleu[0]


def test_every_scale_is_of_a_table_that_the_papers_have():
    scales = paper_scales()
    assert set(scales["table"]) <= set(paper_figures()["table"]) and scales["value"].gt(0).all()
    tasks = set(paper_figures()["task"].str.partition(": ")[0])
    assert set(scales["task"].dropna()) <= tasks


def test_the_papers_mark_stands_beside_ours_and_what_one_side_lacks_is_said(made):
    drawn = beside_the_paper(HERE, RASP, by="told")
    (axis,) = (each for each in drawn.figure.axes if each.get_yticklabels())
    names, notes = ([each.get_text() for each in texts] for texts in (axis.get_yticklabels(), axis.texts))
    said = dict(zip([name.strip() for name in names], notes, strict=True))
    assert said["sort"] == said["mine"] == "steps 2.5 %, data 40 %"
    assert said["reverse"] == "not run here"
    marks = {line.get_label(): line for line in axis.lines if "original" in str(line.get_label())}
    (cross,) = marks.values()
    assert list(marks) == ["the original's (unverified)"], "never without that word"
    where = dict(zip(cross.get_ydata() - BELOW, cross.get_xdata(), strict=True))
    assert where[0] == 99.96 and 1 not in where, "no figure of the paper's, no cross: and none at 0"
    assert drawn.data.query("task == 'reverse'")["value"].tolist() == [99.99]
    assert drawn.data.query("task == 'sort' and told == 'no'")["value"].tolist() == [90.0]


def test_where_nothing_was_run_the_papers_figures_stand_alone(made):
    (axis,) = (each for each in beside_the_paper(HERE.iloc[:0], RASP, by="told").figure.axes if each.lines)
    assert {each.get_text() for each in axis.texts} == {"not run here"}
    crosses = next(line for line in axis.lines if "original" in str(line.get_label()))
    assert sorted(crosses.get_xdata()) == sorted(paper_figures().query("table == @RASP")["value"])
    assert counted(HERE["n"].iloc[:0]) == "0" and counted(pd.Series([3, 1])) == "1 to 3"


def test_where_a_papers_tasks_have_no_parts_they_are_the_panels():
    here = pd.DataFrame({"task": "layer 1", "way": ["rollout", "flow"], "by": "here", "value": [0.3, 0.4]})
    here = here.assign(low=0.2, high=0.5, n=3)
    table = "Quantifying Attention Flow Table 1"
    left, right = beside_the_paper(here, table, "correlation", by="by", panel="way").figure.axes[:2]
    assert [left.get_title(), right.get_title()] == ["rollout", "flow"]
    crosses = next(line for line in left.lines if line.get_label() == "the original's")
    assert crosses.get_xdata().tolist() == [0.32, 0.38, 0.51, 0.62, 0.7, 0.71]
    assert (crosses.get_ydata() - BELOW).tolist() == list(range(6))

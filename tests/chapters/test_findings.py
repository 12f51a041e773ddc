"""What came of the claims is what the records say now, in the README too; links lead to the account."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from book.chapters.classification.recorded import PREDICTED
from book.chapters.findings.__main__ import main
from book.chapters.findings.claims import CLAIMS, findings
from book.chapters.findings.finding import (
    VERDICTS,
    Claim,
    against,
    find,
    how_many,
    judged,
    partly,
    percent,
    shown_in,
    slug,
)
from book.chapters.findings.readme import BEGIN, END, filled, table
from book.chapters.records import records, runs

ROOT = Path(__file__).parents[2]
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.fixture(autouse=True, scope="module")
def only_what_came_with_the_book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Other tests may have recorded runs of their own. The records are read once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLIB_RESULTS", str(tmp_path_factory.mktemp("none")))
        findings.cache_clear()
        yield


def claim(words: str) -> Claim:
    (found,) = (each for each in CLAIMS if words in each.words)
    return found


def test_the_readme_says_what_the_records_say() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme == filled(readme, table(findings())), "python -m book.chapters.findings --readme"
    assert len(readme.splitlines()) < 120


def test_the_command_prints_what_else_is_to_be_known(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["findings"])
    main()
    printed, readme = capsys.readouterr().out, (ROOT / "README.md").read_text()
    more = [each.outcome.more for each in findings() if each.outcome.more]
    assert more and all(each in printed and each not in readme for each in more)


@pytest.mark.parametrize("words", [each.words for each in CLAIMS])
def test_every_claim_leads_to_a_section_of_its_chapter(words: str) -> None:
    text = (ROOT / f"notebooks/text/{claim(words).chapter}.md").read_text()
    assert claim(words).section in HEADING.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_a_slug_is_that_of_markdown() -> None:
    assert slug("What an answer's digits look at, and when?") == "what-an-answers-digits-look-at-and-when"


def test_every_claim_is_judged_and_says_its_numbers() -> None:
    for each in findings():
        assert each.outcome.verdict in VERDICTS and each.outcome.verdict != "not run"
        assert re.search(r"\d", each.outcome.found) and "nan" not in each.outcome.found
        crux = each.outcome.crux
        assert crux and crux.low <= crux.value <= crux.high and ", against " in crux.of, each.claim.words


def test_without_records_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RECORDED", tmp_path)
    read_anew = findings.__wrapped__()
    assert {(each.outcome.verdict, each.outcome.found) for each in read_anew} == {("not run", "")}


def test_a_record_of_other_code_marks_what_rests_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def mark(beginning: str) -> None:
        monkeypatch.setattr(
            runs, "caveats", lambda made: "other code" if made["run"].startswith(beginning) else ""
        )

    mark("40-of-40")
    assert find(claim("learning to copy")).caveat == "other code"
    mark("sst")
    assert find(claim("in classification")).caveat == "other code"
    mark("templates-")
    assert find(claim("flow agrees")).caveat == "", "another record decides"


NEEDLE = "needle in top 5 of the facts, filtered: rollout, mean over layers"
"""The claim's rule reads what the study reads, whatever rollout's last layer does."""


BY_THE_JUDGE = "without the first R, replace, log p ranks"


@pytest.mark.parametrize(
    ("words", "metric", "change", "verdict"),
    [
        ("product of attention", NEEDLE, {"low": 0.5, "high": 0.9}, "holds"),
        ("product of attention", NEEDLE, {"low": 0.3, "high": 0.6}, "not settled"),
        ("Early layers", "claim: early layers look local", {"low": -0.01}, "not settled"),
        ("learning to copy", "learned, less permutations of 40", {"low": -0.1}, "not settled"),
        ("stays good", "good, share of second runs after a bad first", {"high": 0.9}, "in part"),
        ("the algorithm needs", "plausibility: rollout", {"value": 1.0}, "holds"),
        ("when they are masked", "faithfulness: rollout", {"value": -0.5}, "does not"),
        ("rollout agrees", "better than raw attention by", {"value": -0.2}, "does not"),
        ("With fewer", "accuracy", {"value": 0.9}, "not settled"),
        ("in classification", PREDICTED, {"low": 0.0, "high": 1.0}, "not settled"),
        ("say first", "step 50: A(beta_t, beta_uf)", {"low": 0.0}, "not settled"),
        ("which masks tokens", "tau: comprehensiveness, mask, p", {"low": 0.71}, "holds"),
        ("chosen by known answers", f"{BY_THE_JUDGE}: rollout", {"value": 2.0}, "holds"),
        ("chosen by known answers", f"{BY_THE_JUDGE}: rollout", {"value": -0.5}, "does not"),
    ],
)
def test_a_verdict_follows_the_numbers(words: str, metric: str, change: dict, verdict: str) -> None:
    rows = records(claim(words).chapter).assign(over="settings")  # the rankings as recorded
    assert judged(claim(words), rows).verdict != verdict
    for name, value in change.items():
        rows.loc[rows["metric"] == metric, name] = value
    assert judged(claim(words), rows).verdict == verdict


def test_rules_of_many_cases_and_of_one_interval() -> None:
    many = {"holds": [True, True], "in part": [True, False], "does not": [False]}
    assert all(how_many(pd.Series(cases)) == verdict for verdict, cases in many.items())
    assert shown_in(pd.Series([False])) == "not settled" and shown_in(pd.Series([True, False])) == "in part"
    one = {"holds": (0.1, 0.2), "does not": (-0.2, -0.1), "not settled": (-0.1, 0.1)}
    assert all(against(*ends) == verdict for verdict, ends in one.items())
    assert [partly(*ends) for ends in one.values()] == ["in part", "does not", "not settled"]
    (row,) = pd.DataFrame({"value": [0.964], "low": [0.91], "high": [1.02]}).itertuples()
    assert percent(row) == "96 % [91, 100]"


def test_a_readme_without_its_markers_is_refused() -> None:
    assert filled(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="once each"):
        filled(f"a {BEGIN} b", "new")

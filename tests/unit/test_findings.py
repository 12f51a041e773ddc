"""What came of the claims is what the records say now, in the README too; links lead to the account."""

import re
from pathlib import Path

import pandas as pd
import pytest

from attnlib.records import records, runs
from book.findings import CLAIMS, VERDICTS, findings
from book.findings.finding import Claim, against, find, how_many, judged, percent, slug
from book.findings.readme import BEGIN, END, filled, table

ROOT = Path(__file__).parents[2]
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def only_what_came_with_the_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may have recorded runs of their own."""
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path))
    findings.cache_clear()


def claim(words: str) -> Claim:
    (found,) = (each for each in CLAIMS if words in each.words)
    return found


def test_the_readme_says_what_the_records_say() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme == filled(readme, table(findings())), "python -m book.findings --readme"
    assert len(readme.splitlines()) < 120


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


def test_numbers_are_those_of_the_files() -> None:
    """A few, straight from the files."""

    def rows(chapter: str, **where: object) -> pd.DataFrame:
        found = pd.concat(map(pd.read_parquet, (ROOT / "results" / chapter).glob("*.parquet")))
        for name, value in where.items():
            found = found[found[name] == value]
        return found

    def said(words: str) -> str:
        outcome = find(claim(words)).outcome
        return f"{outcome.found} {outcome.more}"

    (needle,) = rows("generative_rollout", metric="needle in top 5 of the facts: rollout").itertuples()
    share = f"{100 * needle.value:.0f} % [0, {100 * needle.high:.0f}]"
    assert f"in {share} of {needle.n} items" in said("product of attention")

    learned = rows("sequence_copying", metric="learned", budget=200).set_index("task")["count"]
    assert f"{learned['permutations of 40']:.0f} of 20 models" in said("learning to copy")
    assert f"{learned['40 of 60']:.0f} of 20 to copy 40 out of 60" in said("learning to copy")

    taught = rows("algorithmic_reasoning", kind="string reversal, supervised", seeds=3.0)
    (taught,) = taught[~taught["ranges"].str.contains("OOD length 1-10")].itertuples()
    assert f"from {100 * taught.OOD:.0f} to {100 * taught.changed:.0f} %" in said("because attention is not")

    parts = rows("arithmetic_lens", run="over seeds")
    parts = parts[parts["metric"].str.startswith("claim: ")]
    assert f"{(parts['low'] > 0).sum()} of {len(parts)} parts" in said("Early layers")

    first = rows("where_attention_tells", run="all settings", metric="plausibility: AttnLRP").nlargest(1, "n")
    assert f"AttnLRP, gets {first['value'].item():.2f}" in said("the algorithm needs")


def test_without_records_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RECORDED", tmp_path)
    assert {(each.outcome.verdict, each.outcome.found) for each in findings()} == {("not run", "")}


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


NEEDLE = "needle in top 5 of the facts: rollout"


@pytest.mark.parametrize(
    ("words", "metric", "change", "verdict"),
    [
        ("product of attention", NEEDLE, {"low": 0.5, "high": 0.9}, "holds"),
        ("product of attention", NEEDLE, {"low": 0.3, "high": 0.6}, "not settled"),
        ("Early layers", "claim: early layers look local", {"low": 0.01}, "in part"),
        ("learning to copy", "learned, less permutations of 40", {"low": -0.1}, "not settled"),
        ("the algorithm needs", "plausibility: rollout", {"rank_low": 1.0}, "holds"),
        ("the model uses", "faithfulness: rollout", {"low": -0.1}, "does not"),
    ],
)
def test_a_verdict_follows_the_numbers(words: str, metric: str, change: dict, verdict: str) -> None:
    rows = records(claim(words).chapter)
    assert judged(claim(words), rows).verdict != verdict
    for name, value in change.items():
        rows.loc[rows["metric"] == metric, name] = value
    assert judged(claim(words), rows).verdict == verdict


def test_rules_of_many_cases_and_of_one_interval() -> None:
    assert [how_many(pd.Series(each)) for each in ([True, True], [True, False], [False])] == [
        "holds",
        "in part",
        "does not",
    ]
    assert [against(*each) for each in ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1))] == [
        "holds",
        "does not",
        "not settled",
    ]
    (row,) = pd.DataFrame({"value": [0.964], "low": [0.91], "high": [1.02]}).itertuples()
    assert percent(row) == "96 % [91, 100]"


def test_a_readme_without_its_markers_is_refused() -> None:
    assert filled(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="once each"):
        filled(f"a {BEGIN} b", "new")

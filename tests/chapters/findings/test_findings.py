"""What came of the claims is what the records say now, in the README too; links lead to the account."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from book.chapters.findings.__main__ import main
from book.chapters.findings.abstract import MOST, SENTENCES, abstract, copying_clause
from book.chapters.findings.claims import CLAIMS, STUDIES, findings
from book.chapters.findings.finding import NOT_RUN, VERDICTS, Finding, Number, Outcome, find, judged
from book.chapters.findings.readme import BEGIN, END, by_study, cited, filled
from book.chapters.records import runs

ROOT = Path(__file__).parents[3]
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NAMED = {each.name: each for each in CLAIMS}


@pytest.fixture(autouse=True, scope="module")
def only_what_came_with_the_book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Other tests may have recorded runs of their own. The records are read once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLIB_RESULTS", str(tmp_path_factory.mktemp("none")))
        findings.cache_clear()
        yield


def test_the_readme_and_the_citation_say_what_the_records_say() -> None:
    readme, citation = ((ROOT / name).read_text() for name in ("README.md", "CITATION.cff"))
    assert readme == filled(readme, findings()), "python -m book.chapters.findings --readme"
    assert citation == cited(citation, findings()), "python -m book.chapters.findings --readme"
    assert " ".join(yaml.safe_load(citation)["abstract"].split()) == abstract(findings())
    assert len(readme.splitlines()) < 120


def test_the_command_prints_every_claim_with_its_rule(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["findings"])
    main()
    printed = capsys.readouterr().out
    for each in findings():
        assert f"[{each.claim.words}]" in printed and f"| {each.claim.rule}" in printed
        assert each.outcome.words in printed and each.outcome.more in printed
    assert printed.count("Committed before the first run.") == sum(each.before for each in CLAIMS) == 21


@pytest.mark.parametrize("name", NAMED)
def test_every_claim_leads_to_a_section_of_its_chapter(name: str) -> None:
    text = (ROOT / f"notebooks/text/{NAMED[name].chapter}.md").read_text()
    assert NAMED[name].section in HEADING.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_every_claim_is_judged_and_says_its_number() -> None:
    verdicts = [each.outcome.verdict for each in findings()]
    assert set(verdicts) <= set(VERDICTS) and verdicts.count(NOT_RUN) <= 2
    assert sum(verdict in VERDICTS[:2] for verdict in verdicts) >= 34
    for each in findings():
        outcome = each.outcome
        assert len(outcome.result.split()) <= 15 and "nan" not in f"{outcome.words} {outcome.more}"
        if outcome.verdict != NOT_RUN:
            assert outcome.number and outcome.number.low <= outcome.number.value <= outcome.number.high


def test_without_records_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RECORDED", tmp_path)
    read_anew = findings.__wrapped__()
    of_results = [each.outcome for each in read_anew if not each.claim.rows]  # programs have theirs
    assert {(each.verdict, each.number) for each in of_results} == {(NOT_RUN, None)}
    assert "{}" not in abstract(read_anew)


def test_a_record_that_a_rule_cannot_read_names_claim_chapter_and_folder() -> None:
    def two_rows(rows: pd.DataFrame) -> Outcome:
        raise ValueError("2 rows have {'task': 'invented'}: say which is meant")

    claim = replace(CLAIMS[0], name="mine", chapter="methods", of="flow", answer=two_rows)
    with pytest.raises(ValueError, match=r"claim 'mine' of methods .* results/flow: 2 rows have"):
        judged(claim, pd.DataFrame({"value": [1.0]}))


def test_a_record_with_something_against_it_marks_what_rests_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def mark(beginning: str) -> None:
        monkeypatch.setattr(
            runs, "caveats", lambda made: "uncommitted changes" if made["run"].startswith(beginning) else ""
        )

    mark("40-of-40")
    assert find(NAMED["copying, fewer learn"]).caveat == "uncommitted changes"
    mark("sst")
    assert find(NAMED["relevance, classification"]).caveat == "uncommitted changes"
    assert find(NAMED["relevance, IMDB"]).caveat == "", "another record decides"


@pytest.mark.parametrize("name", SENTENCES)
@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_abstract_says_of_every_verdict_what_it_is(name: str, verdict: str) -> None:
    moved = [
        Finding(each.claim, each.outcome._replace(verdict=verdict)) if each.claim.name == name else each
        for each in findings()
    ]
    said = abstract(moved)
    assert SENTENCES[name][verdict].partition("{}")[0] in said and "{}" not in said
    assert len({*SENTENCES[name].values()}) == len(VERDICTS) == len(SENTENCES[name])


@pytest.mark.parametrize(
    ("failing", "who"),
    [
        (0.0, "all 10 can"),
        (0.2, "most can"),
        (0.8, "most cannot"),
        (1.0, "none of 10 can"),
    ],
)
def test_the_abstract_says_how_many_models_can_copy(failing: float, who: str) -> None:
    number = Number(failing, 0.0, 1.0, 10, "seeds", 0.5, "%")
    assert copying_clause(number) == f"{who} (failures: {number.short})"


def test_the_abstract_is_short() -> None:
    assert len(abstract(findings()).split()) <= MOST


def test_the_table_of_studies_counts_their_verdicts() -> None:
    claims = [NAMED["rollout, needle"], NAMED["rollout, names"], NAMED["copying, the hint"]]
    made = [Finding(claim, Outcome(verdict)) for claim, verdict in zip(claims, VERDICTS, strict=False)]
    first, second = by_study(made).splitlines()[2:]
    assert first.startswith(f"| {STUDIES['rollout']} | 1 | 1 | 0 | 0 | [generative rollout]")
    assert second.startswith(f"| {STUDIES['snell2021approximating']} | 0 | 0 | 1 | 0 | [sequence copying]")


def test_a_file_without_its_markers_is_refused() -> None:
    text = filled(f"a\n{BEGIN}\nwhat was\n{END}\nb", findings())
    assert text.startswith(f"a\n{BEGIN}\n- ") and text.endswith(f"|\n{END}\nb") and "what was" not in text
    with pytest.raises(ValueError, match="once each"):
        filled(f"a {BEGIN} b", findings())
    citation = cited("a: b\nabstract: >-\n  what\n  was\nc: d\n", findings())
    assert (
        yaml.safe_load(citation).keys() == {"a", "abstract", "c"}
        and "what" not in yaml.safe_load(citation)["abstract"][:9]
    )
    with pytest.raises(ValueError, match="once"):
        cited("a: b\n", findings())

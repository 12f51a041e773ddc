"""Every claim's rule reaches every verdict, each by records that support, refute or leave it open."""

import pytest

from book.chapters.findings.claims import CLAIMS, STUDIES
from book.chapters.findings.finding import NOT_RUN, VERDICTS, Claim, judged
from tests.chapters.findings.made_up import CASES

each_claim = pytest.mark.parametrize("claim", CLAIMS, ids=[each.name for each in CLAIMS])


@each_claim
def test_its_rule_says_yes_no_and_open(claim: Claim) -> None:
    found = {verdict: judged(claim, rows) for verdict, rows in CASES[claim.name].items()}
    assert {verdict: outcome.verdict for verdict, outcome in found.items()} == {
        verdict: verdict for verdict in found
    }
    assert [*found] == list(VERDICTS[:3])
    for outcome in found.values():
        assert outcome.number and len(outcome.result.split()) <= 15
        assert outcome.number.low <= outcome.number.value <= outcome.number.high


@each_claim
def test_without_what_it_is_about_it_is_not_run(claim: Claim) -> None:
    rows = CASES[claim.name].support
    assert judged(claim, rows[:0]).verdict == NOT_RUN
    assert judged(claim, rows.assign(metric="another")).verdict == NOT_RUN


@each_claim
def test_it_is_one_sentence_scoped_in_few_words(claim: Claim) -> None:
    assert len(claim.words.split()) <= 20 and claim.words.count(". ") == 0 and claim.words.endswith(".")
    assert claim.rule.endswith(".") and claim.study in STUDIES


def test_no_two_claims_share_a_name_or_a_sentence() -> None:
    assert len({each.name for each in CLAIMS}) == len({each.words for each in CLAIMS}) == len(CLAIMS)
    assert set(CASES) == {each.name for each in CLAIMS}

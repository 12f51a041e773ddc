"""A quantity that several pages or claims speak of has one value, or the text says what differs."""

import re
from pathlib import Path

import pytest

import attnlib
from attnlib.attribution import METHODS
from book.chapters.attribution_benchmark.settings import FURTHER
from book.chapters.faithfulness_metrics.figures import kept
from book.chapters.faithfulness_metrics.predictions import TODAY
from book.chapters.findings.claims import CLAIMS
from book.chapters.findings.finding import NOT_REPRODUCED, REPRODUCED, find
from book.chapters.flow import sentences, tables
from book.chapters.flow.claims import CORPORA
from book.chapters.flow.measures import FLOW, ROLLOUT
from book.chapters.records import came_with_the_book

ROOT = Path(__file__).parents[2]
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [
        ROOT / "README.md",
        ROOT / "index.md",
        *(ROOT / "book").glob("*.md"),
        *(ROOT / "notebooks/text").glob("*.md"),
    ]
} | {"attnlib": attnlib.__doc__ or ""}
NAMED = {each.name: each for each in CLAIMS}


def test_all_texts_have_as_many_attribution_methods() -> None:
    counted = r"\b(\d+|\w+ dozen)(?: of them)? (?:attribution )?(?:methods|measures)\b"
    found = {(name, number) for name, text in TEXTS.items() for number in re.findall(counted, text)}
    assert {name for name, _ in found} >= {"README.md", "book/think.md", "attnlib"}
    assert {number for _, number in found} == {str(len(METHODS))}, found


@pytest.mark.parametrize("way", [ROLLOUT, FLOW])
def test_a_page_counts_the_corpora_that_claims_do(way: str) -> None:
    recorded = tables.recorded(came_with_the_book("quantifying_flow"))
    told = sentences.corpora_ahead(recorded)
    verdicts = {
        data: find(NAMED[f"{way} and occlusion, {words}"]).outcome.verdict for data, words in CORPORA.items()
    }
    for verdict, counted, said in ((REPRODUCED, "above", "better"), (NOT_REPRODUCED, "below", "less")):
        of_verdict = [data for data, each in verdicts.items() if each == verdict]
        assert told[f"over seeds: {way}, corpora {counted}"] == len(of_verdict)
        names = re.findall(
            rf"{said} than raw attention does on (.*?)(?: and agrees|;|$)", told[f"{way} is ahead"]
        )
        assert {*filter(None, " and on ".join(names).split(" and on "))} == {
            sentences.CORPORA[data] for data in of_verdict
        }


CONFIRMED = re.compile(r'f"([^"]+)": one_number\([^()]*settings="confirmed on"\)')
APART = re.compile(r"confirmation|did not (?:choose|select)|not (?:chosen|selected)")


@pytest.mark.parametrize("page", ["faithfulness_metrics", "attribution_benchmark"])
def test_a_tau_of_some_settings_says_of_which(page: str) -> None:
    """Claims are of all settings, where the standard metric has another tau than in those that confirm."""
    text = TEXTS[f"notebooks/text/{page}.md"]
    code = text + "".join(path.read_text() for path in ROOT.glob(f"book/chapters/{page}/sentences.py"))
    names = [re.sub(r"\\\{\w+\\\}", "[^`:]+?", re.escape(name)) for name in CONFIRMED.findall(code)]
    told = [
        line
        for line in text.splitlines()
        if any(re.search(f"glue:text}}`{name}(?:, in full)?`", line) for name in names)
    ]
    assert told
    for line in told:
        assert APART.search(line), line


def test_the_claim_is_of_all_settings() -> None:
    number = find(NAMED["standard metric, the same order"]).outcome.number
    halves = kept().halves.query("judge == 'usual'").set_index("settings")
    taus = kept().by_setting_of("tau")
    further = taus.loc[taus["setting"].isin(FURTHER) & taus["protocol"].eq(TODAY), "value"]
    total = (halves["value"] * halves["n"]).sum() + further.sum()
    assert number is not None and number.n == halves["n"].sum() + len(FURTHER)
    assert number.value == pytest.approx(total / number.n)

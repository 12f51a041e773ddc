"""What the first page and the gallery are filled with when the book is made."""

import re
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attnlib.models.stored import stored_model
from book.chapters.findings.claims import CLAIMS, findings
from book.chapters.findings.finding import Claim, Finding, Outcome
from book.chapters.readings import reading
from book.front import PARTS
from book.front.explorer import SUMS, explorer
from book.front.findings import HEADING, line
from book.front.gallery import gallery, places
from book.front.summary import summary
from book.front.verdicts import verdicts
from book.pipeline.stage import PART, made

ROOT = Path(__file__).parents[2]


def test_every_comment_of_a_page_names_a_part_that_is_made() -> None:
    pages = [ROOT / "index.md", *(ROOT / "book").glob("*.md")]
    comments = [each for page in pages for each in re.findall(r"^% (.+)$", page.read_text(), re.MULTILINE)]
    assert set(PARTS) <= set(comments) <= {*PARTS, "records", "reproduced", "times"}
    assert [each for page in pages for each in PART.findall(page.read_text())] == comments


def test_a_part_is_put_where_its_comment_is_and_a_comment_of_another_kind_stays(tmp_path: Path) -> None:
    of_the_build = {"times": lambda: "a table of times"}
    text = PART.sub(
        lambda part: made(part, of_the_build, tmp_path), "% times\n\n% tally\n\n% to be said\n% a, b\n"
    )
    times, tally, comment, other = (line for line in text.split("\n") if line)
    assert times == "a table of times" and tally in PARTS["tally"](tmp_path)
    assert (comment, other) == ("% to be said", "% a, b")


def test_the_tally_leads_to_the_claims() -> None:
    assert f"## {HEADING}\n" in (ROOT / "index.md").read_text()


def test_a_finding_shows_its_verdict_its_account_and_what_is_to_be_said_against_it() -> None:
    holds = Outcome("holds", "")
    claim = Claim("all", "Heads matter.", "arithmetic_lens", "What each head is for", lambda rows: holds)
    shown = line(Finding(claim, Outcome("not settled", "0.1 [-0.2, 0.4]", "More."), "other code"))
    assert "{container} finding not-settled\n" in shown and ">not settled</span>" in shown
    assert "[Heads matter.](/notebooks/arithmetic_lens.ipynb#what-each-head-is-for)" in shown
    assert "\n0.1 [-0.2, 0.4] (other code)\n" in shown and "More" not in shown


def test_the_chart_has_every_claim_with_its_verdict_and_says_when_nothing_was_run(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path))
    findings.cache_clear()
    page = verdicts(tmp_path)
    assert "{figure} /book/_front/verdicts.svg" in page and "\n:alt: Points with intervals" in page
    rows = pd.read_csv(tmp_path / "book/_front/verdicts.csv", dtype={"verdict": str})
    points = rows[rows["verdict"].notna()]
    assert len(points) == len(CLAIMS) == len(rows) - len(points)
    judged = {each.claim.words: each.outcome for each in findings()}
    for row in points.to_dict("records"):
        outcome = judged[row["claim"].replace("\n", " ")]
        assert (row["verdict"], row["of"]) == (outcome.verdict, outcome.crux.of)
        np.testing.assert_allclose([row["value"], row["low"], row["high"]], outcome.crux[1:4])
    monkeypatch.setattr("book.chapters.records.runs.RECORDED", tmp_path)
    findings.cache_clear()
    assert verdicts(tmp_path).startswith("*Not run yet*")
    findings.cache_clear()


def test_the_explorer_opens_on_the_head_that_looks_most_at_the_reference(tmp_path: Path) -> None:
    assert ":file: book/_front/explorer.html" in explorer(tmp_path)
    page = (tmp_path / "book/_front/explorer.html").read_text()
    adds = stored_model("arithmetic_lens", "addition, seed 0")
    read = reading(adds.model, adds.task.tokenizer, adds.task.annotate(f"{SUMS[0]}="))
    opened = {name: int(re.findall(rf'"{name}": ?(\d+)', page)[-1]) for name in ("layer", "head", "query")}
    rows = read["references"].any(-1)
    shares = (read["attentions"] * read["references"]).sum(-1)[..., rows].mean(-1)
    assert divmod(int(shares.argmax()), shares.shape[1]) == (opened["layer"], opened["head"])
    assert rows[opened["query"]]


def test_the_summary_is_drawn_and_says_when_nothing_was_run(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path))
    assert "{figure} /book/_front/summary.svg" in summary(tmp_path)
    assert (tmp_path / "book/_front/summary.svg").exists()
    monkeypatch.setattr("book.chapters.records.runs.RECORDED", tmp_path)
    assert summary(tmp_path).startswith("*Not run yet*")


def test_the_gallery_finds_every_explorer_that_a_page_shows(tmp_path: Path) -> None:
    cells = [
        new_markdown_cell("(label)=\n# Adding"),
        new_markdown_cell("Words.\n\n## Every head, now"),
        new_code_cell("from attnlib.widgets import ModelExplorer\nshown = ModelExplorer(\n    {})"),
        new_markdown_cell("## Out of sight"),
        new_code_cell("AttentionExplorer.from_examples({})", metadata={"tags": ["remove-cell"]}),
        new_code_cell("p.ModelExplorer(1)"),
    ]
    (tmp_path / "notebooks").mkdir()
    nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks/adding.ipynb")
    toc = {"root": "index", "chapters": [{"file": "notebooks/adding"}, {"file": "notebooks/not_there"}]}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(toc))
    (place,) = places(tmp_path, "notebooks/adding")
    assert place == ("ModelExplorer", "notebooks/adding", "Adding", "Every head, now")
    shown = gallery(tmp_path)
    assert "{grid-item-card} Model explorer\nA model that runs in the page: type, and see" in shown
    assert "- [Every head, now](/notebooks/adding.ipynb#every-head-now), in *Adding*" in shown
    assert shown.count("grid-item-card") == 1

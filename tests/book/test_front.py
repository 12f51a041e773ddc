"""What the first page and the gallery are filled with when the book is made."""

import re
from pathlib import Path

import nbformat
import numpy as np
import yaml
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_notebook, new_output

from attnlib.models.stored import stored_model
from attnlib.stats import with_interval
from attnlib.widgets import AttentionExplorer, MeasureExplorer
from book.chapters.attribution_benchmark.claims import MARGIN
from book.chapters.attribution_benchmark.measures import ASKED
from book.chapters.display import display_name
from book.chapters.findings.claims import CLAIMS, findings
from book.chapters.findings.finding import Claim, Finding, Number, Outcome
from book.chapters.generative.figures import TRIALS
from book.chapters.readings import reading
from book.front import PARTS
from book.front.cards import CARDS, cards
from book.front.explorer import SUMS, explorer
from book.front.findings import listed, row
from book.front.gallery import TOLD, gallery
from book.front.needle import RECORD, needle, needle_question, ordinal
from book.front.using import RECOMMENDED, measured, using
from book.pipeline.stage import PART, made
from book.sealing import read_sealed

ROOT = Path(__file__).parents[2]


def test_every_comment_of_a_page_names_a_part_that_is_made() -> None:
    pages = [ROOT / "index.md", *(ROOT / "book").glob("*.md")]
    comments = [each for page in pages for each in re.findall(r"^% (.+)$", page.read_text(), re.MULTILINE)]
    assert set(PARTS) <= set(comments) <= {*PARTS, "records", "reproduced", "times"}
    assert [each for page in pages for each in PART.findall(page.read_text())] == comments


def test_a_part_is_put_where_its_comment_is_and_a_comment_of_another_kind_stays(tmp_path: Path) -> None:
    of_the_build = {"times": lambda: "a table of times"}
    text = PART.sub(
        lambda part: made(tmp_path / "index.md", of_the_build, tmp_path, part),
        "% times\n\n% tally\n\n% to be said\n% a, b\n",
    )
    times, tally, comment, other = (line for line in text.split("\n") if line)
    assert times == "a table of times" and tally in PARTS["tally"](tmp_path)
    assert (comment, other) == ("% to be said", "% a, b")


def test_the_needle_is_the_prompt_of_the_page_and_its_ranks_are_counted(tmp_path: Path) -> None:
    kept = read_sealed(RECORD)
    assert kept["prompt"] == "".join(kept["tokens"]).rstrip() == TRIALS[0].text
    assert "".join(kept["tokens"][place] for place in kept["fact"]) == kept["answer"]
    ranks = {}
    for name, scores in kept["scores"].items():
        best = max(scores[place] for place in kept["fact"])
        ranks[name] = 1 + sum(score >= best for k, score in enumerate(scores) if k not in kept["fact"])
    assert ranks["rollout"] > 20 and ranks["occlusion"] == ranks["AttnLRP"] == 1
    page = needle(tmp_path)
    assert (
        f"Rollout ranks the best token of the right code {ordinal(ranks['rollout'])} of {len(scores)}" in page
    )
    assert "Occlusion and AttnLRP, a third method, rank it 1st" in page and "#try-your-own-prompt)" in page
    halves = BeautifulSoup(page, "html.parser").select(".prompt")
    written = f"{kept['prompt']} {kept['answer']}"
    assert [half.get_text().replace("\xa0", " ") for half in halves] == [written] * 2
    assert [half.mark.get_text() for half in halves] == [kept["answer"]] * 2
    darkest = [max(half.select("span"), key=lambda span: int(span["style"][9:-1])) for half in halves]
    assert darkest[0] is halves[0].span and darkest[1].parent.name == "mark"
    assert [*map(ordinal, (1, 2, 3, 4, 11, 21, 112))] == ["1st", "2nd", "3rd", "4th", "11th", "21st", "112th"]


def test_the_needle_is_a_question_for_the_explorer_of_methods() -> None:
    explorer = MeasureExplorer(needle_question(), item=0, first="rollout", second="AttnLRP")
    (item,) = explorer.items
    assert item["predicted"] == "".join(item["tokens"][place] for place in item["truth"])
    assert min(item["found"]["rollout"]) > 40 and min(item["found"]["AttnLRP"]) == 1
    assert [*explorer.names] == [*map(display_name, ASKED)]


def test_each_card_has_a_picture_and_a_number_of_the_records(tmp_path: Path, monkeypatch) -> None:
    found = {each.claim.name: each.outcome for each in findings()}
    page = cards(tmp_path)
    shown = [each.get_text() for each in BeautifulSoup(page, "html.parser").select(".front-number")]
    assert len(shown) == len(CARDS) == page.count("<svg") == page.count("](/")
    assert page.count("](/book/slider.md)") == 1
    assert shown[0] == f"{100 * found['rollout, needle'].number.value:.0f} %"
    before, after = map(float, re.findall(r"\d+", shown[1]))
    back = found["cause, reversal, language model"].number
    assert after - before > 100 * back.low and after > 95
    assert re.fullmatch(r"58 \+ 67 = (?!125)\d+", shown[2])
    assert shown[3] == f"τ = {found['standard metric, the same order'].number.value:.2f}"
    counts = re.findall(r"\d+ of \d+", found["copying, fewer learn"].result)
    assert shown[4] == counts[0] and f"{counts[1]} do" in " ".join(page.split())
    assert re.fullmatch(r"\d+(st|nd|rd|th) → \d+(st|nd|rd|th)", shown[5])
    monkeypatch.setattr("book.chapters.records.runs.RECORDED", tmp_path)
    findings.cache_clear()
    assert cards(tmp_path).startswith("*Not run yet*") and using(tmp_path).startswith("*Not run yet*")
    findings.cache_clear()


def test_no_method_of_its_cost_is_far_ahead_of_one_that_is_to_be_used(tmp_path: Path) -> None:
    found, page = measured(), using(tmp_path)
    costs = dict(zip(RECOMMENDED, (1.0, 4.0, float("inf"), float("inf")), strict=True))
    for afford, name in RECOMMENDED.items():
        within = found[found["cost", "passes"] <= costs[afford]]
        assert found.loc[name, ("cost", "passes")] <= costs[afford]
        for by in ("needs", "uses"):
            best = within[by]["value"].max()
            assert found.loc[name, (by, "value")] > best - MARGIN
            assert f"| {with_interval(found.loc[name, by].to_dict())} |" in page


def test_a_claim_shows_both_numbers_its_verdict_and_what_is_to_be_said_against_it() -> None:
    about = (
        "all",
        "heads",
        "Heads matter.",
        "arithmetic_lens",
        "What each head is for",
        'Above 0, by "half".',
    )
    claim = Claim(*about, lambda rows: Outcome("not run"))
    number = Number(0.1, -0.2, 0.4, 3, "seeds", 0)
    outcome = Outcome("not reproduced", "Ahead by", number, "weaker than published", "More.", "0.5")
    link, paper, ours, verdict = row(Finding(claim, outcome, "uncommitted changes")).strip("| ").split(" | ")
    assert link == "[Heads matter.](/notebooks/arithmetic_lens.ipynb#what-each-head-is-for)"
    assert (paper, ours) == ("0.5", "Ahead by: **0.10 [-0.20, 0.40]**")
    assert 'class="verdict not-reproduced" title="Above 0, by &quot;half&quot;."' in verdict
    assert verdict.endswith("<br>weaker than published<br>uncommitted changes")


def test_the_table_has_every_claim_and_the_studys_number_where_it_gives_one(tmp_path: Path) -> None:
    page = listed(tmp_path)
    assert [page.index(f"[{claim.words}](") for claim in CLAIMS] == sorted(
        page.index(f"[{claim.words}](") for claim in CLAIMS
    )
    assert page.count("<details") == len({claim.study for claim in CLAIMS}) and page.count(" open>") == 1
    papers = {each.claim.name: each.outcome.paper for each in findings() if each.outcome.paper}
    assert papers["relevance, IMDB"] == "53 %" and papers["second head of hist"] == "+8.0 points (unverified)"
    assert len(papers) >= 11 and all(f"| {paper} |" in page for paper in papers.values())


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


def test_the_gallery_shows_every_explorer_of_a_page_and_links_to_it(tmp_path: Path) -> None:
    weights = np.zeros((1, 2, 3, 3))
    weights[0, 1, 2, 0] = 1
    maps = AttentionExplorer(list("abc"), weights, title="a <map>", head=1)
    scores = {"rollout": np.array([0.0, 0, 4, 0]), "occlusion": np.array([0.0, 2, -1, 0])}
    asked = {"a question": {"tokens": list("abcd"), "scores": scores, "query": 3}}
    shown = [maps, MeasureExplorer(asked, first="rollout", second="occlusion")]
    cells = [
        new_code_cell("maps", outputs=[new_output("display_data", data={"text/html": each.to_html()})])
        for each in [*shown, *shown]
    ]
    cells[2].metadata["tags"] = ["remove-cell"]
    (tmp_path / "notebooks").mkdir()
    nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks/methods.ipynb")
    (tmp_path / "_toc.yml").write_text("root: index\nchapters: [{file: notebooks/methods}]\n")
    page = gallery(tmp_path)
    links = re.findall(r"^\[(.+)\]\((.+)\)$", page, re.MULTILINE)
    assert [address for _, address in links] == [
        "/index.md#explorer=0",
        *(f"/notebooks/methods.ipynb#explorer={k}" for k in range(3)),
    ]
    (said,) = yaml.safe_load(TOLD.read_text())["pages"]["notebooks/methods"]
    assert links[1][0] == said["name"] and said["seen"] in page and links[2][0] == "An explorer"
    pictures = BeautifulSoup(page, "html.parser").find_all("svg")
    assert pictures[0].text.strip() == SUMS[0]
    assert [path["d"] for path in pictures[1].find_all("path")] == ["M0 2h1v1h-1z"]
    full = pictures[2].find("path", opacity="1")
    assert full["d"] == "M2 0h1v1h-1zM1 1h1v1h-1z" and pictures[2]["viewbox"] == "0 0 4 2"


def test_the_gallery_names_every_explorer_of_the_book() -> None:
    """One that is added to a chapter needs a name and a sentence there."""
    told = yaml.safe_load(TOLD.read_text())
    calls = re.compile(r"^ *(?:\w+ = )?\w+Explorer[.(]", re.MULTILINE)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        seen = [cell for cell in cells if "remove-cell" not in cell.metadata.get("tags", [])]
        made = sum(len(calls.findall(cell.source)) for cell in seen if cell.cell_type == "code")
        assert len(told["pages"].get(f"notebooks/{path.stem}", [])) == made, path.stem
    assert {each["page"] for each in told["findings"]} <= set(told["pages"])

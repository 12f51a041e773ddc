"""The numbers of the paper's draft are those of the records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.metrics import published_metrics
from attnlib.benchmarking.scoring import COMPARED, differences
from book.chapters.programs import predictions, tables

TEXT = (Path(__file__).parents[3] / "paper/random_programs.md").read_text()


def words(number, digits: int = 2) -> str:
    """As the paper writes a number with its interval."""
    value, low, high = (f"{getattr(number, name):.{digits}f}" for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    rows, agreement, trained = tables.confirming(), published_metrics(), tables.trained()
    answers = [
        answer for _, answer in predictions.answered(compiled=rows, metrics=agreement, trained=trained)
    ]
    plain = rows[rows["sign"] == "as given"]
    pairs = differences(plain)
    significant = pairs[pairs["p_holm"] < 0.05].groupby("truth").size()
    firsts = tables.by_truth(rows).query("rank == 1").set_index("truth")
    raw, mean, _, _, absolute, counting, rotated, _, replaced, by_reads, log_p, order, *_ = answers
    both = tables.beside_trained(trained, rows, tables.trained(tables.PLAIN))
    reads = both[both["truth"] == "reads"].set_index(["weights", "method"])["value"]
    few = tables.pairs_over_settings()
    size = predictions.TWICE.answer(tables.trained(tables.TWICE_THE_SIZE), trained)
    assert size.verdict == "reproduced"
    alike = tables.orders(tables.populations(trained, rows))
    model = alike[alike["and"] == "a language model"].set_index("population")
    assert set(trained["seed"]) <= set(tables.TRIED)
    assert few[0] == 0
    best = both[both["weights"] == "trained"].sort_values("value").groupby("truth")["method"].last()
    assert set(best) == {"rollout of value-weighted attention"}
    verdicts = [answer.verdict for answer in answers]
    counts = {name: verdicts.count(name) for name in ("reproduced", "not reproduced", "inconclusive")}
    assert counts == {"reproduced": 9, "not reproduced": 2, "inconclusive": 3} and len(METHODS) == 27
    return {
        "programs": f"Over {rows['seed'].nunique()} programs, {significant['reads']} of 253 pairs",
        "causes": f"significantly by reads and {significant['causes']} by causes",
        "settings": f"over {few[2]} settings that were chosen by hand, none of {few[1]} does",
        "order": f"between the two orders is {words(order)} by causes",
        "first by reads": f"{firsts.loc['reads', 'method']} is first with {words(firsts.loc['reads'])}",
        "first by causes": f"{firsts.loc['causes', 'method']} is first with {words(firsts.loc['causes'])}",
        "rollout": f"its lead by reads is {words(raw)}",
        "mean": f"over the mean attention the lead is {words(mean)}",
        "counting": f"is {-counting.value:.2f} lower on programs that count",
        "counting, interval": f"than on others [{counting.low:.2f}, {counting.high:.2f}]",
        "sign": f"gradient × embedding by {words(absolute)} by reads",
        "basis": f"ALTI is {-rotated.value:.2f} lower where the residual stream is rotated "
        f"[{rotated.low:.2f}, {rotated.high:.2f}]",
        "metrics": f"Over {agreement['seed'].nunique()} programs, replacing the first token",
        "replaced": f"by {words(replaced)} of tau",
        "by reads": f"By reads it does not: {words(by_reads)}",
        "log p": f"worse, by {words(log_p)}",
        "orders": f"Tau is {words(order)} by causes and "
        f"{words(predictions.same_order(trained, rows, 'reads'))} by reads",
        "trained": f"Rollout has {reads['trained', 'rollout']:.2f} by reads there, and "
        f"{reads['compiled', 'rollout']:.2f} in compiled",
        "twice the size": f"between the orders of the two sizes is {words(size)} by causes, "
        f"over the {size.n} programs",
        "a language model": f"compiled programs by causes is {words(model.loc['compiled programs'])}, and "
        f"that of trained programs {words(model.loc['trained programs'])}",
        "gradient": f"falls from {reads['compiled', 'gradient x embedding']:.2f} to "
        f"{reads['trained', 'gradient x embedding']:.2f}",
        "plain": f"rollout in compiled transformers has {reads['compiled, plain', 'rollout']:.2f}",
        "learned": f"For {len(tables.TRIED)} programs a transformer",
        "of them": f"It learned {trained['seed'].nunique()} of them",
        "recorded": f"beside the {len(COMPARED)} that are recorded",
    }


def test_every_number_is_that_of_the_records(found) -> None:
    missing = {name: part for name, part in found.items() if part.lower() not in TEXT.lower()}
    assert missing == {}


def test_no_interval_is_left_untested(found) -> None:
    tested = " ".join(found.values())
    assert [each for each in re.findall(r"\[-?\d[^\]]*\]", TEXT) if each not in tested] == []

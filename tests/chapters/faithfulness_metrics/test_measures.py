"""How metrics are judged: on numbers whose answers are known, and on a program."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from book.chapters.attribution_benchmark.settings import FURTHER, were_told
from book.chapters.faithfulness_metrics import tables
from book.chapters.faithfulness_metrics.claims import (
    ranks_as_the_known_answers,
    truth_comes_first,
)
from book.chapters.faithfulness_metrics.faithfulness_metrics import without_sign
from book.chapters.faithfulness_metrics.measures import (
    BESIDE,
    COMPLETED,
    PLAUSIBILITY,
    PROTOCOLS,
    RUNGS,
    Rated,
    agreement,
    called,
    completed,
    measures_by,
    over_settings,
    rate,
)
from book.chapters.faithfulness_metrics.predictions import (
    CHOOSING,
    CONFIRMING,
    EXPECTED,
    GROUPS,
    RECORDED_CHOICE,
    RECORDED_SETTINGS,
    TODAY,
    chosen,
    halves,
    prediction_table,
)
from book.chapters.faithfulness_metrics.tables import (
    AS_EVER,
    FREE,
    GAINED,
    HIDDEN,
    KNOWN,
    ROLLOUT,
    SIGN,
    UNTOLD,
    ahead_of_usual,
    beside_the_first,
    by_setting,
    called_as,
    decision_table,
    each_once,
    named_metrics,
    of_record,
    ranked,
    recorded,
    retrained_table,
    same_as_a_metric,
    sign_table,
    widest,
    works,
)
from book.chapters.records import came_with_the_book
from book.chapters.refusals import ParameterError
from tests.chapters.findings.made_up import CASES
from tests.parameters import smallest

MEASURES = ("a", "b", "c", "d", *BESIDE)


chapter = partial(smallest, "faithfulness_metrics")


def made_up(setting, completed=1.0, **protocols):
    """A model whose numbers are the same for each of ten questions."""
    rungs = [1.0, 0.8, 0.6, 0.4, 0.2, 0.0, completed]
    known = {PLAUSIBILITY: [0.9, 0.5, 0.5, 0.1], **protocols}
    return Rated(
        setting, 0, MEASURES, {name: np.tile([*each, *rungs], (10, 1)) for name, each in known.items()}
    )


def test_agreement_is_kendalls_tau_and_somers_d():
    found = agreement([made_up("s", mine=[0.7, 0.6, 0.2, 0.3], none=[0.1, 0.1, 0.1, 0.1])]).set_index(
        "protocol"
    )
    known = [0.9, 0.5, 0.5, 0.1]
    assert found.loc["mine", "tau"] == pytest.approx(stats.kendalltau(known, [0.7, 0.6, 0.2, 0.3]).statistic)
    assert found.loc["mine", "somers"] == pytest.approx(stats.somersd(known, [0.7, 0.6, 0.2, 0.3]).statistic)
    assert found.loc["none", ["tau", "somers"]].tolist() == [0, 0]  # a metric that tells nothing apart
    assert found.loc["mine", "ladder"] == 1 and found.loc["mine", "above"] == 0
    assert found.loc["mine", "halves"] == pytest.approx(1) and found.loc[
        "mine", "known halves"
    ] == pytest.approx(1)


def test_measures_before_the_truth_are_counted_and_a_ladder_upside_down_is_seen():
    wrong = made_up("s", mine=[2.0, 1.5, 0.2, 0.3])
    assert agreement([wrong])["above"].item() == 0.5
    assert agreement([made_up("s", completed=1.7, mine=[2.0, 1.5, 0.2, 0.3])])["before"].item() == 0.25
    upside = wrong._replace(numbers=wrong.numbers | {"mine": -wrong.numbers["mine"]})
    assert agreement([upside])["ladder"].item() == -1


def test_numbers_that_are_the_same_up_to_rounding_share_a_rank():
    apart = agreement([made_up("s", mine=[0.5 + 1e-9, 0.5, 0.5, 0.1])])["tau"].item()
    assert apart == pytest.approx(stats.kendalltau([0.9, 0.5, 0.5, 0.1], [0.5, 0.5, 0.5, 0.1]).statistic)


def test_from_noise_to_the_truth():
    both = made_up("s", mine=[0.1, 0.6, 0.5, 0.3])
    assert agreement([both], without=["a"])["tau"].item() > agreement([both])["tau"].item()
    found = measures_by([made_up("s", mine=[2.0, 1.0, 0.5, -1.0])], "mine")
    assert found["method"].tolist() == ["a", "b", "c", "d"]
    assert found["value"].tolist() == [2.0, 1.0, 0.5, -1.0]
    blind = made_up("s", mine=[2.0, 1.0, 0.5, -1.0])
    blind.numbers["mine"][:, len(MEASURES) - len(BESIDE) :] = 0.3  # the truth is not told from noise
    assert measures_by([blind], "mine").empty


def table(**taus):
    """An agreement table: tau on the settings that choose, and on those that confirm; the ladder is known."""
    rows = [
        {"setting": setting, "protocol": name, "tau": tau[setting in CONFIRMING], "ladder": tau[2]}
        for name, tau in taus.items()
        for setting in RECORDED_SETTINGS
    ]
    return pd.DataFrame(rows)


def test_the_halves_are_apart_and_whole():
    assert set(CHOOSING).isdisjoint(CONFIRMING)
    assert sorted([*CHOOSING, *CONFIRMING]) == sorted(RECORDED_SETTINGS)
    assert abs(len(CHOOSING) - len(CONFIRMING)) <= 1


def test_further_settings_choose_nothing_and_are_asked_by_what_was_chosen():
    assert not {*FURTHER} & {*RECORDED_SETTINGS} and len(FURTHER) == 10
    assert not were_told(pd.Series(FURTHER)).any()
    kept = came_with_the_book("faithfulness_metrics", questions=120)
    recorded_choice = of_record(widest(kept)).metrics
    protocols = [RECORDED_CHOICE, EXPECTED, TODAY, called("LDS", "replace", "log p")]
    better = pd.DataFrame(
        [(setting, name, tau, 1.0) for setting in FURTHER[:3] for tau, name in enumerate(protocols)],
        columns=["setting", "protocol", "tau", "ladder"],
    )
    assert named_metrics(better) == recorded_choice  # not the one that is best there


def test_the_recorded_run_was_halved_so():
    kept = came_with_the_book("faithfulness_metrics", questions=120)
    for name, half in GROUPS.items():
        assert set(kept.loc[kept["run"] == name, "n"]) == {len(half)}


def test_the_choice_does_not_look_at_the_settings_that_confirm():
    assert chosen(table(x=(0.6, -1.0, 1.0), y=(0.5, 1.0, 1.0))) == "x"


def test_a_judge_that_does_not_know_the_ladder_is_out():
    assert chosen(table(x=(0.6, 0.6, 0.89), y=(0.5, 0.5, 0.9))) == "y"
    assert chosen(table(x=(0.6, 0.6, 0.5))) is None


def test_the_text_speaks_of_the_best_judge_where_it_has_none_of_its_own():
    others = table(x=(0.6, 0.6, 0.5), y=(0.7, 0.7, 0.5))
    assert named_metrics(others) == {"best here": "y"}
    assert named_metrics(pd.concat([others, table(**{TODAY: (0.1, 0.1, 0.5)})])) == {"usual": TODAY}


def test_a_judge_with_two_names_stands_once_under_both():
    metrics = {"chosen": "x", "expected": "y", "usual": "z", "not told": "y"}
    rows = called_as(
        metrics, pd.DataFrame({"protocol": [*"xyz"], "settings": "all", "value": [0.1, 0.2, 0.3]})
    )
    once = each_once(rows)
    assert list(once["judge"]) == ["chosen", "expected = not told", "usual"]
    assert list(once["value"]) == [0.1, 0.2, 0.3]
    both = table(**{TODAY: (0.1, 0.1, 0.5), EXPECTED: (0.6, 0.6, 1.0)})
    columns = by_setting(both.assign(**{"known halves": 1.0})).columns
    assert list(columns[1:3]) == ["chosen = chosen, not told R = expected", "usual"]


def test_means_of_halves_have_their_own_intervals():
    found = halves(table(x=(0.6, 0.2, 1.0)), ["x", "x"]).set_index("settings")
    assert found.loc["chosen on", "value"] == pytest.approx(0.6) and found.loc["chosen on", "n"] == len(
        CHOOSING
    )
    assert found.loc["confirmed on", "value"] == pytest.approx(0.2)
    assert found.loc["all", "low"] < found.loc["all", "value"] < found.loc["all", "high"]


def test_a_prediction_comes_out_where_the_interval_leaves_zero_out():
    rows = table(**{EXPECTED: (0.8, 0.8, 1.0), TODAY: (0.1, 0.3, 1.0)})
    found = prediction_table(rows)
    assert found["came out"].tolist() == ["yes"] and found["value"].item() == pytest.approx(0.6, abs=0.02)
    assert found["low"].item() > 0.5


def test_models_trained_in_two_ways_are_compared_over_the_same_settings():
    ever = table(**{TODAY: (0.2, 0.2, 1.0), EXPECTED: (0.8, 0.8, 1.0)})
    again = table(**{TODAY: (0.6, 0.6, 1.0), EXPECTED: (0.7, 0.7, 1.0)})
    again = again[again["setting"].isin(CHOOSING[:3])]
    found = retrained_table(ever, again).set_index(["protocol", "settings"])
    assert (found["n"] == 3).all()
    assert found.loc[(TODAY, AS_EVER), "value"] == pytest.approx(0.2)
    assert found.loc[(TODAY, HIDDEN), "value"] == pytest.approx(0.6)
    assert found.loc[(TODAY, GAINED), "value"] == pytest.approx(0.4)
    assert found.loc[(EXPECTED, GAINED), "high"] < 0
    assert retrained_table(ever, again.iloc[:0]).empty


def test_what_a_measure_gains_without_its_sign():
    signed = [made_up(name, mine=[0.2, 0.5, 0.5, 0.1]) for name in ("s", "t")]
    unsigned = [made_up(name, mine=[gained, 0.5, 0.5, 0.1]) for name, gained in (("s", 0.8), ("t", 0.6))]
    found = sign_table(signed, unsigned, {"me": "mine"}).set_index("method")
    assert found.loc["a", ["signed", "value", "n"]].tolist() == pytest.approx([0.2, 0.5, 2])
    assert found.loc["a", "low"] < 0.5 < found.loc["a", "high"] and found.loc["b", "value"] == 0


def test_the_judge_to_use_is_chosen_by_one_half_of_what_one_can_ask():
    rows = table(
        **{
            TODAY: (0.2, 0.9, 1.0),
            "without the first, delete, log p": (0.5, 0.3, 1.0),
            "without the first R, replace, log p": (1.0, 1.0, 1.0),
            EXPECTED: (0.8, 0.7, 1.0),
            "LDS, resample, p": (0.9, 0.9, 0.1),
        }
    )
    found = decision_table(rows).set_index("there")
    assert found["protocol"].tolist() == ["without the first, delete, log p", EXPECTED]
    assert found["value"].tolist() == pytest.approx([0.3, 0.7]) and (found["n"] == len(CONFIRMING)).all()
    assert decision_table(rows[rows["setting"].isin(CONFIRMING)]).empty


def test_measures_that_do_what_a_judge_does_are_named():
    assert "blank-out" in same_as_a_metric({"usual": TODAY})
    assert same_as_a_metric({"x": "LDS, delete, p"}) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": ["documents"]}, r"settings.0: should be one of .*; got 'documents'"),
        ({"operators": ["mask", "mask"]}, "operators: should be different ones"),
        ({"methods": ["rollout"]}, r"at least two, to be ranked, or none for all; got \['rollout'\]"),
        ({"models": "large"}, "models should be a profile"),
        ({"retrained": ["hist, compiled"]}, r"retrained.0: should be one of .*; got 'hist, compiled'"),
    ],
)
def test_wrong_parameters_are_refused_with_what_was_allowed(changes, message):
    with pytest.raises(ParameterError, match=message):
        chapter(**changes)


@pytest.fixture(scope="module")
def asked():
    p = chapter(questions=24, forms=["without the first", "comprehensiveness"])
    cases = p.cases(progress=False)
    rated = p.rate_all(cases, p.scores(cases, progress=False), progress=False)
    return p, cases, rated, agreement(rated)


def test_the_truth_and_the_ladder_are_found_by_the_judge_that_was_expected(asked):
    _, cases, rated, table = asked
    assert [*cases] == [("reverse, compiled", 0), ("hist, compiled", 0)]
    assert all(case.questions.right.all() and case.questions.in_distribution.all() for case in cases.values())
    table = table.set_index(["setting", "protocol"])
    assert (table.xs(EXPECTED, level="protocol")["ladder"] > 0.7).all()
    assert table.loc[("reverse, compiled", EXPECTED), "tau"] > table.loc[("reverse, compiled", TODAY), "tau"]
    assert rated[0].measures[-len(BESIDE) :] == BESIDE
    both = [rated[0].measures.index(name) for name in (RUNGS[0], COMPLETED)]
    np.testing.assert_allclose(rated[0].numbers[PLAUSIBILITY][:, both], 1)


@pytest.fixture
def four():
    """A case of four candidates, two of them sources, whose answer is the sum of what is left of weights."""
    weights = np.array([[1.0, 4.0, 3.0, 2.0]])
    return SimpleNamespace(
        candidates=np.ones((1, 4), bool),
        truth=np.array([[True, True, False, False]]),
        seed=0,
        answers=lambda operator, reading, kept: (kept * weights[:, None]).sum(-1),
    )


def test_ties_of_the_truth_are_broken_by_scores(four):
    found = completed(four, np.array([[[0.1, 0.4, np.nan, 0.3], [0.0, -1.0, 5.0, 6.0]]]))
    assert (-found[0]).argsort(1).tolist() == [[1, 0, 3, 2], [0, 1, 3, 2]]


@pytest.mark.parametrize(
    "given", [{}, {"no source first": [0, 0, 2.0, 1.0]}, {"the best order": [3.0, 4, 2, 1]}]
)
def test_the_truth_gets_its_best_completion(four, given):
    """Weights that add up, by hand: without the first 10, 20 and 50 % (1, 1 and 2 of four) 4, 4 and 5."""
    scores = {name: torch.tensor([each]) for name, each in ({"flat": [0.0] * 4} | given).items()}
    found = rate("s", 0, four, scores, {TODAY: PROTOCOLS[TODAY]})
    numbers = dict(zip(found.measures, found.numbers[TODAY][0], strict=True))
    assert numbers[COMPLETED] == pytest.approx((4 + 4 + 5) / 3)
    assert numbers[RUNGS[0]] <= numbers[COMPLETED]
    assert numbers.get("no source first", 11 / 3) == pytest.approx((3 + 3 + 5) / 3)


def test_where_no_token_alone_is_missed_the_truth_is_completed_by_a_measure(four):
    """The second and third of five candidates do the same: only both together are missed."""
    four.candidates, four.truth = np.ones((1, 5), bool), np.array([[True, False, False, False, False]])
    four.answers = lambda operator, reading, kept: kept[..., 0] + (kept[..., 1] | kept[..., 2]) * 1.0
    protocol = "without the first 3, mask, p"
    knows = torch.tensor([[0.0, 2, 1, 0, 0]])
    found = rate("s", 0, four, {"knows": knows, "flat": 0 * knows}, {protocol: PROTOCOLS[protocol]})
    assert found.numbers[protocol][0, found.measures.index(COMPLETED)] == 2


def test_a_judge_that_is_named_after_no_operator_is_asked_once(four):
    asked = []
    rate("s", 0, four, {}, {"mine": lambda case, scores: asked.append(1) or scores.sum(-1)})
    assert asked == [1]


def test_where_as_many_tokens_are_taken_as_there_are_sources_completion_changes_nothing(asked):
    _, cases, *_ = asked
    (setting, seed), case = next(iter(cases.items()))
    name = "without the first R, replace, log p"
    found = rate(setting, seed, case, {"flat": torch.zeros(case.truth.shape)}, {name: PROTOCOLS[name]})
    truth, best = (found.numbers[name][:, found.measures.index(each)] for each in (RUNGS[0], COMPLETED))
    np.testing.assert_array_equal(truth, best)


def test_a_judge_of_a_readers_own_is_as_good(asked):
    _, cases, *_ = asked
    (setting, seed), case = next(iter(cases.items()))
    scores = {"flat": torch.zeros(case.candidates.shape), "the truth itself": torch.from_numpy(case.truth)}
    mine = lambda case, scores: (scores * case.truth[:, None]).sum(-1)  # noqa: E731
    found = rate(setting, seed, case, scores, {"mine": mine})
    assert measures_by([found], "mine").set_index("method").loc["the truth itself", "value"] == pytest.approx(
        1
    )


def test_what_is_recorded_is_read_again(asked):
    p, cases, rated, table = asked
    measured = {KNOWN: measures_by(rated, PLAUSIBILITY), TODAY: measures_by(rated, TODAY)}
    unsigned = p.rate_all(cases, without_sign(p.scores(cases, progress=False)), [TODAY], progress=False)
    signs = sign_table(rated, unsigned, {"the answers": PLAUSIBILITY, "the judge": TODAY})
    again = table.assign(tau=-table["tau"])
    apart = agreement(rated, same_as_a_metric({"usual": TODAY}))
    rows = recorded(table, apart, measured, prediction_table(table), signs, again)
    assert rows["value"].notna().all() and not rows.duplicated(["run", "metric"]).any()
    kept = of_record(rows)
    assert kept.metrics["usual"] == TODAY and kept.metrics["expected"] == EXPECTED
    by_setting = kept.by_setting.set_index("setting")["usual"]
    expected = table[table["protocol"] == TODAY].set_index("setting")["tau"]
    pd.testing.assert_series_equal(by_setting, expected.loc[by_setting.index], check_names=False)
    mean = kept.rows[(kept.rows["run"] == "all settings") & (kept.rows["metric"] == f"tau: {TODAY}")]
    best = over_settings(table).set_index("protocol").loc[TODAY, "value"]
    assert mean["value"].item() == pytest.approx(best)
    pd.testing.assert_frame_equal(kept.signs, signs, check_dtype=False)
    with_sign = kept.rows["metric"].str.startswith(f"{SIGN}, by ")  # the intervals are of what is gained
    assert with_sign.any() and kept.rows.loc[with_sign, ["low", "high"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(kept.retrained, retrained_table(table, again), check_dtype=False)
    pd.testing.assert_frame_equal(kept.decision, decision_table(table), check_dtype=False)
    pd.testing.assert_frame_equal(kept.measured["usual"], measured[TODAY], check_dtype=False)
    ranking, names = kept.rankings["usual"], ["method", "value", "low", "high"]
    pd.testing.assert_frame_equal(ranking[names], ranked(measured[TODAY], TODAY)[names], check_dtype=False)
    assert ranking["rank"].dropna().tolist() == [*range(1, 1 + int(ranking["rank"].notna().sum()))]
    assert of_record(pd.DataFrame()).metrics == {} and of_record(pd.DataFrame()).signs.empty


def test_judges_are_compared_setting_by_setting_and_where_nobody_told_heads():
    kept = of_record(widest(came_with_the_book("faithfulness_metrics")))
    ahead = ahead_of_usual(kept).set_index("settings")
    tau = kept.by_setting.set_index("setting")
    (untold,) = (name for name in tau if UNTOLD in name)
    confirming = (tau[untold] - tau["usual"])[list(CONFIRMING)]
    free = confirming[[not name.endswith((", compiled", ", supervised")) for name in confirming.index]]
    assert ahead.loc["confirmed on", "value"] == pytest.approx(confirming.mean())
    assert ahead.loc[FREE, "value"] == pytest.approx(free.mean()) and ahead.loc[FREE, "n"] == len(free) == 5
    assert ahead.loc["all", "n"] == len(tau)


def test_rollout_is_held_against_the_first_setting_by_setting_and_where_nobody_told_heads():
    given = {"AttnLRP": [0.9, 1.1], ROLLOUT: [0.5, 0.6], "blank-out": [0.7, 0.7]}
    rows = [
        (setting, method, values[not setting.endswith((", compiled", ", supervised"))])
        for setting in RECORDED_SETTINGS
        for method, values in given.items()
    ]
    measured = pd.DataFrame(rows, columns=["setting", "method", "value"])
    found = beside_the_first(measured).set_index(["settings", "place"])
    assert (found.xs("the first", level="place")["method"] == "AttnLRP").all()
    assert found.loc[("all", "the second"), "method"] == "blank-out"
    assert found.loc[("free", ROLLOUT), ["value", "n", "rank_low"]].tolist() == pytest.approx([0.6, 5, 3])
    assert found.loc[("free", f"ahead of {ROLLOUT}"), "value"] == pytest.approx(0.5)
    told = were_told(pd.Series(RECORDED_SETTINGS)).mean()
    ahead = found.loc[("all", f"ahead of {ROLLOUT}")]
    assert ahead["value"] == pytest.approx(0.4 * told + 0.5 * (1 - told))
    assert ahead["n"] == len(RECORDED_SETTINGS)
    none = beside_the_first(measured[:0])
    assert set(none["place"]) == set(found.reset_index()["place"]) and none["value"].isna().all()


def test_a_judge_that_puts_a_measure_far_before_the_truth_has_failed_there():
    numbers = {"sort": [0.9, 1.1], "successor": [1.6, 0.2]}
    measured = pd.DataFrame(
        {"setting": setting, "method": method, "value": value}
        for setting, values in numbers.items()
        for method, value in zip(("AttnLRP", ROLLOUT), values, strict=True)
    )
    assert measured[works(measured)]["setting"].unique().tolist() == ["sort"]


def test_what_acts_through_the_denominator_carries_no_value():
    blind = [
        "value-weighted attention",
        "ALTI",
        "information flow routes",
        "value zeroing",
        "LRP, attention held constant",
    ]
    seeing = ["raw attention, last layer", "gradient x embedding", "AttnLRP", "blank-out"]
    words, question, values = chapter().blind_spot([*blind, *seeing])
    n = len(words)
    share = values[:, question.truth[0, :n]].amax(1)
    assert (share[: len(blind)] < 1e-6).all() and (share[len(blind) :] > 0.05).all()
    assert values.shape == (9, n)


def test_one_question_is_shown_under_every_operator_and_reading(asked):
    p, cases, *_ = asked
    shown = p.explored(cases)
    assert len(shown) == 2 * p.shown
    first = shown["reverse, compiled, question 1"]
    assert {"mask, p", "replace, log p"} <= set(first["scores"]) and len(first["scores"]) == 15
    best = first["scores"]["replace, log p"].argmax()
    assert first["truth"][best]


def test_a_record_in_which_the_truth_is_completed_decides_whether_it_comes_first():
    completed_too = CASES["standard metric, ground truth first"].support
    bare = completed_too[~completed_too["metric"].str.startswith("before: ")]
    larger = pd.concat([bare, bare.assign(run=bare["run"] + " again")]).assign(record="b")
    few = completed_too.assign(n=len(RECORDED_SETTINGS) // 2)
    found = [truth_comes_first(rows) for rows in (bare, pd.concat([completed_too, larger]), few)]
    assert [each.number.value for each in found] == [0.5, 0.02, 0.5]
    assert found[0].more.endswith("A coin breaks its ties.") and "in its favour" in found[1].more


def test_the_share_with_the_best_completion_is_of_a_record_that_has_it() -> None:
    rows = came_with_the_book("faithfulness_metrics")
    best = tables.with_best_truth(rows)
    whole = (
        best[best["metric"].eq(f"before: {TODAY}") & best["run"].eq(tables.ALL)].nlargest(1, "n").squeeze()
    )
    shares = tables.pooled(rows).before
    theirs = shares[shares["protocol"].eq(TODAY) & ~shares["setting"].isin(FURTHER)]["value"]
    assert theirs.mean() == pytest.approx(whole["value"]) and len(theirs) == whole["n"]
    assert tables.with_best_truth(best.assign(record="few", n=3)).empty


def test_rankings_of_all_settings_are_those_that_the_record_has() -> None:
    rows = widest(came_with_the_book("faithfulness_metrics"))
    theirs, ours = of_record(rows).rankings[KNOWN], tables.pooled(rows).rankings[KNOWN]
    pd.testing.assert_frame_equal(
        theirs.set_index("method").sort_index()[["value", "low", "high", "n"]],
        ours.set_index("method").sort_index()[["value", "low", "high", "n"]],
        check_dtype=False,
    )


def test_a_metric_is_not_asked_about_settings_in_which_it_failed() -> None:
    rows = pd.DataFrame(CASES["used tokens, and the best"].support)
    kept = tables.pooled(rows)
    far = rows["metric"].str.startswith(f"{kept.metrics[tables.CHOSEN]} ranks") & rows["run"].eq("sort")
    found = tables.pooled(rows.assign(value=rows["value"].where(~far, 2.0)))
    assert found.failed[tables.CHOSEN] == ["sort"] and not kept.failed[tables.CHOSEN]
    assert "sort" not in set(found.measured[tables.CHOSEN]["setting"])


def test_further_settings_count_beside_those_of_the_widest_record() -> None:
    rows = CASES["standard metric, the same order"].support
    alone = pd.DataFrame(rows)[lambda table: table["record"].eq("a")]
    assert [ranks_as_the_known_answers(pd.DataFrame(each)).number.n for each in (rows, alone)] == [6, 4]
    twice = pd.concat(
        [pd.DataFrame(rows), pd.DataFrame(rows)[lambda table: table["record"].eq("b")].assign(record="c")]
    )
    assert ranks_as_the_known_answers(twice).number.n == 6  # none counts twice


def test_nothing_is_kept_where_nothing_is_recorded() -> None:
    kept = tables.pooled(pd.DataFrame())
    assert not kept.metrics and kept.rows.empty and kept.before.empty

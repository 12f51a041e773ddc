"""Verdicts on whether attention causes a failure, and the reference that has carries."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import TASKS, task
from book.chapters.reasoning.measures import (
    CONTROL,
    ENLARGED,
    NOTHING,
    OWN,
    RANDOM,
    REFERENCE,
    changed_attention,
)
from book.chapters.reasoning.tables import (
    BESIDE_GAINS,
    CAUSE,
    GAIN,
    GAIN_OF_ONE,
    NO_LOSS,
    NONE,
    PART,
    best_gains,
    gains_by_seed,
    judged,
    losses,
    recorded,
    recorded_gains,
    right_tokens,
)

TOKENIZER = char_tokenizer()


# ---- the enlarged reference ------------------------------------------------------------------------------


def keys_of(sample, ends=True):
    """Of every predicted character, the characters' places that its reference has."""
    start = len(sample.input_ids) + 1 - len(sample.text) - ends  # tokens in front of the text
    queries = range(len(sample.prompt) - 1, len(sample.text) - 1)
    reference = sample.reference[start:, start:].numpy()
    return [set(np.flatnonzero(reference[query])) for query in queries]


def test_enlarged_a_sum_has_the_columns_its_carry_depends_on():
    g = task("long_addition", TOKENIZER, enlarged=True)
    sample = g.annotate("27310+72610=99920")
    first, second = 0, 6
    # 2 + 7 = 9 hands on what it is handed; so does 7 + 2; 3 + 6 too; 1 + 1 does not.
    columns = [{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {3, 4}]
    assert keys_of(sample) == [{first + c for c in own} | {second + c for c in own} for own in columns]


@pytest.mark.parametrize("padded", [True, False])
def test_a_digit_depends_on_its_enlarged_reference_and_on_nothing_else(padded):
    how = {"length": (1, 5), "num_of_nums": (2, 3), "pad_with_zeros": padded}
    g, rng = task("long_addition", TOKENIZER, enlarged=True, **how), np.random.default_rng(0)
    small = task("long_addition", TOKENIZER, **how)
    for sample, plain in zip(g.samples(30), small.samples(30), strict=True):
        assert sample.text == plain.text and not (plain.reference & ~sample.reference).any()
        text, answer = sample.text, sample.answer
        for place, keys in enumerate(keys_of(sample)):
            others = [n for n in range(len(sample.prompt) - 1) if text[n].isdigit() and n not in keys]
            for _ in range(4):
                numbers = list(sample.prompt[:-1])
                for n in others:
                    numbers[n] = str(rng.integers(10))
                total = str(sum(int(number[::-1]) for number in "".join(numbers).split("+")))[::-1]
                assert total.ljust(len(answer), "0")[place] == answer[place], (text, place, numbers)


def test_enlarged_a_series_has_the_answer_so_far():
    sample = task("successor", TOKENIZER, enlarged=True).annotate("8 9 10 ")
    assert keys_of(sample, ends=False) == [{0, 1}, {0, 1, 2}, {2, 3}, {2, 3, 4}, set()]
    longer = task("successor", TOKENIZER, enlarged=True).annotate("1 2 3 4 ")
    assert keys_of(longer, ends=False)[4] == {2, 3, 4, 5}


def test_where_nothing_is_left_out_it_changes_nothing_and_not_as_published():
    for name in TASKS:
        plain, enlarged = (task(name, TOKENIZER, length=(3, 4), enlarged=own) for own in (False, True))
        pairs = zip(plain.samples(20), enlarged.samples(20), strict=True)
        same = [one.reference.equal(other.reference) for one, other in pairs]
        assert all(same) is not TASKS[name].ENLARGES, name
    with pytest.raises(ValueError, match="enlarged must be False with as_published"):
        task("successor", TOKENIZER, enlarged=True, as_published=True)


# ---- verdicts --------------------------------------------------------------------------------------------


def verdicts(rows, **rule):
    """`best_gains`, judged."""
    return judged(best_gains(rows).merge(losses(right_tokens(rows), ["kind"]), on="kind"), **rule)


def found(gains, seeds=(0,), alone=0.2, inside=1.0, texts=40, control=0.25):
    """Rows as `changed_attention` has them: what each (change, heads) comes to, and some noise over texts."""
    rng = np.random.default_rng(0)

    def rows(split, change, heads, value, seed):
        values = value + rng.normal(0, 0.02, texts)
        about = {"run": "a", "kind": "a task", "seed": seed, "split": split, "heads": heads, "change": change}
        return pd.DataFrame({"sample": range(texts), "value": values}).assign(**about)

    tables = []
    for seed in seeds:
        tables += [rows("ID", NOTHING, 0, inside, seed), rows("OOD", NOTHING, 0, alone, seed)]
        for (change, heads), value in gains.items():
            tables.append(rows("OOD", change, heads, value, seed))
            if CONTROL[change] != NOTHING:
                tables.append(rows("OOD", CONTROL[change], heads, control, seed))
    return pd.concat(tables, ignore_index=True)


@pytest.mark.parametrize(("value", "verdict"), [(0.9, CAUSE), (0.45, PART), (0.25, NONE), (0.1, NONE)])
def test_the_verdict_is_by_what_comes_back_beyond_the_control(value, verdict):
    (row,) = verdicts(found({(REFERENCE, 4): value, (REFERENCE, 1): 0.2})).to_dict("records")
    assert (row["verdict"], row["n"], row["of"]) == (verdict, 20, "texts")
    if value > 0.3:
        assert (row["change"], row["heads"]) == (REFERENCE, 4)
        assert row["value"] == pytest.approx(value - 0.25, abs=0.02)
        assert row["closed"] == pytest.approx((value - 0.2) / 0.8, abs=0.03)
        assert row["low"] < row["value"] < row["high"]


def test_the_best_change_is_chosen_on_other_texts_than_it_is_measured_on():
    rows = found({(REFERENCE, 1): 0.3, (ENLARGED, 1): 0.3, (OWN, 1): 0.3})
    lucky = rows["change"].eq(ENLARGED) & rows["sample"].mod(2).eq(0)
    rows.loc[lucky, "value"] = 1.0
    (row,) = verdicts(rows).to_dict("records")
    assert row["change"] == ENLARGED and row["value"] == pytest.approx(0.05, abs=0.02)


def test_over_seeds_the_interval_is_students():
    (row,) = verdicts(found({(OWN, 2): 0.5}, seeds=(0, 1, 2))).to_dict("records")
    assert (row["n"], row["of"], row["change"]) == (3, "seeds", OWN)
    assert row["value"] == pytest.approx(0.3, abs=0.02) and row["control"] == row["OOD"]
    assert (row["seeds"], row["closed in"]) == (3, 0)


def test_each_seed_of_a_gain_is_kept():
    rows = found({(OWN, 2): 0.5}, seeds=(0, 1, 2))
    rows.loc[rows["seed"].eq(1) & rows["change"].eq(OWN), "value"] += 0.3
    rows["run"] = "a, seed " + rows["seed"].astype(str)
    gains = best_gains(rows)
    each = gains_by_seed(rows, gains)
    assert each["run"].tolist() == ["a, seed 0", "a, seed 1", "a, seed 2"]
    assert each["value"].tolist() == pytest.approx([0.3, 0.6, 0.3], abs=0.02)
    mean, reach = each["value"].mean(), stats.t.ppf(0.975, 2) * each["value"].std() / np.sqrt(3)
    assert gains[["value", "low", "high"]].iloc[0].tolist() == pytest.approx(
        [mean, mean - reach, mean + reach]
    )
    kept = recorded(each, GAIN_OF_ONE).assign(kind="a task", ranges="", record="r", seed=each["seed"])
    assert recorded_gains(kept.assign(**dict.fromkeys(BESIDE_GAINS, 3.0))).empty, "it is no gain over seeds"
    alone = found({(OWN, 2): 0.5})
    assert gains_by_seed(alone, best_gains(alone)).empty


def test_a_change_that_only_beats_a_harmful_control_gains_nothing():
    (row,) = verdicts(found({(REFERENCE, 4): 0.18}, control=0.05)).to_dict("records")
    assert row["verdict"] == NONE and row["value"] == pytest.approx(-0.02, abs=0.02)


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_without_a_loss_there_is_nothing_to_cause(seeds):
    """In distribution .90, out of it .93, pushed .97: once "a part of it", with a gain."""
    rows = found({(REFERENCE, 4): 0.97}, seeds, alone=0.93, inside=0.90, control=0.5)
    (row,) = verdicts(rows).to_dict("records")
    assert row["verdict"] == NO_LOSS and row["low"] > 0 and row["lost"] == pytest.approx(-0.03, abs=0.01)
    assert np.isnan(row["p_holm"])


def test_a_loss_in_one_of_three_models_is_not_shown():
    rows = found({(REFERENCE, 4): 0.97}, (0, 1, 2), alone=0.9, inside=0.9, control=0.5)
    rows.loc[rows["seed"].eq(0) & rows["change"].eq(NOTHING) & rows["split"].eq("OOD"), "value"] -= 0.4
    (row,) = verdicts(rows).to_dict("records")
    assert row["lost"] > 0.1 > 0 > row["lost low"] and row["verdict"] == NO_LOSS


@pytest.mark.filterwarnings("error")
def test_where_nothing_is_lost_no_share_of_it_comes_back():
    rows = found({(REFERENCE, 4): 0.9})
    rows.loc[rows["change"].eq(NOTHING), "value"] = 0.5
    (row,) = best_gains(rows).to_dict("records")
    assert np.isnan(row["closed"]) and row["value"] > 0.1


def gains(*lows, lost=0.5):
    """A table of gains of three seeds, each .2 with an interval from where it says."""
    rows = [{"value": 0.2, "low": low, "high": 0.4 - low, "n": 3, "closed": 0.9} for low in lows]
    return pd.DataFrame(rows).assign(**{"lost low": lost})


def test_the_verdicts_of_one_table_are_corrected_for_how_many_they_are():
    """Each interval is above 0; together they say less. One without a loss does not count."""
    assert list(judged(gains(0.05))["verdict"]) == [CAUSE]
    table = judged(gains(0.19, 0.05, 0.01))
    assert list(table["verdict"]) == [CAUSE, NONE, NONE]
    # Student's of three with t = 4.303 x .2 / .15: p = .0291, twice that by Holm.
    assert table["p_holm"].iloc[1] == pytest.approx(2 * 0.0291, abs=2e-4)
    without = judged(gains(0.19, 0.05, 0.01).assign(**{"lost low": [0.5, 0.5, -0.1]}))
    assert list(without["verdict"]) == [CAUSE, CAUSE, NO_LOSS]


def test_a_reader_may_judge_by_another_rule():
    table = gains(0.19, 0.05, 0.01)
    assert list(judged(table, level=0.06)["verdict"]) == [CAUSE, CAUSE, CAUSE]
    assert list(judged(table, enough=0.95)["verdict"]) == [PART, NONE, NONE]


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_a_verdict_is_made_of_what_is_recorded(seeds):
    """And a row says what it is of: of several seeds, not of the first."""
    rows = found({(REFERENCE, 4): 0.9, (OWN, 1): 0.3}, seeds)
    kept = [recorded(right_tokens(rows), "{metric}", "seed")]
    kept.append(recorded(best_gains(rows), GAIN, *BESIDE_GAINS))
    kept = pd.concat(kept, ignore_index=True).assign(record="r", kind="a task", ranges="length 1-4")
    assert kept["run"].iloc[-1] == ("a" if len(seeds) == 1 else "a task, over seeds")
    again = judged(recorded_gains(kept, seeds=1))
    same = ["kind", "change", "value", "low", "high", "n", *BESIDE_GAINS, "lost", "lost low", "verdict"]
    pd.testing.assert_frame_equal(again[same], verdicts(rows)[same], check_dtype=False)
    assert len(recorded_gains(kept)) == (len(seeds) > 1)


def test_it_counts_the_seeds_in_which_half_comes_back():
    rows = found({(REFERENCE, 4): 0.9}, seeds=(0, 1, 2))
    rows.loc[rows["seed"].ne(0) & rows["change"].eq(REFERENCE), "value"] = 0.2
    (row,) = verdicts(rows).to_dict("records")
    assert (row["closed in"], row["verdict"]) == (1, NONE) and row["low"] < 0


def test_a_chapters_models_are_changed_in_one_some_and_all_heads():
    from book.chapters.reasoning import AlgorithmicReasoning
    from tests.parameters import defaults_of, profile

    small = defaults_of("algorithmic_reasoning") | profile("algorithmic_reasoning", "smoke")
    p = AlgorithmicReasoning.checked(
        small | {"tasks": ["long_addition", "string_reversal"], "supervised": [], "steps": 2, "device": "cpu"}
    )
    models, _ = p.train_all()
    rows = changed_attention(p, models)
    addition = rows[rows["kind"] == "long addition"]
    assert set(addition["change"]) == {NOTHING, *CONTROL, RANDOM, CONTROL[ENLARGED]}
    assert sorted(set(rows["heads"])) == [0, 1, 4, 8]
    reversal = rows[rows["kind"] == "string reversal"]
    assert ENLARGED not in set(reversal["change"])
    assert set(verdicts(rows)["kind"]) == {"long addition", "string reversal"}

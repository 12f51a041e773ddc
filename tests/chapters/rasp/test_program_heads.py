"""Heads of a model beside heads of a program: agreement, assignment, and the one in the other's place."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.generators.rasp import language
from attnlib.measures import sample_scores
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.compiled import compiled
from attnlib.stats import over_seeds, summarise, table_over_seeds
from book.chapters.rasp import RaspLanguages
from book.chapters.rasp.measures import (
    THE_PROGRAMS,
    UNIFORM,
    best_pairs,
    head_of,
    match_program,
    name_of,
    program_agreement,
    scores_with_program,
    target_masses,
    with_attention_of,
)
from book.chapters.rasp.sentences import change_clause
from book.chapters.rasp.tables import gained_by_supervision, lost_when_smaller, program_rows
from tests.parameters import defaults_of

SORT = language("sort", 10, bos=True)


@pytest.fixture(scope="module")
def batches():
    return SORT.in_batches(SORT.sequences(30, split="test", max_length=9), 8, target_attention=True)


def transformer(n_layers=2, n_heads=2, seed=0):
    torch.manual_seed(seed)
    sizes = {"n_layers": n_layers, "n_heads": n_heads, "width": 16}
    return Transformer(TransformerConfig(len(SORT.tokenizer), len(SORT.classes), **sizes))


# ---- agreement ------------------------------------------------------------------------------------------


def test_agreement_is_what_the_formula_says(batches):
    model = transformer()
    found = program_agreement(model, batches).set_index(["sample", "program", "head"])
    assert len(found) == 30 * 2 * 4
    sequences = SORT.sequences(30, split="test", max_length=9)
    for number, text in enumerate(SORT.decode(sequences)):
        sample = SORT.annotate(text)
        with torch.no_grad():
            attention = model.eval()(sample.input_ids[None], output_attentions=True).attentions[0]
        for program, selected in sample.target_attention.items():
            for layer, head in [(0, 0), (0, 1), (1, 0), (1, 1)]:
                common, apart, even = [], [], []
                for q in range(1, len(selected)):  # not the beginning, which is asked for nothing
                    p, a = selected[q] / selected[q].sum(), attention[layer, head, q]
                    common.append(float(1 - (a - p).abs().sum() / 2))
                    even.append(float(1 - (1 / len(p) - p).abs().sum() / 2))
                    apart.append(float((a - p).abs().max()))
                row = found.loc[(number, name_of(program), name_of((layer, head)))]
                assert row["agreement"] == pytest.approx(np.mean(common), abs=1e-5)
                assert row["uniform"] == pytest.approx(np.mean(even), abs=1e-5)
                assert row["apart"] == pytest.approx(max(apart), abs=1e-5)


def test_rows_without_a_selected_key_do_not_count():
    """Without a beginning-of-sequence token the smallest symbol selects nothing."""
    plain = language("sort", 10)
    batch = plain.batch(plain.encode("a", "ba"))
    model = Transformer(TransformerConfig(len(plain.tokenizer), 10, n_layers=1, n_heads=1, width=16))
    found = program_agreement(model, [batch]).set_index(["sample", "program"])
    assert found.loc[(0, "L0H0"), ["agreement", "uniform", "apart"]].isna().all()
    assert found.loc[(1, "L0H0"), "uniform"] == pytest.approx(0.5)
    assert found.loc[(0, "L1H0"), "agreement"] == 1


def test_a_program_agrees_with_itself_and_is_found_where_it_is(batches):
    """In compiled sort, the program's layers are one later."""
    exact = compiled(SORT, 9)
    rows = program_agreement(exact.model, batches)
    pairs = best_pairs(rows)
    found = {
        head_of(program): head_of(head) for program, head in zip(pairs["program"], pairs["head"], strict=True)
    }
    assert found == exact.heads == {(0, 0): (1, 0), (1, 0): (2, 0)}
    assert (pairs["agreement"] > 0.9999).all()


def test_a_program_has_all_of_its_attention_on_its_targets(batches):
    exact = compiled(SORT, 9)
    own = []
    for batch in batches:
        masks = {exact.heads[head]: mask for head, mask in batch.target_attention.items()}
        own.append(replace(batch, target_attention=masks))
    rows = target_masses(exact.model, own)
    assert rows["value"].min() > 0.9999 and rows["uniform"].median() < 0.5
    assert (rows.groupby("metric")["sample"].nunique() == 30).all() and len(rows) == 60


def test_there_must_be_a_program():
    batches = SORT.in_batches(SORT.sequences(3))
    with pytest.raises(ValueError, match="no target attention"):
        program_agreement(transformer(), batches)


# ---- assignment -----------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=4))
def test_the_assignment_is_the_best_of_all(table):
    values = np.array(table)
    rows = pd.DataFrame(values).rename_axis("program").melt(ignore_index=False, var_name="head").reset_index()
    found = best_pairs(rows.rename(columns={"value": "agreement"}))
    assert len(found) == min(values.shape) == found["program"].nunique() == found["head"].nunique()
    wide = values if values.shape[0] <= values.shape[1] else values.T
    best = max(
        sum(wide[i, j] for i, j in enumerate(p)) for p in permutations(range(wide.shape[1]), len(wide))
    )
    assert found["agreement"].sum() == pytest.approx(best)


def test_the_assignment_is_of_means_and_every_pair_needs_one():
    numbers = [0.9, 0.1, 0.6, 0.58, 0.6, np.nan]
    rows = pd.DataFrame({"program": [*"AAABBB"], "head": [*"xxyxyx"], "agreement": numbers})
    assert best_pairs(rows)[["program", "head"]].to_numpy().tolist() == [["A", "y"], ["B", "x"]]
    with pytest.raises(ValueError, match="every pair of program and head"):
        best_pairs(rows[:4])


# ---- in the other's place ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reverse", "sort", "hist"])
def test_its_own_program_changes_nothing_and_anothers_breaks_it(name):
    """Another's with a head for each that reads something: in compiled sort, the first reads nothing."""
    lang = language(name, 10, bos=True)
    exact, accuracy = compiled(lang, 9), {}
    drawn = [lang.sequences(40, split=split, min_length=4, max_length=9) for split in ("valid", "test")]
    for other in {"reverse": ["reverse", "sort"], "sort": ["sort", "reverse"]}.get(name, ["hist", "reverse"]):
        program = language(other, 10, bos=True)
        found = match_program(exact.model, *[with_attention_of(program, lang, each) for each in drawn])
        rows = found.scores[found.scores["attention"] == THE_PROGRAMS]
        accuracy[other] = rows["right"].sum() / rows["asked"].sum()
        if other == name:
            assert found.pairs == exact.heads and found.agreement["agreement"].min() > 0.9999
        else:
            assert found.agreement["agreement"].mean() < 0.9
    assert accuracy.pop(name) == 1
    assert max(accuracy.values()) < 0.7


def test_scores_are_those_of_the_model_where_nothing_is_replaced(batches):
    model = transformer()
    plain = sample_scores(model, batches)
    pd.testing.assert_frame_equal(scores_with_program(model, batches, {}), plain)
    nothing = [
        replace(batch, target_attention={(0, 0): torch.zeros_like(batch.target_attention[0, 0])})
        for batch in batches
    ]
    for even in (False, True):
        found = scores_with_program(model, nothing, {(0, 0): (1, 1)}, uniform=even)
        pd.testing.assert_frame_equal(found, plain)


def test_what_is_put_in_place_is_the_programs_row_or_an_even_one(batches):
    """Seen by what a head gives away: the model's loss under attention written by hand."""
    model, pairs = transformer(1, 1), {(1, 0): (0, 0)}
    own = (attention := model.layers[0].attention).attend
    real = [batch.attention_mask[:, None, :] & batch.attention_mask[:, :, None] for batch in batches]
    first = [each & (torch.arange(each.shape[-1]) == 1) for each in real]  # a program that looks at one key
    to_one = [
        replace(batch, target_attention={(1, 0): each}) for batch, each in zip(batches, first, strict=True)
    ]
    for even, asked in product((False, True), (batches, to_one)):
        found = scores_with_program(model, asked, pairs, uniform=even)
        losses = []
        for batch, every in zip(asked, real, strict=True):
            rows = (every if even else batch.target_attention[1, 0]).float()
            weights = (rows / rows.sum(-1, keepdim=True).clamp(min=1))[:, None]
            attention.attend = lambda q, k, v, *_, w=weights, **__: (w @ v, None)
            losses.append(sample_scores(model, [batch])["loss"])
            attention.attend = own
        np.testing.assert_allclose(found["loss"], pd.concat(losses), rtol=1e-5)
    assert {THE_PROGRAMS, UNIFORM} == set(match_program(model, batches, batches).scores["attention"])


# ---- over seeds, and in the chapter -----------------------------------------------------------------------


def test_means_over_seeds_are_of_the_means_of_each_seed():
    rows = pd.DataFrame(
        {"seed": [0, 0, 1, 2, 0, 1], "task": [*"aaaabb"], "value": [0.2, 0.4, 0.5, 0.7, 1.0, np.nan]}
    )
    found = table_over_seeds(rows, ["task"]).set_index("task")
    expected = over_seeds([0.3, 0.5, 0.7])
    assert found.loc["a"].tolist() == pytest.approx([*expected])
    assert found.loc["b", "value"] == 1 and found.loc["b", "n"] == 1 and np.isnan(found.loc["b", "low"])


def test_a_model_is_compared_with_its_own_program_first_and_always_with_others():
    p = RaspLanguages.checked(
        defaults_of("rasp_languages") | {"language": "dyck1_ptf", "also": ["hist2", "sort"]}
    )
    assert [each.name for each in p.programs(p.lang())] == ["hist2", "sort", "reverse", "hist"]
    assert [each.name for each in p.programs(p.lang("sort"))] == ["sort", "hist2", "reverse", "hist"]


def test_the_attention_of_another_program_on_the_same_sequences():
    reverse, dyck = language("reverse", 10, True), language("dyck1_ptf", 10, True)
    for lang in (SORT, dyck):
        sequences = lang.sequences(5, max_length=6)
        plain, theirs = lang.in_batches(sequences), with_attention_of(reverse, lang, sequences)
        assert torch.equal(plain[0].target_ids, theirs[0].target_ids)
        assert torch.equal(plain[0].input_ids, theirs[0].input_ids)
        expected = reverse.in_batches(sequences, target_attention=True)[0].target_attention
        assert all(torch.equal(theirs[0].target_attention[head], mask) for head, mask in expected.items())
    own = with_attention_of(SORT, SORT, SORT.sequences(5))
    assert set(own[0].target_attention) == {(0, 0), (1, 0)}


def test_every_model_beside_every_program_as_rows_of_the_record():
    small = {"also": ["hist"], "supervised": [], "width": 16, "length": 6, "test_samples": 20}
    p = RaspLanguages.checked(defaults_of("rasp_languages") | small)
    models = {run.name: p.setup(run).model for run in p.runs()}
    agreement, replaced = p.matches(models)
    assert set(agreement["run"]) == set(models)
    assert set(agreement["program of"]) == {"sort", "hist", "reverse"}
    assert (agreement["own"] == (agreement["run"].str.split(",").str[0] == agreement["program of"])).all()
    keys = ["run", "program of", "heads"]
    agreement = summarise(agreement, keys, "agreement", unit="sample", beside=["uniform"])
    replaced = summarise(replaced, [*keys, "attention"], "right", whole="asked")
    assert len(agreement) == 3 * 3 and len(replaced) == 3 * 3 * 2
    rows = program_rows(p, agreement, replaced)
    assert len(rows) == len(agreement) + len(replaced) and not rows.duplicated(["run", "metric"]).any()
    assert "accuracy, attention of reverse in its heads" in set(rows["metric"])
    assert "accuracy" not in set(rows["metric"])  # which the paper's table is set beside


def test_what_an_ablation_costs_is_counted_seed_by_seed():
    seeds = [("", 0, 0.9), ("", 1, 0.7), ("one layer fewer", 1, 0.6), ("one layer fewer", 0, 0.8)]
    models = pd.DataFrame(seeds, columns=["ablation", "seed", "value"]).assign(language="sort")
    (lost,) = lost_when_smaller(models).itertuples()
    assert (lost.ablation, lost.n) == ("one layer fewer", 2)
    assert (lost.value, lost.high - lost.low) == (pytest.approx(0.1), pytest.approx(0)), "both lose as much"


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (0.03, "rises by 3.0 points"),
        (-0.02, "falls by 2.0 points"),
        (0.0, "does not change significantly"),
    ],
)
def test_what_supervision_changes_is_said_for_either_sign(gain, said):
    noise = [-0.001, 0.0, 0.001]
    rows = [
        {"language": "sort", "seed": seed, "supervised": supervised, "ablation": "", "value": value}
        for seed in range(3)
        for supervised, value in ((False, 0.9), (True, 0.9 + gain + noise[seed]))
    ]
    (row,) = gained_by_supervision(pd.DataFrame(rows)).to_dict("records")
    assert row["value"] == pytest.approx(gain) and change_clause(row) == said

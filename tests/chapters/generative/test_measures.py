"""The needle test: what is asked, which tokens are the needle's, and how finding it is counted."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from attnlib.attribution import METHODS, attributions
from attnlib.attribution.attention import from_attention, mean_rolled
from attnlib.generators import char_tokenizer
from attnlib.generators.base import IGNORE
from attnlib.generators.needle import OPENING, NeedleGenerator
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.pretrained import load_language_model, untrained_twin
from attnlib.rollout import generate_with_rollout, rollout_of, uniform_causal_rollout
from attnlib.rollout.generative import informative
from attnlib.stats import summarise
from book.chapters.generative.measures import COMPARED, KINDS, NeedleRun, kinds_of, mass_by_kind, needle_ranks
from book.chapters.generative.study import filtered_by_study
from book.chapters.generative.tables import (
    measured,
    needle_comparison,
    needle_table,
)
from tests.pretrained import trained_model

TEXT = "The code of Kira is 4821. The code of Hugo is 1936. Q: What is the code of Hugo? A: 1936"


def generator(**options):
    return NeedleGenerator(char_tokenizer(), **options)


def take(n, **options):
    return list(itertools.islice(generator(**options).generate_samples(), n))


@pytest.fixture(scope="module")
def tiny():
    return load_language_model("tiny-random")[0]


@pytest.fixture(scope="module")
def stories():
    return load_language_model(str(trained_model()))


def test_needle_is_the_value_in_the_fact_that_is_asked_for():
    sample = generator().annotate(TEXT)
    query = sample.n_prompt - 1
    bos = 1  # the tokenizer puts a token in front, then one per character
    assert sample.reference[query].nonzero().flatten().tolist() == [
        TEXT.index("1936") + bos + i for i in range(4)
    ]
    assert sample.name.nonzero().flatten().tolist() == [TEXT.index("Hugo") + bos + i for i in range(4)]
    assert sample.target_ids[query:-1].tolist() == sample.input_ids[query + 1 :].tolist()
    assert (sample.target_ids[:query] == IGNORE).all() and sample.target_ids[-1] == IGNORE
    assert not sample.reference[:query].any() and sample.evaluated[query, : query + 1].all()
    assert not sample.evaluated[:, query + 1 :].any()
    assert char_tokenizer().decode(sample.input_ids[sample.context]) == TEXT[: TEXT.index(" Q:")]
    assert (sample.answer, sample.facts, sample.position) == ("1936", 2, 1)


def test_needle_with_tokens_of_several_characters(stories):
    tokenizer = stories[1]
    for sample in itertools.islice(NeedleGenerator(tokenizer, seed=3).generate_samples(), 5):
        query = sample.n_prompt - 1
        assert tokenizer.decode(sample.input_ids[sample.reference[query]]).strip() == sample.answer
        assert tokenizer.decode(sample.input_ids[sample.n_prompt :]).strip() == sample.answer
        assert tokenizer.decode(sample.input_ids[: sample.n_prompt]).rstrip().endswith(" is")


@pytest.mark.parametrize("opening", [OPENING, ""])
def test_samples_are_what_was_asked_for(opening):
    samples = take(200, seed=5, facts=(2, 3), digits=3, opening=opening)
    for index, sample in enumerate(samples):
        facts = sample.text.split(" Q: ")[0].removesuffix(".").split(". ")
        assert len(facts) == sample.facts == (2, 3)[index % 2]
        assert (
            len({fact.split()[3] for fact in facts}) == len({fact.split()[5] for fact in facts}) == len(facts)
        )
        assert facts[sample.position].endswith(f" is {sample.answer}") and len(sample.answer) == 3
        assert (f"A: The code of {facts[sample.position].split()[3]} is " in sample.text) == bool(opening)
    positions = [sample.position for sample in samples if sample.facts == 2]
    assert stats.binomtest(sum(positions), len(positions)).pvalue > 0.001
    assert [s.text for s in samples[:5]] == [
        s.text for s in take(5, seed=5, facts=(2, 3), digits=3, opening=opening)
    ]
    assert samples[0].text != take(1, seed=6, facts=(2, 3), digits=3, opening=opening)[0].text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello", "text of the needle test"),
        (TEXT.replace("A: 1936", "A: 4821"), "only that one should have the value '4821'"),
        (TEXT.replace("code of Hugo?", "code of Zoe?"), "should be about Zoe"),
        (TEXT.replace("4821", "1936"), "only that one"),
    ],
)
def test_annotate_refuses_other_texts(text, says):
    with pytest.raises(ValueError, match=says):
        generator().annotate(text)


def test_settings_that_cannot_be():
    wrong = {"facts": (0, 54), "digits": (0, 19), "opening": ("Well,",)}
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=f"{name} must"):
                generator(**{name: value})
    assert len(next(generator(digits=18).generate_samples()).answer) == 18


def test_ranks_are_those_of_each_method_on_its_own(tiny):
    samples = take(5, facts=2)
    run = needle_ranks(tiny, samples, only_answered=False)
    assert sorted(run.ranks["method"].unique()) == sorted(COMPARED)
    assert len(run.ranks) == 5 * len(COMPARED) and set(COMPARED) <= set(METHODS)
    assert run.items["item"].tolist() == [0, 1, 2, 3, 4]
    sample = samples[3]
    n = sample.n_prompt
    scores = attributions(tiny, sample.input_ids[:n], COMPARED, target=int(sample.input_ids[n]))
    needle, context = sample.reference[n - 1, : n - 1], sample.context[: n - 1]
    for method, score in scores.items():
        row = run.ranks.query("item == 3 and method == @method").iloc[0]
        order = score[:-1].argsort(descending=True)
        assert row["rank_prompt"] == 1 + needle[order].nonzero()[0].item(), method
        assert row["rank_facts"] == 1 + needle[order[context[order]]].nonzero()[0].item(), method
        assert (row["candidates_prompt"], row["needles"]) == (n - 1, 4)
        assert row["candidates_facts"] == len(sample.text.split(" Q:")[0])


def test_only_right_answers_count(tiny, monkeypatch):
    samples = take(4, facts=2)
    import book.chapters.generative.measures as module

    real = module.one_pass

    def one_pass(model, prompts, methods, logits_from):
        found, _ = real(model, prompts, methods, logits_from)
        logits = torch.nn.functional.one_hot(prompts.ids.roll(-1, 1), 104).float()[:, logits_from:]
        wrong = [i for i, row in enumerate(prompts.ids) if torch.equal(row, samples[1].input_ids)]
        logits[wrong, -2] = 0  # the last token of one answer
        logits[wrong, -2, 50] = 1
        return found, logits

    monkeypatch.setattr(module, "one_pass", one_pass)
    run = needle_ranks(tiny, samples, ["rollout", "blank-out"], occlusion_items=1)
    assert run.items["answered"].tolist() == [True, False, True, True]
    assert sorted(run.ranks.query("method == 'rollout'")["item"]) == [0, 2, 3]
    assert len(run.ranks.query("method == 'blank-out'")) == 1


def test_a_function_of_your_own_is_ranked_beside_the_others_and_nan_never(tiny):
    samples = take(3, facts=2)
    places = {tuple(sample.input_ids[: sample.n_prompt].tolist()): sample for sample in samples}

    def knows(model, input_ids, attention_mask=None, query=-1, target=None, foil=None):
        found = [places[tuple(row.tolist())] for row in input_ids]
        assert target.tolist() == [int(sample.input_ids[sample.n_prompt]) for sample in found]
        return torch.stack([sample.reference[query].float() for sample in found])[:, : query + 1]

    methods = {"mine": knows, "nothing": lambda model, ids, **asked: ids * torch.nan, "rollout": "rollout"}
    run = needle_ranks(tiny, samples, methods, only_answered=False)
    ranks = run.ranks.set_index("method")
    assert ranks.loc["mine", "rank_prompt"].tolist() == [1, 1, 1]
    last = ranks.loc["nothing", "candidates_prompt"] - ranks.loc["nothing", "needles"] + 1
    assert (ranks.loc["nothing", "rank_prompt"] == last).all()
    assert needle_comparison(run)["first"].tolist() == ["rollout", "rollout", "mine"]
    torch.manual_seed(0)
    own = Transformer(TransformerConfig(len(char_tokenizer()), max_length=256, causal=True))
    assert len(needle_ranks(own, samples, ["rollout", knows], only_answered=False).ranks) == 6


def test_a_model_that_answers_nothing(tiny):
    run = needle_ranks(tiny, take(2), ["rollout"])
    assert not run.items["answered"].any() and run.ranks.empty
    with pytest.raises(ValueError, match="answered none of the 2 items"):
        needle_table(run)


def made_up(ranks: dict[str, list[int | None]]) -> NeedleRun:
    rows = [
        {
            "item": item,
            "facts": 2 + item % 2,
            "position": 0,
            "tokens": 30,
            "method": method,
            "rank_prompt": rank,
        }
        | {"candidates_prompt": 29, "rank_facts": 1, "candidates_facts": 20, "needles": 4}
        for method, of_items in ranks.items()
        for item, rank in enumerate(of_items)
        if rank is not None
    ]
    return NeedleRun(pd.DataFrame(), pd.DataFrame(rows))


def test_table_counts_and_draws_blindly():
    run = made_up({"rollout": [1, 6, 3, 20], "mean attention": [2, 2, 9, 9]})
    table = needle_table(run).set_index(["method", "k"])
    assert table.loc[("rollout", 1), "value"] == 0.25 and table.loc[("rollout", 5), "value"] == 0.5
    assert table.loc[("mean attention", 10), "value"] == 1 and table.loc[("mean attention", 10), "low"] < 0.6
    draws = np.random.default_rng(0).random((20_000, 29)).argsort(1)[:, :5]
    assert table.loc[("chance", 5), "value"] == pytest.approx((draws < 4).any(1).mean(), abs=0.02)
    assert (needle_table(run, among="facts").query("method == 'rollout'")["value"] == 1).all()


def test_of_fewer_candidates_than_are_taken_chance_finds_one():
    run = made_up({"rollout": [1, 2, 3, 4]})
    few = run.ranks.assign(candidates_prompt=run.ranks["candidates_prompt"].where(run.ranks["item"] > 0, 4))
    table = needle_table(run._replace(ranks=few)).set_index(["method", "k"])
    assert table.loc[("chance", 5), "n"] == table.loc[("rollout", 5), "n"] == 4
    of_all = needle_table(run).set_index(["method", "k"]).loc[("chance", 5), "value"]
    assert table.loc[("chance", 5), "value"] == pytest.approx((1 + 3 * of_all) / 4)


def test_comparison_is_mcnemar_on_shared_items_with_holm():
    run = made_up(
        {
            "rollout": [9] * 10 + [1] * 2,
            "mean attention": [1] * 10 + [9] + [1],
            "blank-out": [1, 1, None, *[None] * 9],
        }
    )
    table = needle_comparison(run, k=5).set_index(["first", "second"])
    row = table.loc[("mean attention", "rollout")]
    assert (row["only_first"], row["only_second"], row["n"]) == (10, 1, 12)
    statsmodels = pytest.importorskip("statsmodels.stats.contingency_tables")
    assert row["p"] == pytest.approx(statsmodels.mcnemar([[1, 10], [1, 0]], exact=True).pvalue)
    assert row["difference"] == pytest.approx(9 / 12) and row["p_holm"] == pytest.approx(3 * row["p"])
    assert table.loc[("rollout", "blank-out"), "n"] == 2
    assert len(needle_comparison(run, reference="rollout")) == 2


def test_kinds_of_tokens():
    tokenizer = char_tokenizer()
    text = "It's the theatre, 7!"
    ids, kinds = kinds_of(tokenizer, text)
    assert ids == tokenizer(text)["input_ids"] and kinds[0] == "first token"
    said = "".join({"function word": "f", "punctuation": ".", "other": "o"}[kind] for kind in kinds[1:])
    assert said == "oo.o.fff.ooooooo..o."


def test_mass_by_kind_is_the_rollout_of_each_layer(tiny):
    tokenizer = char_tokenizer()
    texts = ["The cat, and the hat.", "No; it is here: there!"]
    rows = mass_by_kind(tiny, tokenizer, texts)
    table = summarise(rows, ["model", "layer", "kind"], beside=["tokens"])
    assert np.allclose(table.groupby(["model", "layer"])["tokens"].sum(), 1)
    assert np.allclose(table.groupby(["model", "layer"])["value"].sum(), 1, atol=1e-5)
    values = table.set_index(["model", "layer", "kind"])["value"]
    for kind in KINDS:
        expected = {"trained": [], "untrained": [], "uniform": []}
        for text in texts:
            ids, kinds = kinds_of(tokenizer, text)
            mask = torch.tensor([each == kind for each in kinds])
            for name, model in (("trained", tiny), ("untrained", untrained_twin(tiny))):
                rolled = rollout_of(model, torch.tensor([ids]), cumulative=True)[0, 1, -1]
                expected[name].append(float(rolled[mask].sum()))
            expected["uniform"].append(float(uniform_causal_rollout(len(ids), 2)[-1, mask].sum()))
        for name, masses in expected.items():
            assert values[(name, 2, kind)] == pytest.approx(np.mean(masses), abs=1e-5)


def test_the_studys_reading_is_the_mean_over_layers_of_the_generative_matrix(stories):
    model, tokenizer = stories
    ids = tokenizer("Lily had a red ball. Lily played with the", return_tensors="pt").input_ids
    result = generate_with_rollout(model, ids, 1, do_sample=False)
    scores = from_attention(mean_rolled)(model, ids)
    torch.testing.assert_close(scores[0], result.mean_over_layers()[0], atol=1e-5, rtol=0)


def test_ranks_with_the_studys_filter_are_among_what_it_leaves(tiny):
    tokenizer, items = char_tokenizer(), take(4, facts=2)

    def keep(ids):
        return informative(ids, tokenizer, filtered_by_study)

    run = needle_ranks(tiny, items, ["mean attention"], only_answered=False, informative=keep)
    scores = attributions(tiny, items[0].input_ids[: items[0].n_prompt], "mean attention")["mean attention"]
    query = items[0].n_prompt - 1
    kept = [place for place in range(query) if tokenizer.decode(items[0].input_ids[place]) not in ".:,"]
    order = sorted(kept, key=lambda place: -float(scores[place]))
    needle = items[0].reference[query].nonzero().flatten().tolist()
    first = run.ranks.iloc[0]
    assert first["rank_prompt, filtered"] == 1 + min(order.index(place) for place in needle)
    assert first["candidates_prompt, filtered"] == len(kept) < first["candidates_prompt"]
    assert first["candidates_facts, filtered"] == first["candidates_facts"] - 2  # two full stops
    found = needle_table(run, among="facts, filtered").set_index(["method", "k"])["value"]
    blind = needle_table(run, among="facts").set_index(["method", "k"])["value"]
    assert found["chance", 5] > blind["chance", 5]
    plain = needle_ranks(tiny, items, ["mean attention"], only_answered=False).ranks
    assert plain.equals(run.ranks[plain.columns])
    with pytest.raises(ValueError, match="should keep the needle's own tokens"):
        needle_ranks(tiny, items, "rollout", only_answered=False, informative=lambda ids: ids < 0)


def test_what_the_chapter_records(tiny):
    masses = mass_by_kind(tiny, char_tokenizer(), ["one, two", "a b c d", "the end."])
    kinds = summarise(masses, ["model", "layer", "kind"])
    rows = measured(masses, None)
    assert rows["metric"].is_unique and len(rows) == len(kinds) + 2 * 3
    assert (rows["value"].iloc[: len(kinds)].to_numpy() == kinds["value"].to_numpy()).all()
    told = rows.set_index("metric")
    for model in ("trained", "untrained", "uniform"):
        where = masses["model"].eq(model) & masses["layer"].eq(2) & masses["kind"].eq("first token")
        for end, value in {
            "least": masses["value"][where].min(),
            "most": masses["value"][where].max(),
        }.items():
            row = told.loc[f"{model}, first token, layer 2, {end}"]
            assert row[["value", "low", "high", "n"]].tolist() == [value, value, value, 3]

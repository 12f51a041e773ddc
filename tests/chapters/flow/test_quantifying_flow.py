"""The chapter on quantifying attention flow: its parameters and runs, tables and verdicts."""

import myst_nb
import numpy as np
import pandas as pd
import pytest
import scipy
import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification

from attnlib.generators.tokenizer import char_tokenizer
from attnlib.models.pretrained import ModelUnavailable
from attnlib.stats import corrected
from book.chapters.flow import QuantifyingFlow, sentences, tables
from book.chapters.flow.measures import FLOW, GRADIENT, OCCLUSION, RAW, ROLLOUT, WORDS
from book.chapters.flow.quantifying_flow import FlowRun
from book.chapters.records import paper_figures
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of, profile

QUICK = defaults_of("quantifying_flow")
SMOKE = QUICK | profile("quantifying_flow", "smoke")

LINZEN = "number\tn_attractors\tverb_index\tsentence\n" + "".join(
    f"{('singular', 'plural')[n % 2]}\t0\t3\tthe {'cat' if n % 2 == 0 else 'cats'} n{n} sit\n"
    for n in range(1900)
)


def params(**changes):
    return QuantifyingFlow.checked(SMOKE | changes)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "linzen_verb_number_filtered.tsv").write_text(LINZEN)
    return str(tmp_path)


def test_every_corpus_and_seed_has_a_model_and_a_twin(folder):
    p = params(corpora=["linzen", "templates"], seeds=[0, 2], looks_back=True, folder=folder)
    names = [run.name for run in p.runs()]
    assert names[:2] == ["templates, seed 0", "templates, seed 0, untrained"]
    assert "linzen, seed 2, untrained" in names and "templates, looking back, seed 2" in names
    assert len(names) == len(set(names)) == 12 and p.label == "templates+linzen"
    assert set(p.run_table()) == {"run", "seed", "data", "causal", "untrained"}


def test_no_sentence_is_in_two_splits_and_words_of_all_are_read(folder):
    p = params(corpora=["templates", "linzen"], folder=folder)
    for data, parts in p.splits.items():
        words = [each.words for part in parts.values() for each in part]
        assert len(set(words)) == len(words)
        batch = p.task(FlowRun("", 0, data)).batch(parts["test"])
        assert not (batch.input_ids == p.vocabularies[data].ids["<unk>"]).any()
    assert len(p.learned("linzen")) == 400 + len(p.splits["templates"]["train"])


def test_linzens_model_begins_with_the_weights_of_templates(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path / "cache"))
    p = params(corpora=["linzen"], folder=folder)
    model = p.setup(p.runs()[0]).model
    first = p.trained["templates, seed 0"].model
    assert torch.equal(model.layers[1].up.weight, first.layers[1].up.weight)
    ours, theirs = p.vocabularies["linzen"].ids, p.vocabularies["templates"].ids
    assert torch.equal(model.embedding.weight[ours["doors"]], first.embedding.weight[theirs["doors"]])
    assert "cats" in ours and "cats" not in theirs
    assert model.config.dropout == 0.2


def test_the_twin_has_the_weights_that_training_begins_with():
    p = params()
    run, twin = p.runs()
    assert p.setup(twin).plan is None
    for one, other in zip(p.setup(run).model.parameters(), p.setup(twin).model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sentence": "..." * 40}, "1 to 99 words"),
        ({"n_heads": 3}, "n_heads must divide width=16"),
        ({"sentences": 5}, "sentences"),
        ({"classifier": "a/b"}, r"classifier is asked of sst only: add it to corpora; got \['templates'\]"),
        ({"corpora": ["sst"], "looks_back": True}, "or say -p looks_back false"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(changes, message):
    with pytest.raises(ParameterError, match=message):
        params(**changes)


# ---- tables ----------------------------------------------------------------------------------------------


def rows_of(values, seed=0, **about):
    """Rows of some sentences: `values[way][layer - 1]`, a number per sentence each."""
    parts = [
        pd.DataFrame({"sentence": range(len(each)), "way": way, "layer": layer, "value": each})
        for way, layers in values.items()
        for layer, each in enumerate(layers, 1)
    ]
    model = {"data": "templates", "causal": False, "untrained": False, "seed": seed}
    return pd.concat(parts).assign(**model, relevance=OCCLUSION, items=WORDS, **about)


RNG = np.random.default_rng(0)
NOISE = RNG.normal(0, 0.02, (3, 40))
BETTER = {
    RAW: [NOISE[0] + 0.4, NOISE[0] + 0.1, NOISE[0] + 0.5],
    ROLLOUT: [NOISE[1] + 0.2, NOISE[1] + 0.3, NOISE[1] + 0.6],
    FLOW: [NOISE[2] + 0.2, NOISE[2] + 0.3, NOISE[2] + 0.4],
}


def test_the_verdict_is_by_layer_from_the_second():
    found = tables.advantages(rows_of(BETTER))
    assert found[(found["way"] == ROLLOUT) & (found["layer"] == 1)]["high"].item() < 0
    verdict = tables.verdicts(found).set_index("way")
    assert verdict.loc[ROLLOUT, ["better", "worse", "unsettled", "verdict"]].tolist() == [
        *("2, 3", "none", "none", "reproduced"),
    ]
    assert verdict.loc[FLOW, ["better", "worse", "unsettled", "verdict"]].tolist() == [
        *("2", "3", "none", "not reproduced"),
    ]
    assert verdict.loc[FLOW, "smallest"] == pytest.approx(-0.1, abs=0.02)


def test_a_claim_goes_by_the_mean_over_layers_corrected_for_the_corpora():
    """Layers of one model are alike, and of fifteen intervals one or another misses 0 by chance."""
    ahead = {"templates": [0.2, 0.21, 0.22], "linzen": [0.013, 0.02, 0.027], "sst": [-0.1, 0.1, 0.01]}
    rows = [
        tables.advantages(rows_of(BETTER, seed).assign(data=corpus)).assign(value=value)
        for corpus, values in ahead.items()
        for seed, value in enumerate(values)
    ]
    about = {"metric": tables.ADVANTAGE, "tested on": "", "slip": ""}
    recorded = pd.concat(rows).assign(**about).reindex(columns=tables.RECORD_COLUMNS)
    recorded.loc[recorded["layer"] == 1, "value"] = -9.0  # the claim begins with the second
    found = tables.over_layers(recorded).query("way == @ROLLOUT").set_index("data")
    assert found["value"].tolist() == pytest.approx([0.21, 0.02, 0.01 / 3])
    alone = [scipy.stats.ttest_1samp(values, 0).pvalue for values in ahead.values()]
    assert found["p_holm"].tolist() == pytest.approx(corrected(np.array(alone)))
    assert found["above"].tolist() == [True, False, False] and found.loc["linzen", "low"] > 0
    said = sentences.corpora_ahead(recorded)
    assert (said["over seeds: rollout, corpora"], said["over seeds: rollout, corpora above"]) == (3, 1)
    assert "on templates; on sentences from Wikipedia and on movie reviews" in said["rollout is ahead"]


@pytest.mark.parametrize(
    ("above", "below", "said"),
    [
        ("ab", "", "agrees with occlusion better than raw attention does on a and on b; on c the difference "
         "is not significant"),
        ("abc", "", "agrees with occlusion better than raw attention does on a and on b and on c"),
        ("a", "bc", "agrees with occlusion better than raw attention does on a and agrees with occlusion "
         "less than raw attention does on b and on c"),
        ("", "c", "agrees with occlusion less than raw attention does on c; on a and on b the difference is "
         "not significant"),
        ("", "", "does not agree with occlusion significantly better or less than raw attention does"),
    ],
)  # fmt: skip
def test_where_rollout_is_ahead_is_said_as_it_is(above, below, said):
    found = pd.DataFrame(
        {"data": [*"abc"], "above": [name in above for name in "abc"],
         "below": [name in below for name in "abc"]}
    )  # fmt: skip
    assert sentences.ahead_clause(found) == said


def test_without_models_of_templates_no_share_of_subjects_is_said(monkeypatch):
    told = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: told.update({name: value}))
    named = pd.DataFrame({"way": [OCCLUSION, GRADIENT], "layer": 0, "value": [0.94, 0.5]})
    sentences.tell_subject(named, 0.9)
    assert told["subject first"].endswith("first in 94 % of the sentences, and the gradient in 50 %")
    sentences.tell_subject(named[:0], 0.9)
    assert told["subject first"].startswith("no model has learned the templates")


def test_further_seeds_are_taken_together_and_each_model_counts_once(monkeypatch):
    """Those of the same parameters; a model that is in two records is of the one with more models."""
    made = {"a": [0, 1, 2], "b": [2, 3], "other": [7]}
    rows = pd.concat(
        rows_of(BETTER, seed).assign(record=name, metric=tables.AGREEMENT, slip="", value=place)
        for place, (name, seeds) in enumerate(made.items())
        for seed in seeds
    )
    rows = pd.concat([rows, rows.query("record == 'b'").assign(metric=tables.SLIP)])
    kinds = {"a": "a", "b": "a", "other": "other"}
    monkeypatch.setattr(tables, "made_alike", lambda names, but: {name: kinds[name] for name in names})
    found = tables.recorded(rows)
    assert found.groupby("seed")["record"].unique().map(list).to_dict() == {
        0: ["a"],
        1: ["a"],
        2: ["a"],
        3: ["b"],
    }
    assert set(found["metric"]) == {tables.AGREEMENT}, "what slips change is of the first record"


def test_means_have_a_spread_and_seeds_an_interval_of_their_own():
    one = tables.by_layer(rows_of(BETTER))
    first = one[(one["way"] == RAW) & (one["layer"] == 1)].iloc[0]
    assert first["spread"] == pytest.approx(np.std(BETTER[RAW][0], ddof=1)) and first["n"] == 40
    assert tables.of_all_seeds(one)["n"].eq(40).all()
    apart = {way: [each + 0.2 for each in layers] for way, layers in BETTER.items()}
    both = pd.concat([rows_of(BETTER), rows_of(apart, seed=1)])
    means = tables.of_all_seeds(tables.by_layer(both))
    row = means[(means["way"] == RAW) & (means["layer"] == 1)].iloc[0]
    assert row["n"] == 2 and row["value"] == pytest.approx(0.5, abs=0.02)
    assert row["high"] - row["low"] > 1  # two seeds that are .2 apart settle nothing


def test_no_interval_of_a_share_ends_above_1():
    same = dict.fromkeys(tables.RECORD_COLUMNS, "") | {"n": 500, "spread": 0.1}
    rows = pd.DataFrame(same | {"seed": [0, 1, 2], "value": [0.97, 0.99, 1.0]})
    highest = {
        metric: tables.of_record(rows.assign(metric=metric), metric)["high"].item()
        for metric in (tables.ACCURACY, tables.SUBJECT, tables.AGREEMENT)
    }
    assert highest[tables.ACCURACY] == highest[tables.SUBJECT] == 1 < highest[tables.AGREEMENT]


def test_what_a_slip_is_worth_and_averages_that_run_over_layers():
    moved = {way: [each + 0.05 for each in layers] for way, layers in BETTER.items()}
    rows = pd.concat([rows_of(BETTER, slip="none"), rows_of(moved, slip="dense ranks")])
    found = tables.of_slips(rows).set_index(["slip", "way", "layer"])["value"]
    assert found["dense ranks", FLOW, 2] == pytest.approx(0.05)
    assert found["running averages", RAW, 1] == pytest.approx(0)
    assert found["running averages", RAW, 2] == pytest.approx(0.15)
    assert found["running averages", RAW, 3] == pytest.approx((0.4 + 0.1 + 0.5) / 3 - 0.5)


def test_the_papers_table_stands_above_ours():
    figures = paper_figures()
    figures = figures[figures["table"].str.startswith("Quantifying Attention Flow Table 1")]
    means = tables.of_all_seeds(tables.by_layer(rows_of(BETTER)))
    found = tables.beside_the_paper(means, figures)
    assert found.index.tolist() == [
        (way, source) for way in (RAW, ROLLOUT, FLOW) for source in ("paper", "here")
    ]
    assert found.loc[(RAW, "paper"), "layer 3"] == "-0.11 ± 0.49"
    assert found.loc[(ROLLOUT, "here"), "layer 2"].startswith("0.3")
    assert found.loc[(ROLLOUT, "here"), "layer 6"] == "not run"


def test_a_record_names_every_number_once():
    rows = rows_of(BETTER)
    subjects = tables.by_layer(rows.assign(found=True).drop(columns=["value"]), ["way", "layer"])
    accuracy = pd.DataFrame(
        {"data": ["templates"], "causal": False, "untrained": False, "seed": 0, "tested on": "templates"}
    ).assign(value=0.9, low=0.8, high=1.0, n=40)
    slips = tables.of_slips(rows_of(BETTER, slip="none"))
    found = tables.to_record(tables.by_layer(rows), subjects, tables.advantages(rows), accuracy, slips)
    assert list(found) == tables.RECORD_COLUMNS
    assert not found.duplicated([*tables.MODEL, "metric", *tables.SETTINGS]).any()
    assert set(found["metric"]) == {
        *(tables.AGREEMENT, tables.ADVANTAGE, tables.SUBJECT, tables.ACCURACY, tables.SLIP),
    }
    assert found["value"].notna().all()
    again = tables.verdicts(found[found["metric"] == tables.ADVANTAGE])
    assert again.equals(tables.verdicts(tables.advantages(rows)))


def test_the_record_with_the_most_models_is_shown():
    rows = pd.DataFrame(columns=["record", *tables.RECORD_COLUMNS])
    assert tables.recorded(rows).empty
    made = [dict(zip(tables.MODEL, ["templates", False, False, seed], strict=True)) for seed in (0, 0, 1)]
    made = [
        each | {"record": name, "metric": tables.AGREEMENT}
        for each, name in zip(made, ("a", "b", "b"), strict=True)
    ]
    assert set(tables.recorded(pd.DataFrame(made))["record"]) == {"b"}


# ---- a classifier of the reader's ------------------------------------------------------------------------


@pytest.fixture
def reviews(tmp_path):
    """A folder of reviews, and one with a DistilBERT of random weights that reads characters."""
    rng = np.random.default_rng(0)
    for split, n in (("train", 40), ("validation", 20), ("test", 24)):
        words = [
            rng.choice(["good", "bad", "film", "plot", "long", "short", "fine", "dull"], 6) for _ in range(n)
        ]
        lines = [f"{4 * (row % 2)}\t{' '.join(each)}" for row, each in enumerate(words)]
        (tmp_path / f"{split}.tsv").write_text("label\ttext\n" + "\n".join(lines) + "\n")
    tokenizer = char_tokenizer()
    tokenizer.add_special_tokens({"mask_token": "~"})
    torch.manual_seed(0)
    sizes = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": 64}
    model = DistilBertForSequenceClassification(DistilBertConfig(vocab_size=len(tokenizer), **sizes))
    for each in (tokenizer, model):
        each.save_pretrained(tmp_path / "classifier")
    return tmp_path


def test_a_classifier_of_the_readers_is_explained_beside_ours(reviews, monkeypatch):
    monkeypatch.setenv("ATTNLIB_CACHE", str(reviews / "cache"))
    name = str(reviews / "classifier")
    p = params(corpora=["sst"], folder=str(reviews), classifier=name, sentences=12, steps=10)
    models, _ = p.train_all()
    assert list(models)[-1] == f"sst, {name}"
    rows = p.agreement(models)
    theirs = rows[rows["data"] == f"sst, {name}"]
    assert set(theirs["layer"]) == {0, 1, 2} and theirs["value"].notna().all()
    accuracy = p.accuracy(models)
    assert accuracy.groupby("run")["right"].count().tolist() == [24, 24]
    task = p.task(p.runs()[-1])
    batch = task.batch(p.shown(p.runs()[-1])[:3])
    assert task.known(batch).sum(1).tolist() == [task.length(each) - 1 for each in p.shown(p.runs()[-1])[:3]]
    assert task.replacement == task.tokenizer.mask_token_id


def test_a_classifier_that_is_not_there_is_an_error_with_advice(reviews):
    (reviews / "config.json").write_text("{}")
    p = params(corpora=["sst"], folder=str(reviews), classifier=str(reviews))
    with pytest.raises(ModelUnavailable, match="could not be loaded as a text classifier"):
        p.setup(p.runs()[-1])

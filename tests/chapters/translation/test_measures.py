"""Alignment error from the largest scores, translations by sacrebleu, and runs of translators."""

import numpy as np
import pytest
import torch

from attnlib.generators.translation import invented, lexicon
from attnlib.models.bag_of_words import BagConfig, WordTranslation, word_translation_loss
from attnlib.models.bag_of_words import word_translation_scores as held_out
from attnlib.models.seq2seq import Seq2Seq, Seq2SeqConfig
from attnlib.stats import Agreements, AgreementSettings, Ragged
from attnlib.stats.agreement_runs import UNIFORM
from book.chapters.translation.alignment import (
    OFFSETS,
    alignment_rows,
    alignment_table,
    target_offsets,
)
from book.chapters.translation.figures import sentences_over_training, text_over_training
from book.chapters.translation.measures import (
    bleu,
    source_scores,
    translation_quality,
    translation_run,
    translations,
    with_bleu,
    word_translation_run,
    word_translation_scores,
)
from tests.parameters import smallest

SIZES = {"train_sentences": 40, "validation_sentences": 6, "test_sentences": 6}


@pytest.fixture(scope="module")
def data():
    return invented(**SIZES)


def model_for(data, seed=0, **settings):
    torch.manual_seed(seed)
    return Seq2Seq(Seq2SeqConfig(len(data.subwords), hidden=8, layers=1, dropout=0.0, **settings)).eval()


# ---- alignment error


def test_alignment_error_of_a_case_counted_by_hand():
    lengths = np.array([3, 3, 3, 3])
    true = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1]], dtype=bool)
    score = Ragged(np.array([[9, 1, 1], [0, 0, 5], [1, 2, 3], [4, 1, 4]], dtype=float).ravel(), lengths)
    rows = alignment_rows({"alpha": score}, true.ravel(), np.array([0, 0, 0, 1]))
    alpha = rows[rows["score"] == "alpha"].set_index("sentence")
    # sentence 0 has two words, both right, of three true links; sentence 1 the first of equals, two before
    assert alpha.loc[0, ["targets", "wrong", "links", "on it"]].tolist() == [2, 1, 5, 2]
    assert alpha.loc[1, ["targets", "wrong", "links", "on it", "more before"]].tolist() == [1, 2, 2, 0, 1]
    table = alignment_table(rows).set_index(["score", "metric"])["value"]
    assert table["alpha", "AER"] == pytest.approx(1 - 2 * 2 / (3 + 4))
    assert table["alpha", "on it"] == pytest.approx(2 / 3)
    blind = rows[rows["score"] == "any token"].set_index("sentence")
    assert blind.loc[0, "on it"] == pytest.approx(1 / 3 + 2 / 3)
    assert blind.loc[0, "wrong"] == pytest.approx((2 - 2 / 3) + (3 - 4 / 3))
    assert blind.loc[1, ["more before", "one before", "on it"]].tolist() == pytest.approx([1 / 3] * 3)


def test_the_truth_has_no_error_and_offsets_add_up(data):
    pairs = data.test
    lengths, true, groups = pairs.row_lengths.numpy(), pairs.alignment.numpy(), pairs.sentences.numpy()
    rng = np.random.default_rng(0)
    scores = {"truth": Ragged(true.astype(float), lengths), "noise": Ragged(rng.random(len(true)), lengths)}
    rows = alignment_rows(scores, true, groups)
    np.testing.assert_allclose(rows[list(OFFSETS)].sum(axis=1), rows["targets"])
    assert rows["targets"].sum() == 3 * (len(lengths) - len(pairs))  # <eos> translates nothing
    table = alignment_table(rows).set_index(["score", "metric"])
    single = (true.astype(int).sum() - (len(lengths) - len(pairs))) / true.sum()
    assert table.loc[("truth", "on it"), "value"] == 1
    assert table.loc[("truth", "AER"), "value"] <= single  # of a phrasal verb's two links one is made
    # the nearest of two as near is the one before; an offset is counted from there
    offsets = target_offsets(scores["noise"], true)
    assert np.isnan(offsets).sum() == len(pairs)
    for row in range(0, len(lengths), 3):
        start = lengths[:row].sum()
        places = np.flatnonzero(true[start : start + lengths[row]])
        if len(places):
            at = int(scores["noise"].rows()[row].argmax())
            wanted = min((abs(at - place), place - at, at - place) for place in places)[2]
            noise = {"noise": scores["noise"].take(np.array([row]))}
            one = alignment_rows(noise, true[start : start + lengths[row]], np.zeros(1, int))
            assert one.iloc[0][OFFSETS[np.clip(wanted, -2, 2) + 2]] == 1 and offsets[row] == wanted


# ---- translations


def test_quality_is_sacrebleus_with_an_interval_and_its_signature():
    import sacrebleu

    said = ["the cat sat on the mat", "a dog barks", "", "two men ride"]
    right = ["the cat sat on a mat", "the dog barks loudly", "one", "two men ride bicycles"]
    table = translation_quality(said, right).set_index("metric")
    assert table.loc["BLEU", "value"] == pytest.approx(sacrebleu.corpus_bleu(said, [right]).score)
    assert table.loc["chrF", "value"] == pytest.approx(sacrebleu.corpus_chrf(said, [right]).score)
    assert (table["low"] < table["value"]).all() and (table["value"] < table["high"]).all()
    assert (table["empty"] == 1).all() and "tok:13a" in table.loc["BLEU", "signature"]


def test_empty_translations_count_and_empty_references_are_refused():
    assert (translation_quality(["", " "], ["one", "two"])["value"] == 0).all()
    with pytest.raises(ValueError, match="as many translations as references"):
        translation_quality(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="number 1 of 2 has none"):
        translation_quality(["a", "b"], ["a", " "])


def test_translations_are_in_the_order_of_the_sentences(data):
    model = model_for(data)
    whole = translations(model, data.test, data.subwords, max_length=9)
    alone = [translations(model, data.test[i : i + 1], data.subwords, max_length=9)[0] for i in range(6)]
    assert whole == alone
    assert 0 <= bleu(model, data.test, data.subwords, width=2) <= 100


# ---- the word-translation model


def test_word_translation_learns_the_dictionary_and_ignores_padding(data):
    torch.manual_seed(0)
    model = WordTranslation(BagConfig(len(data.subwords), 16))
    batch = data.train.batch(torch.arange(7))
    lines = model(batch.source, batch.source_lengths)
    by_hand = [-lines[row, batch.predicted[row][batch.real[row]]] for row in range(7)]
    torch.testing.assert_close(word_translation_loss(model, batch), torch.cat(by_hand).mean())
    parts = held_out(model, data.train.in_batches(3))["cross_entropy"]
    assert parts == pytest.approx(held_out(model, data.train.in_batches(40))["cross_entropy"])
    relevance = model.relevance()
    torch.testing.assert_close(relevance.exp().sum(1), torch.ones(len(relevance)))
    beta = word_translation_scores(relevance, data.test)
    assert beta[3] == relevance[data.test.source_of_pair[3], data.test.target_of_pair[3]]
    run = word_translation_run(model, data.test)
    assert run.beta.shape == (1, len(beta)) and len(run.groups) == len(run.lengths)


# ---- runs


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    seeds = {"seed 1": (1, False), "seed 2": (2, False), "uniform": (3, True)}
    found = {}
    for name, (seed, uniform) in seeds.items():
        models = {step: model_for(data, seed + 10 * step, uniform=uniform) for step in (0, 5)}
        deltas, folder = () if uniform else (0, 5), tmp_path_factory.mktemp("run")
        found[name] = translation_run(models.__getitem__, (0, 5), data.test, folder, deltas)
    return found


def test_runs_serve_the_agreement_tables(data, runs):
    settings = AgreementSettings(as_published=True, flip_delta=False)
    table = Agreements.of(runs, settings=settings).table().set_index("metric")
    assert {"A(alpha, beta_uf)", "A(delta, beta_uf)", "A(alpha, beta)", "xi*"} <= set(table.index)
    assert table.loc["A(alpha, beta_uf)", "n"] == len(data.test.row_lengths)
    in_bleu = {name: with_bleu(run, [1.0, 2.0]) for name, run in runs.items()}
    of_bleu = Agreements.of(in_bleu, settings=settings).table().set_index("metric").loc["xi*"]
    assert of_bleu["value"] == 0.02 and of_bleu[["low", "high"]].isna().all()
    assert table.loc["xi*", ["low", "high"]].notna().all()


def test_stages_draw_sentences_again(runs):
    table = Agreements.of(runs, settings=AgreementSettings(as_published=True)).stages()
    alone = {name: run.take(np.arange(len(run.lengths))) for name, run in runs.items()}
    for run in alone.values():
        object.__setattr__(run, "groups", None)
    other = Agreements.of(alone, settings=AgreementSettings(as_published=True)).stages()
    np.testing.assert_allclose(table["value"], other["value"])
    assert (table["low"] != other["low"]).any()


def test_scores_are_kept_by_the_sentences_and_computed_again_if_damaged(data, tmp_path, caplog):
    model, asked = model_for(data), []

    def model_at(step):
        asked.append(step)
        return model

    folder = tmp_path / "run" / "scores"
    first = translation_run(model_at, (0, 5), data.test, folder, delta_at=[5])
    again = translation_run(model_at, (0, 5), data.test, folder, delta_at=[5])
    assert asked == [0, 5]
    for name in ("alpha", "delta"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert not first.delta[0].any() and first.delta[1].any()
    translation_run(model_at, (0,), data.validation, folder)
    assert asked == [0, 5, 0] and not caplog.records
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    damaged = translation_run(model_at, (0, 5), data.test, folder)
    assert len(asked) == 5 and np.array_equal(first.alpha, damaged.alpha) and damaged.delta is None
    assert "damaged" in caplog.text and "made again" in caplog.text


def test_sentences_for_the_explorer(data):
    models = {0: model_for(data, 1), 5: model_for(data, 2)}
    at, meanings = models.__getitem__, lexicon().meanings
    shown = sentences_over_training(data, [0, 2], at, (0, 5), at, meanings)
    assert len(shown) == 2
    (_, second) = shown.values()
    scores = source_scores(models[5], data.test[2:3])
    shape = (len(second["targets"][0]), len(second["source"]))
    np.testing.assert_allclose(second["scores"]["α"][1].ravel(), scores.alpha, atol=1e-5)
    np.testing.assert_allclose(second["scores"]["β"][1].ravel(), scores.beta.exp(), atol=1e-5)
    assert {each.shape for each in second["scores"].values()} == {(2, *shape)}
    assert second["truth"].shape == shape
    assert second["expected"] == data.test.texts[2][1]
    for tokens in (second["source"][1:-1], second["targets"][0][:-1]):
        assert all(meanings[word] == meaning for meaning, word in (token.split("·") for token in tokens))
    typed = text_over_training(data, "gogo xyz", at, (0, 5), at, meanings)
    assert typed["source"] == ["<bos>", "a·gogo", "<unk>", "<eos>"]
    assert len({len(each) for each in typed["targets"]}) == 1 and len(typed["written"]) == 2
    assert typed["scores"]["Δ"].shape == (2, len(typed["targets"][0]), 4)


def test_the_translator_of_relevance_attends_evenly_and_those_that_are_explained_do_not():
    p = smallest("translation_dynamics")
    even = {run.name: p.setup(run).model.config.uniform for run in p.runs()}
    assert even.pop(UNIFORM) is True and even and not any(even.values())

"""Questions whose sources are known: on texts that were typed, with the positions spelled out."""

from __future__ import annotations

import pytest
import torch

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import TASKS, task
from attnlib.generators.arithmetic import arithmetic
from attnlib.generators.classification import Planting, Vocabulary, lexicon, planted
from attnlib.generators.classification.corpus import Row, encode
from attnlib.generators.copying import Copying
from attnlib.generators.needle import NeedleGenerator
from attnlib.generators.rasp import language
from attnlib.generators.tokenizer import SPECIAL
from attnlib.generators.translation import invented
from attnlib.generators.translation import lexicon as dictionary
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.copier import Copier, CopierConfig
from attnlib.models.seq2seq import Seq2Seq, Seq2SeqConfig
from book.chapters.attribution_benchmark.questions import (
    about_answers,
    about_copies,
    about_documents,
    about_facts,
    about_programs,
    about_sentences,
    gathered,
    some,
)
from book.chapters.attribution_benchmark.single_head import ReadCopies, ReadSentences

SEEDS = range(30)
"""So many that every place that may be asked about is."""


def places(mask):
    return set(mask.nonzero().flatten().tolist())


def sound(question):
    """What is true of every question."""
    assert question.truth.any() and not (question.truth & ~question.candidates).any()
    assert not question.candidates[question.query] and not question.truth[question.query]
    assert question.foil != question.target
    differs = question.ids != question.counterfactual
    assert (differs & question.truth).any()
    return question


def sources(asked):
    """The truth by the query, of questions about one text that were drawn in many ways."""
    found = {}
    for question in map(sound, asked):
        assert found.setdefault(question.query, places(question.truth)) == places(question.truth)
    return found


# ---- programs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, text, truth",
    [  # the beginning is token 0
        ("reverse", "cab", {1: {3}, 3: {1}}),
        ("sort", "cab", {1: {2}, 2: {3}, 3: {1}}),
        ("hist", "abbcb", {2: {3, 5}, 3: {2, 5}, 5: {2, 3}}),
    ],
)
def test_the_last_selector_of_a_program_is_the_truth(name, text, truth):
    lang = language(name, 10, bos=True)
    asked = [q for seed in SEEDS for q in about_programs(lang, lang.encode(text), seed=seed)]
    assert sources(asked) == truth
    for question in asked:
        assert places(question.candidates) == set(range(1, len(text) + 1)) - {question.query}
        assert lang.tokenizer.decode(question.ids[1:]) == text
        other = lang.tokenizer.decode(question.counterfactual[1:])
        of_text, of_other = lang.outputs(text), lang.outputs(other)
        assert of_text[question.query - 1] == lang.classes[question.target]
        assert of_other[question.query - 1] == lang.classes[question.foil]


def test_sequences_without_a_source_are_not_asked_about():
    lang = language("hist", 10, bos=True)
    assert [*about_programs(lang, lang.encode("abc"))] == []


# ---- answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, settings, text, truth",
    [  # token n is character n - 1, and predicts character n
        ("long_addition", {}, "1240+4335=5575", {10: {1, 6}, 11: {2, 7}, 12: {3, 8}, 13: {4, 9}}),
        (
            "long_addition",
            {"enlarged": True},
            "70+80=51",
            {6: {1, 4}, 7: {1, 2, 4, 5}},
        ),
        (
            "long_multiplication",
            {"pad_with_zeros": False},
            "34*51=512+034=546",
            {6: {1, 4}, 7: {2, 4}, 11: {1, 5}, 12: {2, 5}},
        ),
        ("string_reversal", {}, "abc=cba", {4: {3}, 5: {2}, 6: {1}}),
        ("successor", {}, "42 43 ", {3: {1, 2}, 4: {1, 2, 3}}),
        ("value_assignment", {}, "A1B2 BA=21", {8: {3, 4, 6}, 9: {1, 2, 7}}),
        ("flip_flop", {}, "w11i11f10w00r10", {14: {1, 2, 3, 7, 8}}),
    ],
)
def test_the_reference_of_an_answer_is_the_truth(name, settings, text, truth):
    generator = task(name, char_tokenizer(), **settings)
    sample = generator.annotate(text)
    asked = [q for seed in SEEDS for q in about_answers(generator, [sample], seed=seed)]
    found = sources(asked)
    assert {query: found.get(query) for query in truth} == truth
    for question in asked:
        assert places(question.candidates) == set(range(1, question.query))
        assert len(question.ids) == question.query + 1
        assert generator.tokenizer.decode(question.target) == text[question.query]


def test_a_register_that_nobody_wrote_and_a_space_between_numbers_are_not_asked_about():
    flip_flop, successor = (task(name, char_tokenizer()) for name in ("flip_flop", "successor"))
    assert [*about_answers(flip_flop, [flip_flop.annotate("w11i11r00")])] == []
    series = successor.annotate("7 8 9 ")
    asked = {q.query for s in SEEDS for q in about_answers(successor, [series], seed=s)}
    assert asked == {2, 4}  # the spaces before 8 and before 9, and not the digits that spaces follow


@pytest.mark.parametrize("name", TASKS)
def test_the_counterfactual_of_an_answer_is_a_text_of_the_task(name):
    generator = task(name, char_tokenizer(), length=(3, 5), split="test")
    asked = []
    for sample in generator.samples(40):
        asked += [sound(question) for question in about_answers(generator, [sample])][:1]
        if asked and asked[-1].query == len(sample.text) - 1 and name != "successor":
            prompt, last = asked[-1].counterfactual[1:], asked[-1].foil  # up to the last character
            other = generator.annotate(generator.tokenizer.decode([*prompt.tolist(), last]))
            assert len(other.text) == len(sample.text)
    assert len(asked) >= 10


def test_another_text_of_the_same_form_may_be_the_counterfactual():
    generator = task("long_addition", char_tokenizer())
    texts = ["1240+4335=5575", "2270+1111=3381", "12+34=46", "1240+4336=5576"]
    text, *others = (generator.annotate(each) for each in texts)
    for seed in SEEDS:
        for question in about_answers(generator, [text], others=others, seed=seed):
            place = question.query
            allowed = [each[: place + 1] for each in (texts[1], texts[3]) if each[place] != texts[0][place]]
            prompt = generator.tokenizer.decode(question.counterfactual, skip_special_tokens=True)
            assert prompt + generator.tokenizer.decode(question.foil) in allowed
    sums = arithmetic("+")
    (question,) = about_answers(sums, [sums.annotate("12+34=46")], others=[sums.annotate("20+50=70")])
    assert sums.tokenizer.decode(question.counterfactual[1:7]) == "20+50="
    assert [*about_answers(sums, [sums.annotate("12+34=46")], others=[sums.annotate("1+5=6")])] == []


def test_other_sequences_documents_and_prompts_may_be_counterfactuals(languages):
    lang = language("sort", 10, bos=True)
    drawn = lang.sequences(6, split="test", min_length=4, max_length=9)
    for question in about_programs(lang, drawn, others=True):
        text = lang.tokenizer.decode(question.counterfactual[1:])
        assert lang.outputs(text)[question.query - 1] == lang.classes[question.foil]
        assert question.foil != question.target
    corpus = planted(train_documents=300, validation_documents=20, test_documents=60)
    rows = [(tuple(d.tolist())) for d in corpus.test.tokens.split(corpus.test.lengths.tolist())]
    label = dict(zip(rows, corpus.test.labels.tolist(), strict=True))
    asked = [*about_documents(corpus.vocabulary, corpus.test, others=True)]
    assert len(asked) > 20
    for question in asked:
        assert label[tuple(question.counterfactual.tolist())] == question.foil != question.target
    data, model = languages
    asked = [*about_sentences(model, data.subwords, data.test, dictionary(), others=data.test)]
    whole = {tuple(data.test[slice(i, i + 1)].source.tolist()): data.test[slice(i, i + 1)] for i in range(30)}
    assert len(asked) > 10
    for question in asked:
        n = int((question.ids < len(data.subwords)).sum())
        other = whole[tuple(question.counterfactual[:n].tolist())]
        assert other.target[len(question.ids) - n + 1] == question.foil != question.target
    generator = NeedleGenerator(char_tokenizer(), opening="")
    other = TEXT.replace("Kira", "Nina").replace("1936", "2000")
    found = about_facts(generator, [generator.annotate(TEXT)], others=[generator.annotate(other)])
    assert [generator.tokenizer.decode(question.foil) for question in found] == ["2"]


@pytest.mark.parametrize(
    "numbers, text, truth",
    [  # of 58 + 67, no other sum as long begins otherwise
        ((0, 99), "58+67=125", {7: {1, 2, 4, 5}, 8: {2, 5}}),
        ((0, 999), "258+467=725", {8: {1, 2, 5, 6}, 9: {2, 3, 6, 7}, 10: {3, 7}}),
    ],
)
def test_the_columns_of_a_sum_are_the_truth(numbers, text, truth):
    sums = arithmetic("+", numbers)
    asked = [q for seed in SEEDS for q in about_answers(sums, [sums.annotate(text)], seed=seed)]
    assert sources(asked) == truth
    for question in asked:
        assert places(question.candidates) == set(range(1, question.query))
        written = sums.tokenizer.decode(question.counterfactual, skip_special_tokens=True)
        right = sums.annotate(written.partition("=")[0] + "=").text
        assert right.startswith(written) and right[len(written)] == sums.tokenizer.decode(question.foil)


# ---- documents, sentences, copies, facts ------------------------------------------------------------------


def test_the_keywords_of_a_documents_class_are_the_truth():
    vocabulary = Vocabulary((*SPECIAL, "superb", "terrible", "good", "bad", "harbour", "filler"))
    text = "filler superb bad harbour strange"
    documents = encode(vocabulary, [Row.of(1, text)])
    documents = documents.with_relevance(torch.tensor([0.0, 0, 3, -2, 0, 0, 0]))
    (question,) = map(sound, about_documents(vocabulary, documents))
    assert (question.query, question.target, question.foil) == (6, 1, 0)
    assert places(question.truth) == {2} and places(question.candidates) == {1, 2, 3, 4}
    other = vocabulary.decode(question.counterfactual.tolist())
    assert other == ["<bos>", "filler", "terrible", "bad", "harbour", "<unk>", "<eos>"]
    with pytest.raises(ValueError, match="should be planted ones"):
        next(about_documents(vocabulary, encode(vocabulary, [Row.of(1, "good")])))


def test_with_its_keywords_exchanged_a_document_is_of_the_other_class():
    corpus = planted(train_documents=300, validation_documents=20, test_documents=40)
    words, strengths = lexicon(Planting())
    strength = dict(zip(words, strengths, strict=True))
    asked = [sound(question) for question in about_documents(corpus.vocabulary, corpus.test)]
    assert len(asked) > 30
    for question in asked:
        for ids, label in ((question.ids, question.target), (question.counterfactual, question.foil)):
            total = sum(strength.get(word, 0) for word in corpus.vocabulary.decode(ids.tolist()))
            assert total != 0 and (total > 0) == label


@pytest.fixture(scope="module")
def languages():
    data = invented(train_sentences=20, validation_sentences=2, test_sentences=30)
    torch.manual_seed(0)
    return data, ReadSentences(Seq2Seq(Seq2SeqConfig(len(data.subwords), hidden=8, layers=1))).eval()


def test_what_a_word_translates_is_the_truth(languages):
    data, model = languages
    said, written = "sepu demi rara tira migo sepu nono sego", "lomfel norfel gushet valgus valkim dunpan"
    truth = [{3}, {2}, {7}, {7}, {8}, {4, 5}]  # `<bos>` is token 0, `<eos>` token 9 and the first query
    pair = data.encode(said, written)
    alignment = torch.zeros(7, 10, dtype=torch.bool)
    for row, columns in enumerate(truth):
        alignment[row, [*columns]] = True
    pair = pair.with_alignment(alignment.flatten())
    asked = [
        q for seed in SEEDS for q in about_sentences(model, data.subwords, pair, dictionary(), seed=seed)
    ]
    assert sources(asked) == {9 + place: columns for place, columns in enumerate(truth)}
    for question in asked:
        place = question.query - 9
        assert places(question.candidates) == set(range(1, 9))
        assert question.ids[10:].tolist() == model.written(pair.target[1 : place + 1]).tolist()
        assert data.subwords.decode([question.target]) == written.split()[place]


def test_with_a_unit_exchanged_a_sentence_has_another_translation(languages):
    data, model = languages
    translator = dictionary()
    words = [*translator.kinds]
    asked = [sound(q) for q in about_sentences(model, data.subwords, data.test, translator)]
    assert len(asked) > 25
    for question in asked:
        changed = question.truth & (question.ids != question.counterfactual)
        old, new = (
            data.subwords.decode(ids[changed].tolist()) for ids in (question.ids, question.counterfactual)
        )
        was, becomes = (data.subwords.decode([each]) for each in (question.target, question.foil))
        assert any(old in " ".join(u.source) and was in u.target for u in words)
        assert any(new in " ".join(u.source) and becomes in u.target for u in words)


def test_every_symbol_of_another_sequence_to_copy_is_another():
    task = Copying(4, 6)
    model = ReadCopies(Copier(CopierConfig(task.vocabulary, 8)))
    for question in about_copies(model, task, 20, others=True):
        same = question.ids == question.counterfactual
        assert places(same) == {4} and question.counterfactual[question.query - 4] == question.foil


@pytest.mark.parametrize("task", [Copying(4, 6), Copying(4, 4), Copying(4, 3, repetition=True)])
def test_a_copied_symbol_comes_from_its_own_place(task):
    model = ReadCopies(Copier(CopierConfig(task.vocabulary, 8)))
    asked = [sound(question) for question in about_copies(model, task, 40)]
    assert {question.query for question in asked} == {4, 5, 6, 7}
    for question in asked:
        place = question.query - 4
        assert places(question.truth) == {place} and places(question.candidates) == {0, 1, 2, 3}
        assert question.ids[place] == question.target and question.counterfactual[place] == question.foil
        for ids in (question.ids, question.counterfactual):
            assert ids[4] == task.end and ids[5:].tolist() == model.written(ids[:place]).tolist()


TEXT = "The code of Kira is 4821. The code of Hugo is 1936. Q: What is the code of Hugo? A: 1936"


def test_the_value_in_the_fact_is_the_truth():
    generator = NeedleGenerator(char_tokenizer(), opening="")
    (question,) = map(sound, about_facts(generator, [generator.annotate(TEXT)]))
    assert question.query == len(TEXT) - 4  # with the beginning in front
    assert places(question.truth) == {47, 48, 49, 50} and TEXT[46:50] == "1936"
    assert places(question.candidates) == set(range(1, question.query))
    decode = generator.tokenizer.decode
    assert (decode(question.target), decode(question.foil)) == ("1", "4")
    other = decode(question.counterfactual, skip_special_tokens=True)
    assert generator.annotate(other + "4821").answer == "4821"


def test_values_that_begin_alike_are_not_exchanged():
    generator = NeedleGenerator(char_tokenizer(), opening="")
    alike = TEXT.replace("4821", "1821")
    assert [*about_facts(generator, [generator.annotate(alike)])] == []


# ---- many questions ---------------------------------------------------------------------------------------


def test_some_are_different_prompts_in_which_a_measure_can_be_wrong():
    successor, one = task("successor", char_tokenizer()), task("string_reversal", char_tokenizer())
    series = [successor.annotate(text) for text in ("7 8 9 ", "7 8 ", "5 6 7 8 ")]
    asked = [q for seed in SEEDS for q in about_answers(successor, series, seed=seed)]
    prompts = [successor.tokenizer.decode(q.ids, skip_special_tokens=True) for q in some(9, asked)]
    assert sorted(prompts) == ["5 6 ", "5 6 7 ", "7 8 "]  # and not "7 ", which is all that is needed
    letters = [one.annotate(text) for text in ("a=a", "ab=ba", "abc=cba")]
    first, second = (about_answers(one, letters, in_distribution=known) for known in (True, False))
    assert [q.in_distribution for q in some(1, first, second)] == [True, False]


def test_gathered_questions_are_padded_and_know_which_are_right():
    lang = language("sort", 10, bos=True)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(len(lang.tokenizer), len(lang.classes))).eval()
    drawn = lang.sequences(20, split="test", min_length=2, max_length=9)
    asked = [*about_programs(lang, drawn)]
    found = gathered("sort", model, asked)
    assert len(found) == len(asked) and found.in_distribution.all()
    for row, question in enumerate(asked):
        n = len(question.ids)
        assert found.attention_mask[row].sum() == n and not found.candidates[row, n:].any()
        said = model(question.ids[None]).logits[0, question.query].argmax()
        assert found.right[row] == (said == question.target)

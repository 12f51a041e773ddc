"""Sentences up to their verb: the grammar, what a model reads of them, and the sets that people wrote."""

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.generators.base import IGNORE
from attnlib.generators.sources import PublicFile
from book.chapters.flow.agreement import (
    Sentence,
    SentenceTask,
    corpora,
    gulordava,
    linzen,
    templates,
    vocabulary_of,
)
from book.chapters.flow.agreement.sentences import without_rare
from book.chapters.flow.agreement.templates import ADJECTIVES, DETERMINERS

LINZEN = """number\tn_attractors\tverb_index\tverb\twrong_verb\tsentence
singular\t1\t5\tis\tare\tthe key to the cabinets is here .
plural\t0\t2\tare\tis\tthe keys are here .
plural\t0\t2\twere\twas\tthe keys were there .
"""
GULORDAVA = """number\ttype\tn_attractors\tpattern\tverb\twrong_verb\tprefix
singular\toriginal\t0\tx\tis\tare\tThe thing
plural\tgenerated\t1\tx\tare\tis\tThe pianos of the sky
"""


def nouns(words):
    """Where nouns are, told by the determiner before them: an account of its own."""
    places = [place + 1 for place, word in enumerate(words) if word in DETERMINERS]
    return [place + (words[place] in ADJECTIVES) for place in places]


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_only_the_subject_and_the_nouns_behind_it_say_what_a_template_is(seed):
    for each in templates(30, seed):
        places = nouns(each.words)
        fronted = "," in each.words
        assert each.subject == places[fronted]
        plural = [each.words[place].endswith("s") for place in places]
        assert each.label == plural[fronted]
        assert each.attractors == sum(other != each.label for other in plural[fronted + 1 :])
        rest = [word for place, word in enumerate(each.words) if place not in places]
        assert not [
            word for word in rest if word.endswith("s") and word not in ADJECTIVES
        ]  # no other word has a number


def test_templates_all_differ_and_come_from_their_seed():
    found = templates(500, seed=1)
    assert len({each.words for each in found}) == 500
    assert found == templates(500, seed=1) != templates(500, seed=2)
    assert {each.attractors for each in found} == {0, 1, 2, 3, 4}
    assert 0.4 < np.mean([each.label for each in found]) < 0.6
    assert any(each.subject == 1 for each in found) and any("," in each.words for each in found)


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: templates(0), "n should be at least 1"),
        (lambda: Sentence(("a",), 2), "should have words, and the label 0 or 1"),
        (lambda: Sentence(("the", "key"), 0, subject=2), "a place from 0 to 1"),
        (lambda: TASK.batch([]), "there should be sentences"),
    ],
)
def test_what_is_no_sentence_is_refused(call, fragment):
    with pytest.raises(ValueError, match=fragment):
        call()


# ---- what a model reads ----------------------------------------------------------------------------------

KNOWN = [Sentence(("the", "key", "of", "the", "doors"), 0, 1, 1)] * 3
TASK = SentenceTask(vocabulary_of([*KNOWN, *(Sentence((f"x{n}s", f"y{n}"), 1) for n in range(3))]))


def ids(*words):
    return [TASK.vocabulary.ids[word] for word in words]


def test_rare_words_are_their_ending():
    assert without_rare(["the", "zithers", "press", "bus", "going"], {"the"}) == [
        *("the", "<...s>", "<...ss>", "<...us>", "<...ing>"),
    ]
    assert {"<...s>", "<...>"} <= set(TASK.vocabulary.words)
    assert "x0s" not in TASK.vocabulary.ids


def test_a_batch_has_the_class_at_cls_and_the_subject_as_reference():
    batch = TASK.batch([KNOWN[0], Sentence(("the", "zithers"), 1, 0, 1)])
    assert batch.input_ids.tolist() == [
        ids("<bos>", "the", "key", "of", "the", "doors"),
        ids("<bos>", "the", "<...s>", "<pad>", "<pad>", "<pad>"),
    ]
    assert batch.target_ids[:, 0].tolist() == [0, 1]
    assert (batch.target_ids[:, 1:] == IGNORE).all()
    assert batch.attention_mask.sum(1).tolist() == [6, 3]
    assert batch.reference.nonzero().tolist() == [[0, 0, 2], [1, 0, 2]]
    assert batch.evaluated[:, 0].sum(1).tolist() == [5, 2]
    assert not batch.evaluated[:, 1:].any() and not batch.evaluated[..., 0].any()
    assert TASK.known(batch).sum(1).tolist() == [5, 2]


def test_a_model_that_looks_back_predicts_at_the_last_word():
    batch = SentenceTask(TASK.vocabulary, at_end=True).batch(
        [KNOWN[0], Sentence(("the", "zithers"), 1, 0, 1)]
    )
    assert batch.target_ids.nonzero().tolist() != []
    assert [(row, col) for row, col in (batch.target_ids != IGNORE).nonzero().tolist()] == [(0, 5), (1, 2)]
    assert batch.reference.nonzero().tolist() == [[0, 5, 2], [1, 2, 2]]


def test_without_a_known_subject_there_is_no_reference_and_unk_is_not_known():
    batch = TASK.batch([Sentence(("the", "<unk>"), 1)])
    assert batch.reference is None and batch.evaluated is None
    assert TASK.words(batch).tolist() == [[False, True, True]]
    assert TASK.known(batch).tolist() == [[False, True, False]]


def test_batches_are_a_function_of_the_step_and_blank_their_share():
    found = templates(400, seed=0)
    task = SentenceTask(vocabulary_of(found))
    batches, again = (task.batches(found, 64, unknown=0.2, seed=3) for _ in range(2))
    assert torch.equal(batches(5).input_ids, again(5).input_ids)
    assert not torch.equal(batches(5).input_ids, batches(11).input_ids[:, :1])
    unk = task.vocabulary.ids["<unk>"]
    blanked = np.array(
        [((b := batches(step)).input_ids == unk).sum() / task.words(b).sum() for step in range(12)]
    )
    assert 0.15 < blanked.mean() < 0.25
    assert all((batches(step).input_ids[:, 0] == task.vocabulary.ids["<bos>"]).all() for step in range(3))
    assert not (task.batches(found, 64)(0).input_ids == unk).any()


# ---- what people wrote -----------------------------------------------------------------------------------


def test_sentences_from_a_folder(tmp_path):
    (tmp_path / "linzen_verb_number_filtered.tsv").write_text(LINZEN)
    with gzip.open(tmp_path / "gulordava_english_nonce.tsv.gz", "wt") as file:
        file.write(GULORDAVA)
    assert linzen(tmp_path) == [
        Sentence(("the", "key", "to", "the", "cabinets"), 0, 1),
        Sentence(("the", "keys"), 1, 0),  # once, though it is there with two verbs
    ]
    assert gulordava(tmp_path) == {
        "original": [Sentence(("the", "thing"), 0, 0)],
        "generated": [Sentence(("the", "pianos", "of", "the", "sky"), 1, 1)],
    }


def test_a_folder_without_them_or_without_a_column(tmp_path):
    with pytest.raises(FileNotFoundError, match="must hold linzen_verb_number_filtered"):
        linzen(tmp_path)
    (tmp_path / "linzen_verb_number_filtered.tsv").write_text("number\tsentence\n")
    with pytest.raises(ValueError, match=r"it lacks \['n_attractors', 'verb_index'\]"):
        linzen(tmp_path)


def public(tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    return PublicFile(file.as_uri(), hashlib.sha256(text.encode()).hexdigest())


def test_sentences_from_the_public_source(tmp_path, monkeypatch):
    monkeypatch.delenv("ATTNLIB_DATA", raising=False)
    monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    lines = {
        "the key to the cabinets is here": "5\tis\tare\t1",
        "the keys are": "2\tare\tis\t0",
        "the books include": "2\tinclude\tincludes\t0",
        "all families are": "2\tAre\tIs\t0",
        "its roots lie": "2\tlie\tlie\t0",
        "we all have": "2\thave\thas\t0",
    }
    text, gold = "\n".join(lines), "\n".join(lines.values())
    files = {"linzen.gold": public(tmp_path, "gold", gold), "linzen.text": public(tmp_path, "text", text)}
    monkeypatch.setattr(corpora, "_PUBLIC", files)
    found = linzen(cache=tmp_path / "kept")
    assert [(each.label, each.attractors, " ".join(each.words)) for each in found] == [
        (0, 1, "the key to the cabinets"),
        (1, 0, "the keys"),
        (1, 0, "the books"),
        (1, 0, "we all"),
    ]
    assert gulordava() == {}
    assert linzen() == found and len([*(tmp_path / "cache" / "agreement").iterdir()]) == 2
    (tmp_path / "gold").unlink()
    assert linzen(cache=tmp_path / "kept") == found  # it is kept
    assert not [*(tmp_path / "here").iterdir()], "nothing is written where one works"


def test_the_real_sentences():
    folder = os.environ.get("ATTNLIB_DATA")
    if not folder or not (Path(folder) / "agreement").is_dir():
        pytest.skip("ATTNLIB_DATA names no folder with agreement/")
    found = linzen()
    assert len(found) == 7326
    assert " ".join(found[0].words) == "as a consequence of being mostly privately owned , the town"
    assert {each.attractors for each in found} == {0, 1, 2, 3, 4}
    assert sum(each.label for each in found) / len(found) == pytest.approx(0.645, abs=0.001)
    assert {name: len(each) for name, each in gulordava().items()} == {"original": 40, "generated": 369}

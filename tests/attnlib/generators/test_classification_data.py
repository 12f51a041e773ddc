"""Data sets of two classes: reading, splitting without leaks, batches, bad input; and the planted truth."""

import gzip
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.generators.classification import (
    DATASETS,
    Corpus,
    Documents,
    Planting,
    Vocabulary,
    corpus,
    lexicon,
    planted,
    recipes,
    split_words,
)
from attnlib.generators.classification.planted import CONFOUNDERS
from attnlib.generators.classification.recipes import read_table

SPLITS = ("train", "validation", "test")
REAL = os.environ.get("ATTNLIB_DATA")
needs_data = pytest.mark.skipif(REAL is None, reason="ATTNLIB_DATA names no folder with the data sets")


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder, nothing is found: tests that want the real sets name the folder."""
    monkeypatch.delenv("ATTNLIB_DATA", raising=False)


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
    return folder


def numbered(i: int) -> str:
    """A word that occurs once, which a model does not know, and signs that tell it which document it is."""
    return f"number{i} " + f"{i:09b}".replace("0", ".").replace("1", "!")


def rows(n: int, label: str = "label", first: int = 0, classes: tuple[str, ...] = ("neg", "pos")) -> str:
    of = classes * (first + n)
    lines = [f"{of[i]}\tthe film {numbered(i)} was so so\n" for i in range(first, first + n)]
    return f"{label}\ttext\n" + "".join(lines)


def number_of(text: str) -> int:
    """Which of the documents that `rows` writes it is."""
    return int(text.split("number")[1].split()[0])


def texts(data: Corpus) -> list[set[tuple[str, ...]]]:
    return [{tuple(split_words(text)) for text in getattr(data, split).texts} for split in SPLITS]


# ---- words and vocabulary ----------------------------------------------------------------------------


def test_words_hold_apostrophes_and_split_signs() -> None:
    assert split_words("Don't PANIC, it’s £42!") == ["don't", "panic", ",", "it’s", "£", "42", "!"]
    assert split_words("a_b  \t\n ... Über-cool") == ["a_b", ".", ".", ".", "über", "-", "cool"]
    assert split_words(" \n") == []


def test_the_vocabulary_is_the_originals() -> None:
    documents = [text.split() for text in ("b a a c", "c b a d", "c b d <unk> <unk> <unk>")]
    vocabulary = Vocabulary.of(documents)
    # a, b, c three times each, in order of first occurrence; d only twice; special words are not counted.
    assert vocabulary.words == ("<pad>", "<bos>", "<eos>", "<unk>", "b", "a", "c")
    assert vocabulary.encode(["c", "d", "a"]) == [1, 6, 3, 5, 2]
    assert vocabulary.decode([1, 6, 3, 2]) == ["<bos>", "c", "<unk>", "<eos>"]


# ---- folders -----------------------------------------------------------------------------------------


def test_a_folder_of_ones_own_is_split_without_leaks(tmp_path: Path) -> None:
    copies, empty = rows(5).partition("\n")[2], "neg\t\npos\t  \n"
    folder = write(tmp_path / "furd", train=rows(60) + copies + empty, test=rows(20, first=50))
    data = corpus("furd", folder)
    assert len(data.test) == 20 and len(data.validation) == 5 and len(data.train) == 45
    assert len(set.union(*texts(data))) == 70  # all different, none in two splits
    assert data.about["left out"] == {"other labels": 0, "without words": 2, "copies": 15}
    assert data.names == ("neg", "pos") and data.about["source"] == "furd/: train.tsv, test.tsv"
    assert data.test.labels.tolist() == [number_of(text) % 2 for text in data.test.texts]
    again, other = corpus("furd", tmp_path), corpus("furd", tmp_path, seed=1)
    assert again.train.texts == data.train.texts != other.train.texts
    assert str(tmp_path) not in str(data.about)


@pytest.mark.parametrize("copy", ["test", "val"])
def test_a_file_that_is_a_copy_of_the_training_file_is_refused(tmp_path: Path, copy: str) -> None:
    rows = "".join(f"{number % 2}\tword{number} and more\n" for number in range(40))
    for name in ("train", copy):
        (tmp_path / f"{name}.tsv").write_text(f"label\ttext\n{rows}")
    with pytest.raises(ValueError, match=r"^train must have rows that no other split has"):
        corpus("own", folder=tmp_path)


def test_one_file_is_split_in_three_and_gzip_is_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "all.tsv.gz", "wt", encoding="utf-8") as file:
        file.write(rows(100, classes=("ham", "spam")))
    data = corpus("sms", tmp_path)
    assert [len(getattr(data, split)) for split in SPLITS] == [72, 8, 20]
    assert data.names == ("ham", "spam")


def test_stars_are_binarised_and_threes_left_out(tmp_path: Path) -> None:
    train, test = (rows(n, "stars", first, tuple("12345")) for n, first in ((100, 0), (50, 100)))
    data = corpus("yelp", write(tmp_path, train=train, test=test))
    assert len(data.test) == 40 and len(data.train) + len(data.validation) == 80
    assert data.test.labels.tolist() == [number_of(text) % 5 >= 3 for text in data.test.texts]


def test_named_sets_take_their_two_classes_and_leave_the_rest(tmp_path: Path) -> None:
    four = ("World", "Sports", "Business", "Sci/Tech")
    test = rows(40, first=80, classes=four)
    folder = write(tmp_path / "ag_news", train_10k=rows(80, classes=four), test=test)
    data = corpus("ag_news", tmp_path)
    assert data.names == ("World", "Business") and len(data.test) == 20
    assert "World against Business" in data.about["differs"]
    assert data.about["left out"]["other labels"] == 60
    two = corpus("mine", folder, classes=("Sports", "World"))
    assert two.names == ("Sports", "World") and len(two.test) == 20
    with pytest.raises(ValueError, match=r"^classes must"):
        corpus("mine", folder)
    with pytest.raises(ValueError, match=r"must be among .*Music.*World.* got .*'Business'"):
        corpus("mine", folder, classes=("Music", "Theatre,World"))


def test_cuts_are_made_where_asked(tmp_path: Path) -> None:
    folder = write(tmp_path, train=rows(200), test=rows(100, first=200))
    data = corpus("mine", folder, max_length=13, train_documents=50, test_documents=10)
    assert [len(getattr(data, split)) for split in SPLITS] == [50, 20, 10]
    assert data.test.lengths.tolist() == [15] * 10 and data.test.words(0)[-2:] == ["was", "<eos>"]
    assert "so" not in data.vocabulary.words
    assert data.about["cut"] == 1.0, "every document has more than 13 words, and lost some"
    assert corpus("mine", folder, max_length=99).about["cut"] == corpus("mine", folder).about["cut"] == 0.0
    more = corpus("mine", folder, max_length=13, train_documents=50, test_documents=90)
    assert more.train.texts == data.train.texts and more.validation.texts == data.validation.texts
    with pytest.raises(ValueError, match="train_documents must"):
        corpus("mine", folder, train_documents=0)


def as_read(documents: Documents) -> list[tuple[int, ...]]:
    return [tuple(ids.tolist()) for ids in documents.tokens.split(documents.lengths.tolist())]


@pytest.mark.parametrize("max_length", [None, 12])
def test_no_document_is_in_two_splits_as_a_model_reads_it(tmp_path: Path, max_length: int | None) -> None:
    train = rows(200) + "neg\tthe film xyzzy was so so\npos\tthe film plugh was so so\n"
    test = rows(60, first=150) + "neg\tthe film frotz was so so\n"  # three that differ in unknown words
    data = corpus("mine", write(tmp_path, train=train, test=test), max_length=max_length)
    train_, validation, test_ = (set(as_read(getattr(data, split))) for split in SPLITS)
    assert not test_ & train_ and not test_ & validation and not validation & train_
    assert len(data.test) == 61 and data.about["left out"]["copies"] >= 52
    assert data.about["documents"] == {split: len(getattr(data, split)) for split in SPLITS}
    with pytest.raises(ValueError, match=r"must have neg and pos, without copies"):
        corpus("mine", tmp_path, max_length=2)


@pytest.mark.parametrize("names", [("sentiment", "review"), ("sentiment", "text"), ("label", "review")])
def test_one_csv_file_with_columns_of_any_name_is_read_as_a_folder_is(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    """A comma, a quote and a line end in a text are text, and the order of columns does not matter."""
    folder = write(tmp_path / "mine", all=rows(60))
    file, (label, text) = tmp_path / "reviews.csv", names
    table = pd.read_csv(folder / "all.tsv", sep="\t")
    table["text"] = table["text"].str.replace("was", 'was, "so\nto say"')
    table.rename(columns={"label": label, "text": text})[[text, label]].to_csv(file, index=False)
    data, same = corpus("reviews", file), corpus("mine", folder)
    assert data.names == same.names and data.about["source"] == "reviews.csv"
    assert data.test.labels.tolist() == same.test.labels.tolist()
    assert [number_of(each) for each in data.test.texts] == [number_of(each) for each in same.test.texts]
    assert 'was, "so\nto say"' in data.test.texts[0]
    file.write_text("a,b\nx,y,z\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"reviews\.csv must be a table in UTF-8 CSV; .*line 2"):
        corpus("reviews", file)


def test_ATTNLIB_DATA_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "classification/imdb", train=rows(40), test=rows(20, first=40))
    write(tmp_path / "furd", train=rows(40), test=rows(20, first=40))
    monkeypatch.setenv("ATTNLIB_DATA", str(tmp_path))
    assert corpus("imdb").about["source"] == "imdb/: train.tsv, test.tsv"
    assert corpus("IMDB").name == "imdb" and corpus("furd").name == "furd"


# ---- the public source -------------------------------------------------------------------------------


def test_the_public_source_is_read_at_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(repository: str, *, revision: str, split: str) -> datasets.Dataset:
        asked.append((repository, revision, split))
        first = {"train": 0, "validation": 100, "test": 200}[split]
        columns = {"label": [0, 1, 2, 3, 4] * 20}
        columns["label_text"] = ["rec.sport.baseball", "rec.sport.hockey", "x", "y", "z"] * 20
        for name in ("text", "sms", "title", "content"):
            columns[name] = [f"{name} the film {numbered(i)}" for i in range(first, first + 100)]
        return datasets.Dataset.from_dict(columns)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert sum(corpus("sms").about["documents"].values()) == 40
    monkeypatch.setattr(recipes, "MOST", 60)
    assert sum(corpus("sms").about["documents"].values()) < 40
    monkeypatch.setattr(recipes, "MOST", 100)
    for name, recipe in DATASETS.items():
        asked.clear()
        data = corpus(name)
        hub = recipe.hub
        assert asked == [(hub.repository, hub.revision, theirs) for _, theirs in hub.splits]
        assert data.about["source"] == f"{hub.repository}@{hub.revision}"
        assert set(data.test.labels.tolist()) == {0, 1} and data.names == recipe.names
        assert data.test.texts[0].count("number") == len(hub.text)
        if name == "sst":
            assert {number_of(text) % 5 for text in data.test.texts} == {0, 1, 3, 4}


def test_without_a_network_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(ConnectionError, match=r"sms_spam .* no route to host.*folder=.*ATTNLIB_DATA"):
        corpus("sms")


# ---- bad input ---------------------------------------------------------------------------------------


def test_unknown_names_and_folders_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"planted, ag_news, .*got 'imbd'; did you mean 'imdb'\?"):
        corpus("imbd")
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        corpus("imdb", tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"train\*\.tsv.*subfolder sst5_trees or sst that does; it"):
        corpus("sst", tmp_path)
    with pytest.raises(ValueError, match=r"^folder must be None for planted"):
        corpus("planted", tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train": "label\tbody\tid\na\tb\tc\n"}, "must .*; got label, body, id"),
        ({"train": "label\ttext\na\tb\nc\td\te\n"}, "line 3 of .* must have 2 fields; got 3"),
        ({"train": "text\ttext\na\tb\n"}, "must .* names each column once"),
        ({"train": ""}, "must be a UTF-8 table"),
        ({"train": rows(40, classes=("pos",))}, "classes must"),
        ({"train": "label\ttext\nneg\t \npos\t\n"}, "documents must have words"),
        ({"test": rows(40)}, "data must have a file train"),
        ({"train": rows(40), "train_more": rows(40)}, "train must be one file"),
        ({"train": rows(3)}, "with rows for all splits"),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_used_says_why(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corpus("mine", write(tmp_path, **files))


def test_a_line_ends_at_a_line_feed_alone(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_bytes(b"label\ttext\r\n0\tgood\rfilm\r\n1\tbad\x0bfilm\n")
    wanted = {"label": ["0", "1"], "text": ["good\rfilm", "bad\x0bfilm"]}
    assert read_table(tmp_path / "train.tsv") == wanted


def test_texts_of_ones_own_are_encoded_unknown_words_and_all() -> None:
    data = planted(train_documents=100, validation_documents=20, test_documents=20)
    documents = data.encode(["qwerty asdf", "superb"], [0, 1])
    assert documents.tokens[:4].tolist() == [1, 3, 3, 2]  # unknown words only: <bos> <unk> <unk> <eos>
    assert documents.words(0) == ["<bos>", "qwerty", "asdf", "<eos>"]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda data: data.encode(["a", "  "], [0, 1]), "a document"),
        (lambda data: data.encode(["a"], [2]), "a document"),
        (lambda data: replace(data.test, texts=data.test.texts[:1]), "documents"),
        (lambda data: data.test[:0].batches(2), "rows"),
        (lambda data: data.test.sample(-1), "n"),
        (lambda data: data.test.in_batches(-1), "batch_size"),
        (lambda data: data.peek(-1), "n"),
        (lambda data: planted(test_documents=0), "test_documents"),
        (lambda data: Vocabulary.of([["x", "y"]]), "documents"),
    ],
)
def test_what_cannot_be_is_refused(call, name) -> None:
    data = planted(train_documents=20, validation_documents=5, test_documents=5)
    with pytest.raises(ValueError, match=rf"^{name} must"):
        call(data)


# ---- batches -----------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 12), min_size=1, max_size=30), st.integers(1, 8), st.integers(1, 4))
@settings(max_examples=40)
def test_an_epoch_has_every_document_once_and_a_step_is_a_function(
    words: list[int], size: int, pool: int
) -> None:
    lengths = torch.tensor(words)
    tokens = torch.arange(4, 4 + int(lengths.sum()))
    documents = Documents(tokens, lengths, torch.arange(len(words)) % 2, tuple("x" * n for n in words))
    size_used = min(size, len(words))
    per_epoch = len(words) // size_used
    batch_at, late = (documents.batches(size, 3, pool) for _ in range(2))
    for epoch in (0, 1):
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        found = torch.cat([batch_at(step).rows for step in steps])
        assert len(found.unique()) == len(found) == per_epoch * size_used
    for step in (2 * per_epoch, 0, per_epoch):  # in any order, from a fresh function
        one, other = late(step), batch_at(step)
        assert torch.equal(one.rows, other.rows) and torch.equal(one.input_ids, other.input_ids)
        for row, ids, n in zip(one.rows.tolist(), one.input_ids, one.lengths.tolist(), strict=True):
            start = int(documents.offsets[row])
            assert ids[:n].tolist() == tokens[start : start + n].tolist() and not ids[n:].any()
        assert torch.equal(one.labels, documents.labels[one.rows])
        assert one.attention_mask.sum(1).tolist() == one.lengths.tolist()
    whole = torch.cat([batch.rows for batch in documents.in_batches(size)])
    assert sorted(whole.tolist()) == list(range(len(words)))
    back = documents[whole]
    assert torch.equal(back.tokens, tokens[documents.positions(whole)])


def test_batches_of_like_length_have_less_padding_and_all_lengths_come_early_and_late() -> None:
    documents = planted(train_documents=2000, validation_documents=10, test_documents=10).train

    def padding(pool: int) -> float:
        batch_at = documents.batches(32, pool=pool)
        masks = [batch_at(step).attention_mask for step in range(62)]
        return 1 - sum(int(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks)

    assert padding(50) < 0.1 < padding(1)
    batch_at = documents.batches(32)
    widths = np.array([batch_at(step).input_ids.shape[1] for step in range(62)])
    assert abs(np.corrcoef(np.arange(62), widths)[0, 1]) < 0.4


def test_a_sample_is_a_part_in_order() -> None:
    documents = planted(train_documents=100, validation_documents=10, test_documents=10).train
    part = documents.sample(30, seed=2)
    places = [documents.texts.index(text) for text in part.texts]
    assert len(part) == 30 and places == sorted(places)
    assert part.relevance is not None and len(part.relevance) == len(part.tokens)
    assert len(documents.sample(1000)) == 100 and len(documents.sample(0)) == 0
    assert [each.texts[0] for each in part] == [*part.texts]
    assert [part[row].texts for row in (0, -1)] == [part.texts[:1], part.texts[-1:]]


# ---- planted -----------------------------------------------------------------------------------------


PLANTINGS = st.fixed_dictionaries(
    {
        "difficulty": st.floats(0, 1),
        "confounding": st.floats(0, 1),
        "keywords": st.sampled_from([3, 6, 12]),
        "confounders": st.integers(1, 6),
        "min_words": st.integers(4, 12),
    }
)


@given(PLANTINGS)
@settings(max_examples=12)
def test_the_planted_label_is_the_sign_of_the_sum_of_strengths(how: dict[str, Any]) -> None:
    shortest = how["min_words"]
    planting = Planting(**how, fillers=50, max_words=shortest + 10)
    data = planted(planting, train_documents=60, validation_documents=20, test_documents=20)
    strength = dict(zip(*lexicon(planting), strict=True))
    for split in SPLITS:
        documents = getattr(data, split)
        assert documents.lengths.min() >= shortest + 2 and documents.lengths.max() <= shortest + 12
        for row, start in enumerate(documents.offsets.tolist()):
            words = documents.words(row)
            truth = documents.relevance[start : start + len(words)]
            assert truth.tolist() == [strength.get(word, 0.0) for word in words]
            assert (truth.sum() > 0) == bool(documents.labels[row]) and truth.sum() != 0
            towards = documents.toward_label(documents.relevance)[start : start + len(words)]
            assert towards.max() > 0
    assert len(set.union(*texts(data))) == 100  # all different, none in two splits


def test_difficulty_and_confounding_do_what_they_say() -> None:
    def shares(**more: float) -> tuple[float, float, float]:
        sizes = {"train_documents": 1500, "validation_documents": 10, "test_documents": 1500}
        data = planted(Planting(**more), **sizes)
        towards = data.train.toward_label(data.train.relevance)
        against = float((towards < 0).sum() / (towards != 0).sum())
        return against, _goes_along(data, "train"), _goes_along(data, "test")

    easy = shares(difficulty=0.0, confounding=0.0)
    assert easy[0] == 0 and easy[1] == pytest.approx(0.5, abs=0.04)
    hard = shares(difficulty=1.0, confounding=1.0, test_confounding=0.0)
    assert hard[0] > 0.2 and hard[1] == 1 and hard[2] == pytest.approx(0.5, abs=0.05)


def _goes_along(data: Corpus, split: str) -> float:
    """The share of confounders that are of their document's class."""
    sides = {word: side for side, words in enumerate(CONFOUNDERS) for word in words}
    documents = getattr(data, split)
    pairs = zip(documents.texts, documents.labels.tolist(), strict=True)
    agrees = [sides[word] == label for text, label in pairs for word in text.split() if word in sides]
    return float(np.mean(agrees))


def test_planted_is_reproducible_and_wrong_parameters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"train_documents": 70, "test_documents": 30, "seed": 3}
    data, same, other = corpus("Planted", **sizes), planted(**sizes), planted(**sizes | {"seed": 1})
    assert data.train.texts == same.train.texts != other.train.texts
    assert (len(data.train), len(data.test)) == (70, 30)
    for wrong, message in [
        ({"keywords": 4}, "multiple of 3"),
        ({"min_words": 50}, "min_words must be at most 40"),
        ({"dificulty": 0.1}, "dificulty"),
    ]:
        with pytest.raises(ValueError, match=message):
            Planting(**wrong)
    monkeypatch.setattr(sys.modules[planted.__module__], "_draw", lambda _, n, *__: [(np.arange(4), 0)] * n)
    with pytest.raises(ValueError, match="for 5 to differ; got 1"):
        planted(train_documents=5)


# ---- the real sets -----------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize(
    ("name", "sizes", "share"),
    [
        pytest.param("ag_news", (4493, 499, 3796), 0.5, marks=pytest.mark.slow),
        pytest.param("newsgroups20", (1075, 120, 795), 0.5, marks=pytest.mark.slow),
        ("sms", (3703, 411, 1032), 0.12),
        ("sst", (6908, 872, 1821), 0.5),
        pytest.param("yelp", (4036, 448, 4000), 0.74, marks=pytest.mark.slow),
    ],
)
def test_the_real_sets_are_read_whole(name: str, sizes: tuple[int, int, int], share: float) -> None:
    data = corpus(name, Path(REAL or "") / "classification")
    assert tuple(len(getattr(data, split)) for split in SPLITS) == sizes
    parts = [set(as_read(getattr(data, split))) for split in SPLITS]
    assert sum(map(len, parts)) == len(set.union(*parts))
    assert data.sizes[data.names[1]].tolist() == pytest.approx([share] * 3, abs=0.07)
    assert len(data.peek(3)) == 3 and data.vocabulary.words[4] in {".", "the", ",", "-"}

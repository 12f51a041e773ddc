"""Sentences and their translations: what is read, refused, left out and cut; the invented languages."""

import gzip
import hashlib
import random
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.generators.order import EpochBatches
from attnlib.generators.sources import PublicFile, two_different
from attnlib.generators.translation import DATASETS, Grammar, Pairs, Subwords, bitext, invented, lexicon
from attnlib.generators.translation.bitext import encode
from attnlib.generators.translation.recipes import Recipe, read_public

NUMBERS = "one two three four five six seven eight nine ten".split()  # noqa: SIM905
ZAHLEN = "eins zwei drei vier fünf sechs sieben acht neun zehn".split()  # noqa: SIM905


SIZES = {"train_sentences": 30, "validation_sentences": 5, "test_sentences": 5}


def lines(n, start=0):
    """Pairs of sentences, all different."""
    digits = [[int(digit) for digit in f"{i:03}"] for i in range(start, start + n)]
    return [tuple(" ".join(words[d] for d in each) for words in (ZAHLEN, NUMBERS)) for each in digits]


def write(path, pairs, header="de\ten"):
    path.write_text("\n".join([header, *("\t".join(pair) for pair in pairs)]) + "\n", encoding="utf-8")


def folder_of(tmp_path, train=60):
    write(tmp_path / "train.tsv", lines(train))
    write(tmp_path / "validation.tsv", lines(10, 300))
    write(tmp_path / "test.tsv", lines(10, 400))
    return tmp_path


def read(folder, **settings):
    return bitext("mine", folder, **{"languages": ("de", "en"), "vocabulary": 60} | settings)


# ---- folders


def test_a_folder_of_tables(tmp_path):
    data = read(folder_of(tmp_path))
    assert [len(getattr(data, split)) for split in ("train", "validation", "test")] == [60, 10, 10]
    assert sorted(data.train.texts) == sorted(lines(60))
    first = data.test.source[: data.test.source_lengths[0]].tolist()
    assert data.subwords.decode(first) == data.test.texts[0][0]
    assert len(data.subwords) == 60 and list(data.sizes["cut"]) == [0, 0, 0]
    back = read(tmp_path, languages=("en", "de"))
    assert sorted(back.test.texts) == sorted((target, source) for source, target in lines(10, 400))


def test_a_folder_with_files_of_its_own_comes_before_its_subfolders(tmp_path):
    (tmp_path / "mine").mkdir()
    folder_of(tmp_path / "mine", train=30)
    assert len(read(tmp_path).train) == 30
    assert len(read(folder_of(tmp_path)).train) == 60


def test_a_folder_of_lines_compressed_or_not(tmp_path):
    pairs = lines(60)
    (tmp_path / "all.de").write_bytes("".join(f"{source}\n" for source, _ in pairs).encode())
    with gzip.open(tmp_path / "all.en.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(target for _, target in pairs))
    data = read(tmp_path)
    found = [pair for split in ("train", "validation", "test") for pair in getattr(data, split).texts]
    assert sorted(found) == sorted(pairs)
    assert [len(data.validation), len(data.test)] == [2, 3]


def test_files_that_are_not_aligned_are_refused_with_the_line_where_they_part(tmp_path):
    (tmp_path / "train.de").write_text("eins\nzwei\ndrei\n")
    (tmp_path / "train.en").write_text("one\ntwo\n")
    with pytest.raises(ValueError, match=r"train\.de and train\.en must have as many lines; got \(3, 2\)"):
        read(tmp_path)
    (tmp_path / "train.en").unlink()
    with pytest.raises(ValueError, match=r"must hold one file of train .*train\.de"):
        read(tmp_path)
    (tmp_path / "train.de").unlink()
    (tmp_path / "train.tsv").write_text("de\ten\neins\tone\nzwei two\n")
    with pytest.raises(ValueError, match=r"line 3 of .* must have 2 fields; got 1"):
        read(tmp_path)


def test_a_table_from_windows_is_read_as_any_other(tmp_path):
    write(tmp_path / "train.tsv", lines(60))
    plain = read(tmp_path).train.texts
    text = (tmp_path / "train.tsv").read_text()
    (tmp_path / "train.tsv").write_bytes(("\ufeff" + text.replace("\n", "\r\n")).encode())
    assert read(tmp_path).train.texts == plain


def test_a_language_that_is_not_there_is_named(tmp_path):
    folder_of(tmp_path)
    with pytest.raises(ValueError, match="must have the column nl"):
        read(tmp_path, languages=("de", "nl"))
    write(tmp_path / "train.tsv", [("eins",)], header="de")
    with pytest.raises(ValueError, match="must have the column en"):
        read(tmp_path)


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("given", [None, "de", ("de", "de")])
def test_two_are_two_and_different(given, tmp_path):
    with pytest.raises(ValueError, match=r"^languages must"):
        bitext("mine", folder_of(tmp_path), languages=given)
    assert two_different("languages", ["de", "en"], "codes") == ("de", "en")


def test_empty_lines_copies_and_long_sentences_are_counted(tmp_path):
    folder_of(tmp_path)
    extra = [("", "one"), ("eins", ""), lines(1)[0], (lines(1, 300)[0][0], "other words"), ("vier", "four")]
    write(tmp_path / "train.tsv", [*lines(60), *extra])
    data = read(tmp_path, max_length=2)
    assert data.about["left out"] == {"one side empty": 2, "copies": 2}
    assert len(data.train) == 61 and data.about["cut"] == {"train": 60, "validation": 10, "test": 10}
    assert int(data.train.source_lengths.max()) == 4 and set(data.train.source[-1:].tolist()) == {2}
    assert list(data.sizes["cut"]) == [60, 10, 10]


def test_a_sentence_with_several_translations_is_of_one_split_whatever_is_drawn(tmp_path):
    several = [(source, f"{target} {word}") for source, target in lines(60) for word in ("one", "two", "ten")]
    write(tmp_path / "all.tsv", several)
    data = read(tmp_path)
    splits = [{source for source, _ in part.texts} for part in (data.train, data.validation, data.test)]
    assert not splits[0] & splits[1] and not splits[0] & splits[2] and not splits[1] & splits[2]
    kept = sum(len(part) for part in (data.train, data.validation, data.test))
    assert data.about["left out"] == {"one side empty": 0, "copies": len(several) - kept} and kept < 180


def test_a_vocabulary_that_the_text_does_not_support_is_refused(tmp_path):
    folder_of(tmp_path)
    with pytest.raises(ValueError, match=r"8000 were asked for.* supports only (\d+)\. Say vocabulary=\1"):
        read(tmp_path, vocabulary=8000)
    with pytest.raises(ValueError, match=r"needs at least \d+"):
        read(tmp_path, vocabulary=6)


def test_files_that_are_missing_or_too_many(tmp_path):
    write(tmp_path / "test.tsv", lines(3))
    with pytest.raises(ValueError, match="must have a file train"):
        read(tmp_path)
    write(tmp_path / "test_2.tsv", lines(3))
    with pytest.raises(ValueError, match=r"test must be one file.*test.tsv.*test_2.tsv"):
        read(tmp_path)


REFUSED = [
    (lambda folder: bitext("multi30"), ValueError, "did you mean 'multi30k'"),
    (lambda folder: read(folder / "gone"), FileNotFoundError, "there is no such folder"),
    (lambda folder: read(folder), FileNotFoundError, "it has none"),
    (lambda folder: bitext("invented", folder), ValueError, "folder must be None"),
    (lambda folder: bitext("invented", max_length=0), ValueError, "max_length must"),
    (lambda folder: bitext("invented", vocabulary=3), ValueError, "vocabulary must be None"),
    (lambda folder: invented(train_sentences=0), ValueError, "train_sentences must"),
    (lambda folder: Grammar(nouns=1), ValueError, "nouns"),
    (lambda folder: invented(**SIZES).encode("  "), ValueError, "a sentence must"),
    (lambda folder: random_pairs(2)[:0].batches(2), ValueError, "rows must"),
    (lambda folder: EpochBatches(make=list, lengths=5, batch_size=0), ValueError, "batch_size must"),
]


@pytest.mark.parametrize(("call", "error", "fragment"), REFUSED)
def test_what_cannot_be_is_refused(call, error, fragment, tmp_path, monkeypatch):
    monkeypatch.delenv("ATTNLIB_DATA", raising=False)
    with pytest.raises(error, match=fragment):
        call(tmp_path)


def test_a_known_set_is_found_by_its_folder_whatever_the_case(tmp_path, monkeypatch):
    (tmp_path / "translation" / "multi30k_en_de").mkdir(parents=True)
    place = folder_of(tmp_path / "translation" / "multi30k_en_de")
    (place / "test.tsv").rename(place / "test_2016_flickr.tsv")
    write(place / "test_2017_flickr.tsv", lines(5, 500))
    monkeypatch.setenv("ATTNLIB_DATA", str(tmp_path))
    data = bitext("Multi30k", vocabulary=60)
    assert sorted(data.test.texts) == sorted(lines(10, 400)) and data.languages == ("de", "en")


def test_iwslt14_is_trained_on_a_part_of_its_validation_set(tmp_path):
    """Its folder has no training set, and the test set is that of the study."""
    place = tmp_path / "iwslt14_de_en_tok"
    place.mkdir()
    write(place / "validation.tsv", lines(60))
    write(place / "test.tsv", lines(10, 400))
    data = bitext("iwslt14", tmp_path, vocabulary=60)
    assert sorted(data.test.texts) == sorted(lines(10, 400))
    assert sorted(data.train.texts + data.validation.texts) == sorted(lines(60)) and len(data.validation) == 3


def test_a_public_file_is_read_once_and_has_to_be_what_it_was(tmp_path, monkeypatch):
    public = {}
    for name in ("train.de", "train.en", "test.de", "test.en"):
        (tmp_path / name).write_bytes(content := gzip.compress(f"{name.replace('.', ' ')}\n".encode()))
        public[name] = PublicFile((tmp_path / name).as_uri(), hashlib.sha256(content).hexdigest())
    recipe = Recipe("two", "two", ("de", "en"), public)
    kept = tmp_path / "kept"
    wanted = {split: [(f"{split} de", f"{split} en")] for split in ("train", "test")}
    assert read_public(recipe, ("de", "en"), kept) == wanted
    monkeypatch.setattr("urllib.request.urlopen", None)
    assert read_public(recipe, ("de", "en"), kept) == wanted
    monkeypatch.undo()
    next(kept.iterdir()).write_bytes(b"flipped")
    for name in public:
        (tmp_path / name).write_bytes(b"another")
    with pytest.raises(ConnectionError, match="is not the file it was"):
        read_public(recipe, ("de", "en"), kept)
    with pytest.raises(ConnectionError, match="could not be read"):
        gone = {"all": PublicFile("file:///gone", "0")}
        read_public(Recipe("x", "x", ("de", "en"), gone), ("de", "en"), kept)
    with pytest.raises(ValueError, match="a language of two must be one of"):
        read_public(recipe, ("de", "nl"), kept)
    with pytest.raises(ConnectionError, match="no public source of iwslt14 de-en is known"):
        read_public(DATASETS["iwslt14"], ("de", "en"), kept)


@pytest.mark.parametrize("length", [0, 1, 500, 999])
@pytest.mark.parametrize("told", [True, False], ids=["its length told", "not told"])
def test_a_file_whose_sending_breaks_off_is_not_taken(tmp_path, length, told):
    content = random.Random(length).randbytes(1000)

    class BreaksOff(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            if told:
                self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(content[:length])

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), BreaksOff) as server:
        Thread(target=server.handle_request, daemon=True).start()
        file = PublicFile(f"http://127.0.0.1:{server.server_port}/a", hashlib.sha256(content).hexdigest())
        with pytest.raises(ConnectionError, match=r"could not be read|is not the file it was") as caught:
            file.read(tmp_path / "kept", "Give folder=...")
    assert str(caught.value).endswith("Give folder=...") and not (tmp_path / "kept").exists()


# ---- subwords


def test_a_text_that_names_special_tokens_is_text():
    subwords = Subwords.trained(texts := ["one <eos> two", "three <pad>"], 31)
    assert [subwords.decode(ids) for ids in subwords.encode(texts)] == texts


def test_subwords_are_the_same_every_time_and_kept(tmp_path):
    texts = [text for pair in lines(60) for text in pair]
    one, kept = Subwords.trained(texts, 60), Subwords.trained(texts, 60, tmp_path)
    assert one.tokenizer.to_str() == kept.tokenizer.to_str()
    (path,) = tmp_path.iterdir()
    assert Subwords.trained(texts, 60, tmp_path).encode(texts) == one.encode(texts)
    path.write_text("damaged")
    assert Subwords.trained(texts, 60, tmp_path).encode(texts) == one.encode(texts)
    assert one.decode(one.encode(["eins, zwei!"])[0]) == "eins<unk> zwei<unk>".replace("<unk>", "")
    assert one.tokens(one.encode(["eins"])[0])[0] == "<bos>"


# ---- ragged pairs


def random_pairs(n=7, seed=0):
    rng = np.random.default_rng(seed)
    words = lambda: " ".join(rng.choice(NUMBERS, rng.integers(1, 6)))  # noqa: E731
    pairs, _ = encode(Subwords.of_words(NUMBERS), [(words(), words()) for _ in range(n)])
    return pairs.with_alignment(torch.from_numpy(rng.random(int(pairs.pair_counts.sum())) < 0.5))


@settings(max_examples=20)
@given(st.integers(1, 9), st.integers(0, 99))
def test_what_is_said_of_pairs_of_tokens_stays_with_them(n, seed):
    pairs = random_pairs(n, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    some = pairs[order]
    assert torch.equal(some.alignment, pairs.alignment[pairs.positions(order)])
    assert torch.equal(some.source_of_pair, pairs.source_of_pair[pairs.positions(order)])
    assert torch.equal(some.predicted, pairs.predicted[pairs.target_positions(order)])
    batch = pairs.batch(order)
    assert torch.equal(batch.predicted[batch.real], some.predicted)
    read, written = torch.broadcast_tensors(batch.source[:, None], batch.predicted[..., None])
    assert torch.equal(read[batch.pairs], some.source_of_pair)
    assert torch.equal(written[batch.pairs], some.target_of_pair)
    assert some.row_lengths.sum() == len(some.alignment) and len(some.sentences) == len(some.predicted)
    assert sorted(torch.cat([each.rows for each in pairs.in_batches(2)]).tolist()) == list(range(n))


def test_batches_are_of_different_pairs_and_there_have_to_be_some():
    pairs = random_pairs(20)
    assert len(torch.cat([pairs.batches(6)(step).rows for step in range(3)]).unique()) == 18
    assert [pairs[row].texts for row in (0, -1)] == [pairs.texts[:1], pairs.texts[-1:]]
    with pytest.raises(ValueError, match=r"^pairs must"):
        Pairs(pairs.source, pairs.source_lengths, pairs.target, pairs.target_lengths, pairs.texts[1:])


# ---- the invented languages


def test_the_translation_and_its_alignment_follow_from_the_dictionary():
    words = lexicon()
    units = {unit.source: unit.target for kind in (*words[:-1], [words.joiner]) for unit in kind}
    data = invented(train_sentences=100, validation_sentences=20, test_sentences=20)
    for row in range(100):
        one = data.train[row : row + 1]
        source, target = (text.split() for text in one.texts[0])
        known = one.alignment.view(len(target) + 1, len(source) + 2)
        assert not known[-1].any() and not known[:, 0].any() and not known[:, -1].any()
        inner = known[:-1, 1:-1]
        assert inner.any(1).all() and inner.sum(1).max() <= 2
        for place in range(len(target)):
            said = tuple(word for word, there in zip(source, inner[place], strict=True) if there)
            assert target[place] in units[said]
            first = int((inner == inner[place]).all(1).nonzero()[0])
            assert units[said][place - first] == target[place]
        for place in (~inner.any(0)).nonzero().flatten().tolist():
            assert units[(source[place],)] == ()
        assert not (one.predicted == 3).any()
    parts = [data.train, data.validation, data.test]
    assert len({text for part in parts for text, _ in part.texts}) == 140


@pytest.mark.parametrize("grammar", [None, Grammar(nouns=60, verbs=30, adjectives=30, adverbs=10)])
def test_every_word_has_a_meaning_which_it_shares_with_its_translation(grammar):
    words = lexicon(grammar)
    meanings = words.meanings
    assert {*meanings} == {*words.words}
    units = [unit for kind in (*words[:-1], [words.joiner]) for unit in kind]
    assert len({meanings[unit.source[0]] for unit in units}) == len(units)
    for source, target in units:
        assert {meanings[word] for word in target} <= {meanings[source[0]]}
        assert {meanings[word] for word in source[1:]} <= {"up"}


def test_verbs_go_to_the_end_and_adjectives_behind_their_nouns():
    simple = Grammar(two_words=0, phrasal=0, clauses=1)
    sizes = {"train_sentences": 100, "validation_sentences": 5, "test_sentences": 5}
    data, words = invented(simple, **sizes), lexicon(simple)
    kind = {unit.source[0]: name for name in words._fields[:-1] for unit in getattr(words, name)}
    seen = set()
    for row in range(100):
        one = data.train[row : row + 1]
        kinds = [kind[word] for word in one.texts[0][0].split()]
        order = one.alignment.view(-1, len(kinds) + 2)[:-1, 1:-1].int().argmax(1).tolist()
        said = [kinds[place] for place in order]
        assert said[-1] == "verbs" and "articles" not in said
        assert all(said[i - 1] == "nouns" for i, each in enumerate(said) if each == "adjectives")
        seen |= set(said)
    assert seen == {"nouns", "verbs", "adjectives", "adverbs"}
    one = invented(Grammar(reordered=False), **sizes).train[:1]
    places = one.alignment.view(-1, int(one.source_lengths[0])).int().argmax(1)[:-1]
    assert (places.diff() >= 0).all()


def test_the_same_seed_gives_the_same_sentences(monkeypatch):
    one, other, third = (invented(seed=seed, **SIZES) for seed in (0, 0, 1))
    assert one.train.texts == other.train.texts != third.train.texts
    assert torch.equal(one.train.alignment, other.train.alignment)
    assert bitext("Invented", **SIZES).test.texts == one.test.texts
    said = "sepu demi rara tira migo sepu nono sego", "lomfel norfel gushet valgus valkim dunpan"
    assert said in one.train.texts  # the example that the package gives
    assert one.encode("gogo xyz").source.tolist()[2] == 3
    home = sys.modules[invented.__module__]
    monkeypatch.setattr(home, "_sentence", lambda *_: (["nono"], ["valgus"], np.ones((1, 1), bool)))
    with pytest.raises(ValueError, match="for 30 to differ; got 1"):
        invented(**SIZES)

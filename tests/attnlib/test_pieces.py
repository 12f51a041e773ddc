"""A part of a text finds its tokens, also where a character is spread over several, in many scripts."""

import pytest
import transformers as hf

from attnlib.pieces import offsets, pieces, tokens_of
from tests.live_page import small_tokenizer
from tests.pretrained import trained_model

SCRIPTS = {
    "Latin": "naïve Übergröße",
    "Greek": "γλώσσα",
    "Cyrillic": "внимание",
    "Armenian": "ուշադրություն",
    "Georgian": "ყურადღება",
    "Hebrew": "שימת לב",
    "Arabic": "الانتباه",
    "Devanagari": "ध्यान दें",
    "Bengali": "মনোযোগ",
    "Gurmukhi": "ਧਿਆਨ",
    "Gujarati": "ધ્યાન",
    "Tamil": "கவனம்",
    "Telugu": "శ్రద్ధ",
    "Kannada": "ಗಮನ",
    "Malayalam": "ശ്രദ്ധ",
    "Sinhala": "අවධානය",
    "Thai": "ความสนใจ",
    "Lao": "ຄວາມສົນໃຈ",
    "Tibetan": "དོ་སྣང",
    "Burmese": "အာရုံ",
    "Khmer": "ការយកចិត្ត",
    "Amharic": "ትኩረት",
    "Han": "中文字符",
    "Kana": "ちゅういカナ",
    "Hangul": "주의력",
    "Cherokee": "ᎤᎾᏛᏁᎸ",
    "Gothic": "𐌲𐌿𐍄",
    "emoji": "😀👩‍👧🇫🇷",
    "mathematics": "∑𝔸≠∞",
}

TEXT = "I like {} a lot, and {} too."


@pytest.fixture(scope="module")
def tokenizers():
    """Of bytes with merges; of pieces that fall back on bytes, with a blank put in front."""
    return {"merged bytes": small_tokenizer(), "bytes": hf.AutoTokenizer.from_pretrained(trained_model())}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", ["merged bytes", "bytes"])
def test_the_tokens_of_a_part_are_those_of_the_tokenizers_own_offsets(tokenizers, kind, script) -> None:
    tokenizer, word = tokenizers[kind], SCRIPTS[script]
    text = TEXT.format(word, word)
    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    ids, own = encoded["input_ids"], encoded["offset_mapping"]
    assert len(ids) > len(own) - own.count((0, 0)) - 1 and tokenizer.decode(ids) == text
    for length in (1, 2, len(word), len(word) + 5):
        for begin in range(text.index(word) - 3, text.index(word) + len(word)):
            part = text[begin : begin + length]
            if part != part.strip() or text.index(part) != begin:
                continue
            held = [i for i, (first, stop) in enumerate(own) if first < begin + length and stop > begin]
            assert tokens_of(part, ids, tokenizer) == (held[0], held[-1] + 1), part


@pytest.mark.parametrize("kind", ["merged bytes", "bytes"])
def test_the_pieces_from_a_place_on_are_those_of_the_whole(tokenizers, kind) -> None:
    ids = tokenizers[kind](" ".join(SCRIPTS.values()), add_special_tokens=False)["input_ids"]
    whole = pieces(ids, tokenizers[kind])
    for start in range(0, len(ids), 7):
        assert pieces(ids, tokenizers[kind], start) == whole[start:]


class Bytes:
    """A tokenizer whose tokens are the bytes of the text."""

    def decode(self, ids, **settings):
        return bytes(ids).decode(errors="replace")


@pytest.mark.parametrize("script", SCRIPTS)
def test_where_every_byte_is_a_token_each_has_its_character(script) -> None:
    text = TEXT.format(SCRIPTS[script], SCRIPTS[script])
    found, places = offsets(list(text.encode()), Bytes())
    assert found == text
    assert places == [(i, i + 1) for i, letter in enumerate(text) for _ in letter.encode()]


def test_a_character_that_is_never_finished_is_one_of_the_text_still() -> None:
    ids = [*b"a", *"😀".encode()[:3]]
    assert offsets(ids, Bytes()) == ("a\ufffd", [(0, 1), (1, 2), (1, 2), (1, 2)])
    assert offsets(list("�b".encode()), Bytes()) == ("�b", [(0, 1)] * 3 + [(1, 2)])


@pytest.mark.parametrize(
    ("part", "place"), [("a", (0, 1)), (" dog", (1, 3)), ("o", (2, 3)), ("do", (1, 3)), ("ag", (3, 5))]
)
def test_the_tokens_of_a_part_are_those_that_hold_any_of_it(part, place) -> None:
    class Words:
        words = ("a cat", " d", "og", " wa", "gs")

        def decode(self, ids, **settings):
            return "".join(self.words[i] for i in ids)

    assert tokens_of(part, range(5), Words()) == place
    for none in ("cow", " "):
        with pytest.raises(ValueError, match="should be a part of the text 'a cat dog wags'"):
            tokens_of(none, range(5), Words())


def test_pieces_join_to_the_text_and_show_a_split_character_once() -> None:
    text = "naïve  words\nof €"
    whole = pieces(list(text.encode()), Bytes())
    assert "".join(whole).replace("\ufffd", "") == text
    assert len(whole) == len(text.encode()) and whole[2:4] == ["\ufffd", "ï"]


def test_pieces_of_a_real_vocabulary_keep_the_blanks(tokenizers) -> None:
    text = "Once upon a time, Lily said: it's\na big, red ball"
    ids = tokenizers["bytes"](text, add_special_tokens=False)["input_ids"]
    assert "".join(pieces(ids, tokenizers["bytes"])) == text

"""The joint vocabulary of two languages: subwords, or whole words."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnlib.files import write_atomically
from attnlib.generators.tokenizer import BOS_ID, EOS_ID, SPECIAL, UNK
from attnlib.places import make_folder

if TYPE_CHECKING:
    import tokenizers


class Subwords:
    """A joint vocabulary of two languages: from a text to token ids and back.

    Args:
        tokenizer: a tokenizer of Hugging Face's `tokenizers`, whose ids 0 to 3 are the tokens of `SPECIAL`.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self.tokenizer = tokenizer
        tokenizer.encode_special_tokens = True  # "<eos>" in a text is text

    @classmethod
    def trained(cls, texts: Iterable[str], size: int, folder: Path | None = None) -> Subwords:
        """Byte-pair encoding trained on texts; the same texts give the same vocabulary.

        (The original trains a unigram model with sentencepiece; training one with `tokenizers` is not
        reproducible.) A space belongs to the word after it; punctuation marks are separate tokens. A size
        that the texts do not support raises `ValueError`.

        Args:
            texts: training texts of both languages.
            size: number of ids, including those of `SPECIAL`.
            folder: cache of vocabularies, by a hash of texts and size; `None`: train without a cache.
        """
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

        lines = list(texts)
        digest = hashlib.sha256(json.dumps([lines, size, "bpe, NFKC, punctuation apart"]).encode())
        kept = None if folder is None else folder / f"{digest.hexdigest()[:16]}.json"
        if kept is not None and os.path.isfile(kept):
            try:
                return cls(Tokenizer.from_file(str(kept)))
            except Exception:  # tokenizers raises a bare Exception for a damaged file: train again
                pass
        tokenizer = Tokenizer(models.BPE(unk_token=UNK))
        tokenizer.normalizer = normalizers.NFKC()
        apart = pre_tokenizers.Punctuation(behavior="isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), apart])
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(SPECIAL), show_progress=False)
        tokenizer.train_from_iterator(lines, trainer)
        found = tokenizer.get_vocab_size()
        if found != size:
            problem = "needs at least" if found > size else "supports only"
            raise ValueError(
                f"vocabulary should fit the training text: {size} were asked for, and this text of "
                f"{len(lines):,} sentences {problem} {found}. Say vocabulary={found}."
            )
        if kept is not None:
            make_folder(kept.parent)
            write_atomically(kept, tokenizer.to_str().encode())
        return cls(tokenizer)

    @classmethod
    def of_words(cls, words: Sequence[str]) -> Subwords:
        """A vocabulary of whole words, separated by white space; any other word becomes `<unk>`."""
        from tokenizers import Tokenizer, models, pre_tokenizers

        ids = {word: index for index, word in enumerate([*SPECIAL, *words])}
        tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNK))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return cls(tokenizer)

    def __len__(self) -> int:
        """How many ids there are, the special ones included."""
        return self.tokenizer.get_vocab_size()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Each text as `<bos>`, its tokens' ids, and `<eos>`."""
        found = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [[BOS_ID, *each.ids, EOS_ID] for each in found]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The text of each token; a subword that begins a word starts with a space."""
        return [(self.tokenizer.id_to_token(index) or UNK).replace("▁", " ") for index in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids up to `<eos>`, without special tokens."""
        end = list(ids).index(EOS_ID) if EOS_ID in ids else len(ids)
        return self.tokenizer.decode(list(ids[:end]), skip_special_tokens=True)

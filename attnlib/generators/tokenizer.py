"""A tokenizer with one token per character, for the models we train from scratch."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

from attnlib.checks import check

if TYPE_CHECKING:
    import transformers

SPECIAL = PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
"""The special tokens; the id of each is its index here."""

PAD_ID, BOS_ID, EOS_ID, UNK_ID = range(4)


def char_tokenizer(characters: str = string.printable) -> transformers.PreTrainedTokenizerFast:
    """A Hugging Face fast tokenizer that gives every character a token of its own.

    Ids 0 to 3 are `<pad>`, `<bos>`, `<eos>` and `<unk>`; character *i* of `characters` has id 4 + *i*.
    Encoding puts `<bos>` in front, as most language models' tokenizers do, unless it is called with
    `add_special_tokens=False`. A character outside `characters` becomes `<unk>`.

    Args:
        characters: the vocabulary, each character once. The default is Python's 100 printable ones.

    Example:
        >>> tokenizer = char_tokenizer()
        >>> tokenizer.tokenize("12+3=")
        ['1', '2', '+', '3', '=']
        >>> tokenizer.decode(tokenizer("a b")["input_ids"], skip_special_tokens=True)
        'a b'
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    once = characters and len({*characters}) == len(characters)
    check(once, "characters must be a string with each character once", characters)
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, vocabulary[BOS])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="right",
        clean_up_tokenization_spaces=False,
    )

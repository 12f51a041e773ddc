"""The RASP languages: the output at every position, and the attention of a RASP program that computes it.

Source: Weiss, Goldberg and Yahav, *Thinking Like Transformers*, ICML 2021, section 5.
"""

from attnlib.generators.rasp.definitions import LANGUAGES, Definition, Pattern, definitions_in
from attnlib.generators.rasp.language import ALPHABET_SIZES, Language, language
from attnlib.generators.rasp.sequences import Sequences, select

__all__ = [
    "ALPHABET_SIZES",
    "LANGUAGES",
    "Definition",
    "Language",
    "Pattern",
    "Sequences",
    "definitions_in",
    "language",
    "select",
]

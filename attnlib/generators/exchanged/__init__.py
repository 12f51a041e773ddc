"""The same text with another right answer: its sources are exchanged, and what follows from them.

Every function keeps the text's length and form, and takes the other answer from the generator itself. `None`
stands for: there is no such text.
"""

from attnlib.generators.exchanged.algorithmic import exchanged_text
from attnlib.generators.exchanged.alike import Alike, form
from attnlib.generators.exchanged.facts import exchanged_values
from attnlib.generators.exchanged.programs import exchanged_symbols
from attnlib.generators.exchanged.sentences import Exchanged, Translator
from attnlib.generators.exchanged.sums import exchanged_problem
from attnlib.generators.exchanged.words import opposites

__all__ = [
    "Alike",
    "Exchanged",
    "Translator",
    "exchanged_problem",
    "exchanged_symbols",
    "exchanged_text",
    "exchanged_values",
    "form",
    "opposites",
]

r"""Sentences and their translations: the data sets of the study, folders of your own, and invented languages.

`bitext("multi30k")` gives train, validation and test sentences. It looks into `folder=...` if you name
one; else into `$ATTNLIB_DATA/translation`, if that is set; else it reads the public source (`DATASETS`) at a
pinned revision, which needs a network. `bitext("invented")` needs neither.

A folder holds tab-separated files with a header line, whose columns are languages, and no quotes; or files of
lines::

    multi30k_en_de/train.tsv.gz         en  de          columns in any order, further ones are ignored
    mine/train.de, mine/train.en        line by line: bitext("mine", "mine", languages=("de", "en"))

`bitext("invented")` makes sentences like this one, in which every word's translation is known: the article
*sepu* has none; the adjective *demi* (*norfel*) follows its noun *rara* (*lomfel*); the phrasal verb
*tira migo* is one word, *dunpan*, at the end of its clause; the noun *nono* is two, *gushet valgus*::

    sepu demi rara tira migo sepu nono sego   ->   lomfel norfel gushet valgus valkim dunpan

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns*,
and the authors' code.
"""

from attnlib.generators.translation.bitext import Bitext
from attnlib.generators.translation.invented import Grammar, Lexicon, invented, lexicon
from attnlib.generators.translation.pairs import PairBatch, Pairs
from attnlib.generators.translation.recipes import DATASETS, Recipe, bitext
from attnlib.generators.translation.subwords import Subwords

__all__ = [
    "DATASETS",
    "Bitext",
    "Grammar",
    "Lexicon",
    "PairBatch",
    "Pairs",
    "Recipe",
    "Subwords",
    "bitext",
    "invented",
    "lexicon",
]

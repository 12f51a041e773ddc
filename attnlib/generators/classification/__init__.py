r"""Texts of two classes: the data sets of the study, folders of your own, and one with ground truth.

`corpus("sms")` gives train, validation and test documents. It looks into `folder=...` if you name one; else
into `$ATTNLIB_DATA/classification`, if that is set; else it reads the public source (`DATASETS`) at a pinned
revision, which needs a network and Hugging Face's `datasets`. `corpus("planted")` needs neither.

A folder holds tab-separated files with a header line and no quotes, or CSV files::

    sms_spam/all.tsv.gz          label  text            one file, split here
    imdb/train.tsv               label  text
    imdb/test.tsv                label  text            validation is drawn from train
    yelp_reviews/train.tsv       stars  text            1-2 against 4-5 stars
    furd/train.tsv, furd/test.tsv                       any other name: corpus("furd", folder="furd")
    reviews.csv                  sentiment  review      a single file: corpus("reviews", folder="reviews.csv")

`corpus("planted")` makes documents like these, but longer, of words with known strengths. (Only here are
keywords in capitals.) The sign of the strengths' sum is the label. *summer* and *wolf* are confounders: they
correlate with the label, but do not decide it::

    gonohu MOVING rahuba summer POOR mipuka        +3 -2 = +1: positive
    gonohu SLOW DATED wolf rahuba mipuka FINE      -1 -1 +2 = 0: drawn anew
    gonohu AWFUL DATED wolf rahuba mipuka FINE     -3 -1 +2 = -2: negative

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns*,
and the authors' code. Words are split as `split_words` says (the original's files were split before).
"""

from attnlib.generators.classification.corpus import Corpus
from attnlib.generators.classification.documents import DocumentBatch, Documents
from attnlib.generators.classification.planted import Planting, lexicon, opposites, planted
from attnlib.generators.classification.recipes import DATASETS, Hub, Recipe, corpus
from attnlib.generators.classification.vocabulary import Vocabulary, split_words

__all__ = [
    "DATASETS",
    "Corpus",
    "DocumentBatch",
    "Documents",
    "Hub",
    "Planting",
    "Recipe",
    "Vocabulary",
    "corpus",
    "lexicon",
    "opposites",
    "planted",
    "split_words",
]

"""Subject-verb agreement: is the next verb singular or plural?

The task on which rollout and flow were introduced (Abnar and Zuidema 2020): a model reads a sentence up to
its verb, and has to find the subject among nouns of the other number. Two examples (subjects are in capitals
here only), and the verb's number:

    <bos> the KEYS to the cabinet near our door                          plural, 2 attractors
    <bos> near the roads , my NEIGHBOUR that some singers admired        singular, 1 attractor
"""

from book.chapters.flow.agreement.corpora import gulordava, linzen
from book.chapters.flow.agreement.sentences import Sentence, SentenceTask, vocabulary_of
from book.chapters.flow.agreement.templates import templates
from book.chapters.flow.agreement.tokenized import TokenizedTask

__all__ = ["Sentence", "SentenceTask", "TokenizedTask", "gulordava", "linzen", "templates", "vocabulary_of"]

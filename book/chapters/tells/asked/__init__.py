"""Where questions come from: texts of the book's tasks, of which the sources of every answer are known.

One question per text, as a rule. Every one has a counterfactual, from the generator that the text is of, and
the right answer there as its foil: a prediction that has none is not asked for. Questions to a causal model
end where they are asked, since what comes later is not seen.

A counterfactual is the same text with its sources exchanged. Often nothing else is another in it, and then
whatever compares the two token by token finds the sources by construction: to ask patching, say `others`, and
it is a text of its own, of the same form.
"""

from book.chapters.tells.asked.answers import about_answers, about_sums
from book.chapters.tells.asked.copies import about_copies
from book.chapters.tells.asked.documents import about_documents
from book.chapters.tells.asked.facts import about_facts
from book.chapters.tells.asked.programs import about_programs
from book.chapters.tells.asked.question import Question, gathered, some
from book.chapters.tells.asked.sentences import about_sentences

__all__ = [
    "Question",
    "about_answers",
    "about_copies",
    "about_documents",
    "about_facts",
    "about_programs",
    "about_sentences",
    "about_sums",
    "gathered",
    "some",
]

"""Prompts that the chapter's explorer offers to a reader, for the model in the page."""

from __future__ import annotations

from attnlib.generators.prompts import EXAMPLES, STUDY
from attnlib.widgets.language_model_explorer import Trial

FACTS = ("The code of Grace is 4821.", "The code of Hugo is 1936.", "The code of Omar is 7350.")
QUESTION = "Q: What is the code of Hugo? A: The code of Hugo is"

NOTES = {
    "Putin": "Forced, the study's words. Rollout ranks 'Putin' low for 'Russia'; ask blank-out for it, too.",
    "Abdul": "Forced, the study's words: 'Pakistan' is not what this model would write. Empty the box "
    "'Force' to see what it would.",
    "weather": "Forced, the study's words. Blank the token 'sunny' of the context: how likely is it then?",
    "Colosseum": "Forced, the study's words: 'David' stands in the prompt, and blank-out knows it.",
}

TRIALS = (
    Trial(
        "a needle",
        " ".join((*FACTS, QUESTION)),
        word="1",
        note="The answer can only come from '1936', in the second fact. What do rollout and attention give "
        "its digits? Then ask for blank-out.",
    ),
    Trial(
        "the needle moved",
        " ".join((FACTS[1], FACTS[0], FACTS[2], QUESTION)),
        word="1",
        note="The same facts, and the one that is asked for comes first. The answer stays; what follows it?",
    ),
    *(Trial(name, each.text, each.completion, each.word, note=NOTES[name]) for name, each in STUDY.items()),
    Trial(
        "a name and a country",
        EXAMPLES["a name and a country"],
        note="Switch all heads of a layer off, one layer after the other: which can the model do without?",
    ),
    Trial(
        "a chat",
        "Name three animals that live in the sea.",
        chat=True,
        note="In the form in which the model was taught to answer; with a temperature it draws its words.",
    ),
)
"""What tells at once: a needle, also moved; the study's four prompts; one to switch heads in; a chat."""

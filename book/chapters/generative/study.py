"""The prompts of the study of rollout for generation, and the tokens that it leaves out."""

from typing import NamedTuple


class StudyPrompt(NamedTuple):
    """A verbatim prompt of the study, its model's completion, and the word of it that the study examines."""

    text: str
    completion: str
    word: str


STUDY = {
    "Putin": StudyPrompt("My name is Putin, I am from", " Russia, I am a Russian", "Russia"),
    "Abdul": StudyPrompt(
        "My name is Abdul, I am from",
        " Pakistan. I am a student of the University of Delhi",
        "Pakistan",
    ),
    "weather": StudyPrompt(
        "Context: It is sunny today, which is bad.\nQ: How is the weather today ?\nA: It is",
        " sunny, but it is not as warm as it was yesterday.",
        "sunny",
    ),
    "Colosseum": StudyPrompt(
        "The grandest and most renowned of all these is the Colosseum at Rome. It was built by David and his "
        "son Titus, the conquerors of Egypt.\nQ: Who built the Coliseum ?\nA:",
        " The Colosseum was built by David",
        "David",
    ),
}
"""The four prompts that the study shows, by a name of ours; their spelling is the study's."""

STUDY_FILTER = frozenset({",", ".", "\n", "is", ":", "and"})
"""The tokens that the study names as uninformative, to be filtered out."""


def filtered_by_study(token: str) -> bool:
    """Whether a token's text, without leading blanks, is one of `STUDY_FILTER`."""
    return token.strip(" ▁Ġ") in STUDY_FILTER

"""The study's prompts, and the words that it looks at."""

from book.chapters.generative.study import STUDY


def test_the_word_that_is_looked_at_stands_in_what_the_model_wrote() -> None:
    assert len(STUDY) == 4
    assert all(each.word in each.completion and each.completion.startswith(" ") for each in STUDY.values())

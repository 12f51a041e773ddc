"""Sentences of the chapter that works methods out by hand."""

from book.chapters.methods.methods import flow_clause


def test_a_sentence_on_flow_says_whether_it_tells_tokens_apart() -> None:
    assert flow_clause("abc", [0.5, 0.5, 0.5 + 1e-12]) == "cannot tell the tokens apart"
    assert flow_clause("abc", [0.5, 0.2, 0.1]) == "is largest from a"
    assert flow_clause("abc", [0.5, 0.2, 0.5]) == "is largest from a and c"

"""The name of a set of sentences, by which its rows are found among all records."""

import pytest

from tests.parameters import smallest


@pytest.mark.parametrize(
    ("data", "languages", "name"),
    [
        ("ntrex", [], "NTREX en-nl"),
        ("ntrex", ["en", "nl"], "NTREX en-nl"),
        ("ntrex", ["en", "pt"], "NTREX en-pt"),
        ("NTREX", ["it", "pt"], "NTREX it-pt"),
        ("multi30k", [], "multi30k"),
        ("multi30k", ["en", "de"], "multi30k en-de"),
        ("iwslt14", ["en", "de"], "iwslt14 en-de"),
        ("invented", [], "invented"),
    ],
)
def test_other_languages_than_the_studys_are_named(data, languages, name):
    assert smallest("translation_dynamics", data=data, languages=languages).name == name

"""What the tests of the built book share: which pages there are, and what is written on them."""

import functools
from pathlib import Path

import yaml
from bs4 import BeautifulSoup

from book.pipeline.contents import documents
from book.pipeline.further import further_page

ROOT = Path(__file__).parents[2]
DOCUMENTS = list(documents(yaml.safe_load((ROOT / "_toc.yml").read_text())))
CHAPTERS = [document for document in DOCUMENTS if document.startswith("notebooks/")]
FURTHER = [
    further_page(chapter)
    for chapter in CHAPTERS
    if '"## Further experiments\\n"' in (ROOT / f"{chapter}.ipynb").read_text()
]
"""The second pages of chapters."""


@functools.cache
def parsed(path: Path) -> BeautifulSoup:
    """What a page holds: read by several tests, and large."""
    return BeautifulSoup(path.read_text(), "html.parser")

"""Explorers in a browser, as the tests of the book open them."""

from tests.book.conftest import browser, idle, opened

__all__ = ["browser", "idle", "opened"]

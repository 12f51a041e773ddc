"""Thinking Like Transformers: small languages, attention supervised or not, ablations."""

from book.chapters.rasp.rasp_languages import RaspLanguages

__all__ = ["RaspLanguages"]

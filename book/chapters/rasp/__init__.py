"""Thinking Like Transformers: small languages, supervised attention, and ablations."""

from book.chapters.rasp.rasp_languages import RaspLanguages

__all__ = ["RaspLanguages"]

"""Attribution methods and faithfulness metrics on random programs with ground truth."""

from book.chapters.programs.random_programs import Programs

__all__ = ["Programs"]

"""A model, a task and a prompt of your own."""

from book.chapters.own_model.own_model import OwnModel

__all__ = ["OwnModel"]

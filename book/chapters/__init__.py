"""What the chapters compute: a folder for each, and beside them what they share."""

CHAPTERS = (
    "rasp",
    "generative",
    "flow",
    "reasoning",
    "lens",
    "classification",
    "translation",
    "copying",
    "tells",
    "judging",
    "programs",
    "methods",
    "own_model",
)
"""The folder of each, in the book's order."""

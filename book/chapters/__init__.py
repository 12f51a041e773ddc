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
    "attribution_benchmark",
    "faithfulness_metrics",
    "programs",
    "methods",
    "own_model",
)
"""The folder of each, in the book's order."""

"""The code of the chapters: a folder for each chapter, and beside these the modules that chapters share."""

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
"""The folder of each chapter, in the book's order."""

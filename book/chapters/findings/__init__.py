"""What the studies claimed, and what came out: read from `results/`, put into words, judged by rules.

`python -m book.chapters.findings` prints it; `--readme` writes it into README.md; the first page shows it.
A chapter's claims are in its folder.
"""

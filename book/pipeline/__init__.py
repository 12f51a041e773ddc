"""What the Snakefile runs: `execute` (one chapter), `stage` (the book), and `make book`'s front door."""

"""`python -m book.chapters.findings` prints what came of claims; `--readme` puts the gist into README.md."""

import argparse
from pathlib import Path

from book.chapters.findings.claims import findings
from book.chapters.findings.readme import filled, table


def main() -> None:
    """Print the table, with what else is to be known, or renew the README's."""
    parser = argparse.ArgumentParser(description="What the studies claimed, and what came out in results/.")
    parser.add_argument("--readme", action="store_true", help="write it into README.md, between its markers")
    args = parser.parse_args()
    if args.readme:
        path = Path("README.md")
        path.write_text(filled(path.read_text(), table(findings())))
    else:
        print(table(findings(), whole=True))


if __name__ == "__main__":
    main()

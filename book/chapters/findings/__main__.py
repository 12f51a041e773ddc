"""`python -m book.chapters.findings` prints all findings; `--readme` updates README and CITATION."""

import argparse
from pathlib import Path

from book.chapters.findings.claims import findings
from book.chapters.findings.readme import cited, filled, table


def main() -> None:
    """Print the table of all claims, or update the findings in README.md and CITATION.cff."""
    parser = argparse.ArgumentParser(description="What the studies claimed, and what came out in results/.")
    parser.add_argument("--readme", action="store_true", help="renew README.md and CITATION.cff")
    args = parser.parse_args()
    if args.readme:
        for path, renewed in ((Path("README.md"), filled), (Path("CITATION.cff"), cited)):
            text = renewed(path.read_text(encoding="utf-8"), findings())
            path.write_text(text, encoding="utf-8")
    else:
        print(table(findings()))


if __name__ == "__main__":
    main()

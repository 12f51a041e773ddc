"""`python -m attnlib look ...` runs the console script `attnlib`, also where it is not on the path."""

import sys

from attnlib.commands import main

if __name__ == "__main__":
    sys.exit(main())

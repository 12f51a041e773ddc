"""A script that IPython runs at the start of every kernel of `make lab` (PYTHONSTARTUP)."""

import myst_nb

from book.pipeline.live import glued, keeping  # noqa: F401 - roles in the text call `glued`

myst_nb.glue = keeping

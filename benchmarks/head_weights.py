"""What weights of heads cost rollout, beside the study's own order of operations.

    python benchmarks/head_weights.py [--record]      # about two minutes

Attention of 8 layers with 32 heads, which is there already: weighted and plain, each on one thread, in turn.
Both ways take the same weights, and are checked to give the same.
"""

from __future__ import annotations

import torch
from rollout import as_published
from timing import Way, common_options, compared, report

from attnlib.rollout import rollout

LAYERS, HEADS, TOKENS = 8, 32, 512


def main() -> None:
    """Print texts per second of both ways, and their ratios."""
    options = common_options(__doc__).parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    attention = torch.randn(1, LAYERS, HEADS, TOKENS, TOKENS).softmax(-1)
    drawn = torch.rand(LAYERS, HEADS)
    weights = drawn / drawn.sum(1, keepdim=True)
    lines = []
    for name, given in (("with head weights", weights), ("without", None)):
        torch.testing.assert_close(
            rollout(attention, head_weights=given), as_published(attention, given), atol=1e-6, rtol=0
        )
        ways = (
            Way(1, lambda given=given: rollout(attention, head_weights=given)),
            Way(1, lambda given=given: as_published(attention, given)),
        )
        lines.append(compared(f"texts of {TOKENS} tokens, {name}", ways[0], {"as published": ways[1]}))
    report("head_weights", lines, options.record)


if __name__ == "__main__":
    main()

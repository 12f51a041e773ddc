"""How fast reference mass is computed: on tensors, and row by row in Python.

    python benchmarks/reference_mass.py [--record]

"Plain" walks over samples and rows and picks each row's keys, as one would at first and as the original
does. Attention of 16 samples of 256 tokens, half of whose rows belong to a prompt; on one thread, in turn;
the ratio is what to look at.
"""

from __future__ import annotations

import numpy as np
import torch
from timing import PLAIN, Way, common_options, compared, report
from torch import Tensor

from attnlib.stats import reference_mass

BATCH, TOKENS, TIMES = 16, 256, 10


def plain(attention: Tensor, reference: Tensor, evaluated: Tensor) -> list[list[float]]:
    """Mass of every row that has an evaluated key, by loops over samples and rows."""
    masses = []
    for sample in range(len(attention)):
        of_sample = []
        for row in range(attention.shape[1]):
            counts = evaluated[sample, row]
            if not counts.any():
                continue
            wanted = attention[sample, row][counts & reference[sample, row]].abs().sum()
            other = attention[sample, row][counts & ~reference[sample, row]].abs().sum()
            of_sample.append((wanted / (wanted + other)).item() if wanted + other > 0 else 0.0)
        masses.append(of_sample)
    return masses


def example(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention, and a reference of a few keys per row of the second half."""
    generator = torch.Generator().manual_seed(seed)
    shape, causal = (BATCH, TOKENS, TOKENS), torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    scores = torch.randn(shape, generator=generator).masked_fill(~causal, -torch.inf)
    evaluated = torch.zeros(shape, dtype=torch.bool)
    evaluated[:, TOKENS // 2 :, 1:] = True
    reference = (torch.rand(shape, generator=generator) < 0.02) & causal & evaluated
    return scores.softmax(-1), reference, evaluated


def main() -> None:
    """Print batches per second of both, and their ratio."""
    options = common_options(__doc__).parse_args()
    torch.set_num_threads(1)
    tensors = example()
    mass = reference_mass(*tensors, as_published=True)
    same = np.concatenate([np.array(each) for each in plain(*tensors)])
    np.testing.assert_allclose(mass[~mass.isnan()].numpy(), same, rtol=1e-4, atol=1e-7)
    ours = Way(TIMES, lambda: [reference_mass(*tensors) for _ in range(TIMES)])
    what = f"batches of {BATCH} samples, {TOKENS} tokens"
    line = compared(what, ours, {PLAIN: Way(1, lambda: plain(*tensors))})
    report("reference_mass", [line], options.record)


if __name__ == "__main__":
    main()

"""How fast reference mass is computed: on tensors, and row by row in Python.

    python benchmarks/reference_mass.py

"Plain" walks over samples and rows and picks each row's keys, as one would at first and as the original
does. Attention of 16 samples of 256 tokens, half of whose rows belong to a prompt; on one thread, in turn;
the ratio is what to look at.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnlib.stats import reference_mass

BATCH, TOKENS = 16, 256


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
    """Print milliseconds of both, and their ratio."""
    torch.set_num_threads(1)
    attention, reference, evaluated = example()
    mass = reference_mass(attention, reference, evaluated, as_published=True)
    same = np.concatenate([np.array(each) for each in plain(attention, reference, evaluated)])
    np.testing.assert_allclose(mass[~mass.isnan()].numpy(), same, rtol=1e-4, atol=1e-7)
    rows = []
    for _ in range(5):  # in turn, so that a machine that slows down slows both
        start = time.perf_counter()
        for _ in range(10):
            reference_mass(attention, reference, evaluated)
        vectorised = (time.perf_counter() - start) / 10
        start = time.perf_counter()
        plain(attention, reference, evaluated)
        rows.append((time.perf_counter() - start, vectorised))
    slow, fast = sorted(rows, key=lambda pair: pair[0] / pair[1])[2]
    table = {
        "batch": BATCH,
        "tokens": TOKENS,
        "ms": 1e3 * fast,
        "plain, ms": 1e3 * slow,
        "ratio": slow / fast,
    }
    print(pd.DataFrame([table]).to_string(index=False, float_format="{:,.1f}".format))


if __name__ == "__main__":
    main()

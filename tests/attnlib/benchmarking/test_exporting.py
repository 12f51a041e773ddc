"""A compiled program as a GPT-2: the same logits and attention, and what cannot become one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnlib.benchmarking.compiling import compiled
from attnlib.benchmarking.exporting import as_gpt2
from attnlib.benchmarking.population import draw

CAUSAL = [seed for seed in range(24) if draw(seed).causal]


@pytest.mark.parametrize("seed", CAUSAL[:8])
def test_gpt2_computes_the_same(seed: int, tmp_path) -> None:
    program = draw(seed)
    own = compiled(program, checked=0)
    theirs = as_gpt2(own)
    ids = torch.from_numpy(program.draw_inputs(np.random.default_rng(5), 16))
    one = own(ids, output_attentions=True)
    theirs.set_attn_implementation("eager")
    other = theirs(ids, output_attentions=True)
    assert other.logits.dtype == torch.float64
    torch.testing.assert_close(other.logits[..., : one.logits.shape[-1]], one.logits, rtol=0, atol=1e-5)
    assert torch.equal(other.logits[:, 1:].argmax(-1), torch.from_numpy(program.outputs(ids.numpy())[:, 1:]))
    torch.testing.assert_close(torch.stack(other.attentions, 1), one.attentions, rtol=0, atol=1e-5)


def test_a_saved_gpt2_loads_again(tmp_path) -> None:
    program = draw(CAUSAL[0])
    theirs = as_gpt2(compiled(program, checked=0))
    theirs.save_pretrained(tmp_path)
    again = type(theirs).from_pretrained(tmp_path, dtype=torch.float64)
    ids = torch.from_numpy(program.draw_inputs(np.random.default_rng(5), 4))
    assert torch.equal(theirs(ids).logits, again(ids).logits)


def test_what_looks_ahead_cannot_become_a_gpt2() -> None:
    ahead = next(seed for seed in range(24) if not draw(seed).causal)
    with pytest.raises(ValueError, match=r"causal must be True to become a GPT-2; got False"):
        as_gpt2(compiled(draw(ahead), checked=0))

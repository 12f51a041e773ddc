"""Compiled programs: exact in every disguise, and disguises that leave the function alone."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

from attnlib.benchmarking.compiling import CHECKED, Disguise, InexactError, compiled, wrong_outputs
from attnlib.benchmarking.population import draw

PLAIN = Disguise()
NAMES = [each.name for each in fields(Disguise)]


@pytest.mark.parametrize("seed", range(12))
def test_a_compiled_program_gives_the_output_at_every_token(seed: int) -> None:
    assert wrong_outputs(draw(seed), compiled(draw(seed), checked=0), 256) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 60))
def test_programs_are_exact_on_all_checked_inputs(seed: int) -> None:
    compiled(draw(seed), checked=CHECKED)


@pytest.mark.parametrize("name", NAMES)
def test_a_disguise_changes_the_weights_and_not_the_function(name: str) -> None:
    program = next(each for each in map(draw, range(100)) if each.n_layers == 2 and each.heads(0))
    plain, other = (
        compiled(program, PLAIN, checked=128),
        compiled(program, Disguise(**{name: True}), checked=128),
    )
    ids = torch.from_numpy(program.draw_inputs(np.random.default_rng(1), 8))
    one, two = (model(ids).logits[:, 1:] for model in (plain, other))
    assert torch.equal(one.argmax(-1), two.argmax(-1))
    weights = [each.state_dict() for each in (plain, other)]
    assert any(
        part.shape != weights[1][key].shape or not torch.equal(part, weights[1][key])
        for key, part in weights[0].items()
    ) or name in ("sink", "hard")  # of programs that copy from no single key, or count nothing


def test_a_rotation_keeps_logits_and_attention() -> None:
    program = draw(1)
    ids = torch.from_numpy(program.draw_inputs(np.random.default_rng(1), 4))
    one, two = (compiled(program, Disguise(rotated=turned), checked=0) for turned in (False, True))
    first, second = (model(ids, output_attentions=True) for model in (one, two))
    torch.testing.assert_close(first.logits, second.logits, rtol=0, atol=1e-6)
    for a, b in zip(first.attentions, second.attentions, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


def test_no_random_number_is_drawn_from_torchs_own_generator() -> None:
    before = torch.random.get_rng_state()
    compiled(draw(2), checked=0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_wrong_transformer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlib.benchmarking.compiling.CONFIDENCE", -1.0)
    with pytest.raises(InexactError, match=r"seed 1 differs from its program in [\d,]+ of"):
        compiled(draw(1), checked=16)

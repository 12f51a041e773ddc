"""The chapter with what a reader types: fine-tuning, and a text of one's own."""

import pytest

TINY = """
tasks: [string_reversal]
override:
  string_reversal: {train: {length: [2, 4]}, id: {length: [2, 4]}, ood: {length: [5, 6]}}
width: 16
batch_size: 4
test_samples: 6
reinforced_heads: 2
model: tiny-random
device: cpu
"""

pytestmark = pytest.mark.notebook


@pytest.mark.slow
def test_fine_tuning_with_chat_instruction_and_examples(papermill):
    """The `finetune` profile, with a model of random weights and in a few steps."""
    settings = "supervised: [string_reversal]\nsteps: 3\nstrengths: [1.0]\nprecision: float32"
    rows = papermill("algorithmic_reasoning", "-y", TINY + settings, profile="finetune").rows()
    assert set(rows["run"]) == {"string reversal", "string reversal, supervised"}
    assert rows["setting"].str.startswith("tiny-random, fine-tuned, chat, instruction, examples").all()
    assert rows[["value", "low", "high"]].notna().all(axis=None)


@pytest.mark.slow
def test_a_text_of_ones_own_and_an_untrained_model(papermill):
    settings = "supervised: []\nsteps: 0\nstrengths: []\ntext: abc=cba"
    shown = papermill("algorithmic_reasoning", "-y", TINY + settings).outputs()
    assert "yours, heads: abc=cba" in shown and "yours, rollout: abc=cba" in shown

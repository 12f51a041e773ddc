"""What the chapters on how attention learns keep of each checkpoint."""

import torch

from book.chapters.dynamics import TokenScores, over_training


def test_every_checkpoint_has_its_own_scores_and_answers():
    rng = torch.Generator().manual_seed(0)
    lengths = torch.tensor([2, 1, 3])

    def at(step: int) -> TokenScores:
        alpha, beta, delta = torch.rand(3, 6, generator=rng)
        right = torch.arange(3) == step // 100
        return TokenScores(lengths, alpha, beta, torch.zeros(3), right, delta if step else None)

    made = {step: at(step) for step in (0, 100, 200)}
    assert len({tuple(each.right.tolist()) for each in made.values()}) == 3
    found = over_training(made, made.__getitem__)
    assert found.steps.tolist() == [*made] and found.lengths.tolist() == lengths.tolist()
    for place, each in enumerate(made.values()):
        assert found.right[place].tolist() == each.right.tolist()
        for name in ("alpha", "beta"):
            assert getattr(found, name)[place].tolist() == getattr(each, name).tolist()
        wanted = torch.zeros(6) if each.delta is None else each.delta
        assert found.delta[place].tolist() == wanted.tolist()

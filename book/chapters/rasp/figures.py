"""Heat maps of a head, its program and the controls for its agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.heat_maps import ROOT, heat_map
from attnlib.plots.panels import finished, row_of_panels
from attnlib.plots.themes import COLUMN
from book.chapters.rasp.measures import agreement


@drawing
def beside_controls(
    name: str,
    attention: Float[Tensor, "query key"],
    programs: Mapping[str, Bool[Tensor, "query key"]],
    tokens: Sequence[str],
) -> Drawn:
    """Heat maps of a head's attention on one sequence, of the programs', and of uniform attention."""
    rows = next(iter(programs.values())).any(-1)
    maps = {
        each: selected / selected.sum(-1, keepdim=True).clamp(min=1) for each, selected in programs.items()
    }
    maps["uniform attention"] = torch.full_like(attention, 1 / len(tokens))
    shares = {each: float(agreement(attention, held)[rows].mean()) for each, held in maps.items()}
    size = (COLUMN - 0.8) / (len(maps) + 1)
    figure, axes = row_of_panels(len(maps) + 1, height=size + 0.5)
    for axis, (each, shown) in zip(axes, {name: attention, **maps}.items(), strict=True):
        heat_map(axis, shown, tokens, None, size)
        axis.set_title(each + (f"\nagreement {shares[each]:.2f}" if each in shares else "\n"))
    axes[0].set(xlabel="key", ylabel="query")
    figure.colorbar(axes[0].collections[0], ax=axes, label=ROOT.format("attention"), aspect=30)
    alt = f"Heat maps of {name} and what it is compared with, rows queries and columns keys. Agreement: "
    alt += "; ".join(f"{each} {share:.2f}" for each, share in shares.items()) + "."
    arrays = {each: shown.float().numpy() for each, shown in {name: attention, **maps}.items()}
    return finished(figure, axes=False), arrays, alt

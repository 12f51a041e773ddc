r"""Does a model's attention match a RASP program's, and could the program's stand in its place?

A head of the program looks from a query $q$ equally at all keys that it selects,
$P_{qk} = S_{qk} / \sum_j S_{qj}$; a head of the model has the attention $A_{qk}$. Their agreement in a row is
the attention that they have in common, one minus their total variation distance:

$$\sum_k \min(A_{qk}, P_{qk}) = 1 - \tfrac12 \sum_k |A_{qk} - P_{qk}| .$$

Why not the share of attention on the selected keys ($\sum_k S_{qk} A_{qk}$, in `target_masses`): any head has
all of it where a program selects everything, and a head that looks at one selected key of ten has it, too,
though nothing could be counted from it. What a program computes depends on the whole row.

Which head should be compared with which is not known: a model that was told nothing may do in its second head
what the program does in its first. So all pairs are measured, and `stats.best_pairs` assigns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.generators.base import IGNORE, Batch, Head
from attnlib.measures.accuracy import sample_scores
from attnlib.measures.returned import returned
from attnlib.models.attention import reinforced
from attnlib.training.objectives import stacked_attentions
from book.chapters.rasp.assignment import best_pairs


@torch.no_grad()
def program_agreement(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """How well every head of a model agrees with every head of a program.

    Rows (queries) count that are asked for a prediction, and where the program's head selects a key.

    Args:
        model: gives `attentions` when asked with `output_attentions=True`.
        batches: with `target_attention`, of the program: of the model's own language, or of another.

    Returns:
        A row per sample, head of the program and head of the model: `sample`, `program` and `head` (as
        "L0H1"), `agreement`, the mean over rows, `uniform`, that of even attention over the sample, and
        `apart`, the largest difference of any two weights. NaN where no row counts.

    Raises:
        ValueError: the batches have no target attention.
    """
    device, tables, before = next(model.parameters()).device, list[pd.DataFrame](), 0
    for batch in batches:
        batch = batch.to(device)
        if not batch.target_attention:
            raise ValueError("the batches have no target attention: make them with that of a program")
        attentions = stacked_attentions(returned(model, batch, attentions=True))
        real = batch.attention_mask
        even = (real[:, None, :] / real.sum(1)[:, None, None]).expand(-1, real.shape[1], -1)
        _, n_layers, n_heads, _, _ = attentions.shape
        for program, selected in batch.target_attention.items():
            rows = selected.any(-1) & (batch.target_ids != IGNORE)
            uniform, _ = _agreement(even, selected, rows)
            for head in ((layer, head) for layer in range(n_layers) for head in range(n_heads)):
                agreement, apart = _agreement(attentions[:, head[0], head[1]], selected, rows)
                numbers = {"agreement": agreement, "uniform": uniform, "apart": apart}
                table = pd.DataFrame({name: each.cpu().numpy() for name, each in numbers.items()})
                about: dict[str, Any] = {
                    "sample": table.index + before,
                    "program": name_of(program),
                    "head": name_of(head),
                }
                tables.append(table.assign(**about))
        before += len(batch)
    columns = ["sample", "program", "head", "agreement", "uniform", "apart"]
    return pd.concat(tables, ignore_index=True)[columns]


def _agreement(
    attention: Float[Tensor, "batch query key"],
    selected: Bool[Tensor, "batch query key"],
    rows: Bool[Tensor, "batch query"],
) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """The mean agreement of each sample's rows, and the largest difference; NaN without rows."""
    program = selected / selected.sum(-1, keepdim=True).clamp(min=1)
    common = torch.minimum(attention, program).sum(-1)
    apart = (attention - program).abs().amax(-1).masked_fill(~rows, 0.0).amax(1)
    mean = common.masked_fill(~rows, torch.nan).nanmean(1)
    return mean, apart.masked_fill(~rows.any(1), torch.nan)


def scores_with_program(
    model: nn.Module,
    batches: Iterable[Batch],
    pairs: Mapping[Head, Head],
    *,
    even: bool = False,
) -> pd.DataFrame:
    """`sample_scores` while heads of a model are given a program's attention in place of their own.

    All of it is replaced (a mixture of strength 1, see `reinforced`) in rows where the program selects a key;
    where it selects none, a head keeps its own.

    Args:
        model: our own `Transformer`, or a Hugging Face model that uses the attention interface.
        batches: with `target_attention`, of the program.
        pairs: which head of the program goes into which head of the model.
        even: spread attention evenly over those rows instead: what is left if it does not matter where a
            head looks.
    """
    tables, before = list[pd.DataFrame](), 0
    for batch in batches:
        real = batch.attention_mask[:, None, :] & batch.attention_mask[:, :, None]
        with ExitStack() as stack:
            for program, head in pairs.items():
                selected = batch.target_attention[program]
                keys = real & selected.any(-1, keepdim=True) if even else selected
                stack.enter_context(reinforced(model, [head], keys, 1.0))
            table = sample_scores(model, [batch])
        tables.append(table.assign(sample=table["sample"] + before))
        before += len(batch)
    return pd.concat(tables, ignore_index=True)


class ProgramMatch(NamedTuple):
    """What `match_program` found.

    Attributes:
        pairs: which head of the program goes with which head of the model.
        agreement: rows of `program_agreement`, of these pairs.
        scores: rows of `sample_scores` with, in the column `attention`, whose attention the model's heads of
            these pairs were given: `THE_PROGRAMS`, or `EVEN`.
    """

    pairs: dict[Head, Head]
    agreement: pd.DataFrame
    scores: pd.DataFrame


THE_PROGRAMS, EVEN = "the program's", "even"


def match_program(model: nn.Module, valid: Iterable[Batch], test: Sequence[Batch]) -> ProgramMatch:
    """Compare a model with a program, head by head, and put the program's attention in its heads' place.

    Args:
        model: see `scores_with_program`.
        valid: with `target_attention`, of the program: what the pairs of heads are chosen by (the largest
            sum of mean agreements; where the model has fewer heads, some of the program's have none).
        test: likewise: what they are judged by.
    """
    chosen = best_pairs(program_agreement(model, valid))[["program", "head"]]
    names: list[tuple[str, str]] = [*chosen.itertuples(index=False, name=None)]
    pairs = {head_of(program): head_of(head) for program, head in names}
    parts = [
        scores_with_program(model, test, pairs, even=whose == EVEN).assign(attention=whose)
        for whose in (THE_PROGRAMS, EVEN)
    ]
    agreement = program_agreement(model, test).merge(chosen, on=["program", "head"])
    return ProgramMatch(pairs, agreement, pd.concat(parts, ignore_index=True))


def name_of(head: Head) -> str:
    """`(0, 1)` is called "L0H1"."""
    return f"L{head[0]}H{head[1]}"


def head_of(name: str) -> Head:
    """The reverse of `name_of`."""
    layer, head = name.removeprefix("L").split("H")
    return int(layer), int(head)

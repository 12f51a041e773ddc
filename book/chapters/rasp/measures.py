r"""The attention of models of RASP languages beside their programs', and a test of attribution methods.

Does a model's attention match a RASP program's, and could the program's replace it?

A head of the program attends from a query $q$ equally to all keys that it selects,
$P_{qk} = S_{qk} / \sum_j S_{qj}$; a head of the model has the attention $A_{qk}$. Their agreement in a row is
the attention that they have in common, one minus their total variation distance:

$$\sum_k \min(A_{qk}, P_{qk}) = 1 - \tfrac12 \sum_k |A_{qk} - P_{qk}| .$$

The share of attention on the selected keys ($\sum_k S_{qk} A_{qk}$, in `target_masses`) would not do: it is 1
for any head where a program selects everything, and for a head that attends to one selected key of ten,
although that head could not count them. The program's output depends on the whole row.

It is not known which heads correspond: the second head of an unsupervised model may do what the program does
in its first. So all pairs are measured, and `best_pairs` assigns them.

Do methods of attribution find the tokens that an output was computed from, where these are known?

They are known for a compiled model (`attnlib.models.compiled`), whose mechanism is the program's. The score
of a method should be largest at a *source* of the output, a symbol that the program's last selector selects:

* reverse: the symbol at the mirrored place, and nothing else;
* sort: the token that belongs where the output stands. An equal symbol elsewhere would have given the same
  output, but is not what the model reads;
* hist: every occurrence of the query's symbol, including the query itself. The model reads the count from the
  share of attention on the beginning of the sequence, which is no source here, since it says nothing about
  the sequence.

There are two sets of candidates, as in the needle test: all tokens; and only the other symbols, without the
beginning and the query's own token (which a residual connection ranks first, and occlusion cannot leave out).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from attnlib.attribution.attention import ask, flow, from_attention, last_layer, mean_attention, rolled
from attnlib.attribution.gradients import gradient_x_embedding
from attnlib.attribution.perturbation import blank_out
from attnlib.attribution.prompts import Method
from attnlib.generators.base import IGNORE, Batch, Head
from attnlib.generators.rasp import Language, Sequences
from attnlib.measures.accuracy import sample_scores
from attnlib.measures.returned import in_turn, returned
from attnlib.models.attention import reinforced
from attnlib.models.compiled import Compiled
from attnlib.stats.reference import reference_mass
from attnlib.training.objectives import stacked_attentions


def best_pairs(rows: pd.DataFrame) -> pd.DataFrame:
    """The one-to-one assignment with the largest sum of mean values (Kuhn 1955, *The Hungarian method*)."""
    table = rows.pivot_table("agreement", "program", "head", aggfunc="mean", dropna=False)
    if table.isna().any(axis=None) or table.empty:
        raise ValueError(f"every pair of program and head should have an agreement; got\n{table}")
    places = linear_sum_assignment(table.to_numpy(), maximize=True)
    found = [(table.index[i], table.columns[j], table.iloc[i, j]) for i, j in zip(*places, strict=True)]
    return pd.DataFrame(found, columns=["program", "head", "agreement"])


@torch.no_grad()
def program_agreement(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """The agreement of every head of a model with every head of a program, by sample.

    Means are over queries with a target for which the program's head selects a key.
    """
    tables = list[pd.DataFrame]()
    for batch, before in in_turn(model, batches):
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
                common, apart = _agreement(attentions[:, head[0], head[1]], selected, rows)
                about: dict[str, Any] = {"sample": range(before, before + len(batch))}
                about |= {"program": name_of(program), "head": name_of(head)}
                numbers = {"agreement": common, "uniform": uniform, "apart": apart}
                for name, each in numbers.items():
                    about[name] = each.cpu().numpy()
                tables.append(pd.DataFrame(about))
    return pd.concat(tables, ignore_index=True)


def agreement(
    attention: Float[Tensor, "*batch query key"], program: Float[Tensor, "*batch query key"]
) -> Float[Tensor, "*batch query"]:
    """The overlap of two attention distributions for every query: the sum over keys of the smaller weight."""
    return torch.minimum(attention, program).sum(-1)


def _agreement(
    attention: Float[Tensor, "batch query key"],
    selected: Bool[Tensor, "batch query key"],
    rows: Bool[Tensor, "batch query"],
) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """Each sample's mean agreement over its rows, and the largest difference; NaN where it has no rows."""
    program = selected / selected.sum(-1, keepdim=True).clamp(min=1)
    common = agreement(attention, program)
    apart = (attention - program).abs().amax(-1).masked_fill(~rows, 0.0).amax(1)
    mean = common.masked_fill(~rows, torch.nan).nanmean(1)
    return mean, apart.masked_fill(~rows.any(1), torch.nan)


def scores_with_program(
    model: nn.Module,
    batches: Iterable[Batch],
    pairs: Mapping[Head, Head],
    uniform: bool = False,
) -> pd.DataFrame:
    """`sample_scores` while heads attend as a program's or uniformly, where its rows have keys."""
    tables = list[pd.DataFrame]()
    for batch, before in in_turn(model, batches):
        real = batch.attention_mask[:, None, :] & batch.attention_mask[:, :, None]
        with ExitStack() as stack:
            for program, head in pairs.items():
                selected = batch.target_attention[program]
                keys = real & selected.any(-1, keepdim=True) if uniform else selected
                stack.enter_context(reinforced(model, [head], keys, 1.0))
            table = sample_scores(model, [batch])
        tables.append(table.assign(sample=table["sample"] + before))
    return pd.concat(tables, ignore_index=True)


class ProgramMatch(NamedTuple):
    """The result of `match_program`.

    Attributes:
        pairs: the model's head for each head of the program.
        scores: rows of `sample_scores`; the column `attention` names the attention that replaced that of the
            paired heads: `THE_PROGRAMS`, or `UNIFORM`.
    """

    pairs: dict[Head, Head]
    agreement: pd.DataFrame
    scores: pd.DataFrame


THE_PROGRAMS, UNIFORM = "the program's", "even"


def match_program(model: nn.Module, valid: Iterable[Batch], test: Sequence[Batch]) -> ProgramMatch:
    """Compare a model's heads with a program's, and replace their attention by the program's."""
    chosen = best_pairs(program_agreement(model, valid))[["program", "head"]]
    names: list[tuple[str, str]] = [*chosen.itertuples(index=False, name=None)]
    pairs = {head_of(program): head_of(head) for program, head in names}
    parts = [
        scores_with_program(model, test, pairs, uniform=whose == UNIFORM).assign(attention=whose)
        for whose in (THE_PROGRAMS, UNIFORM)
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


@torch.no_grad()
def target_masses(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """Reference mass of every head whose algorithm is known, and that of uniform attention."""
    columns, tables = ["sample", "metric", "value", "uniform"], list[pd.DataFrame]()
    for batch, before in in_turn(model, batches):
        attentions = stacked_attentions(returned(model, batch, attentions=True))
        pairs = batch.attention_mask[:, :, None] & batch.attention_mask[:, None, :]
        _, n_layers, n_heads, _, _ = attentions.shape
        for (layer, head), target in batch.target_attention.items():
            if layer >= n_layers or head >= n_heads:
                continue
            value, uniform = (
                reference_mass(weights, target, pairs).nanmean(1).cpu().numpy()
                for weights in (attentions[:, layer, head], pairs.float())
            )
            about = {"sample": range(before, before + len(batch)), "metric": f"mass L{layer}H{head}"}
            tables.append(pd.DataFrame(about | {"value": value, "uniform": uniform}))
    return _together(tables, columns)


BIDIRECTIONAL: Mapping[str, Method] = {
    "raw attention, last layer": from_attention(last_layer),
    "mean attention": from_attention(mean_attention),
    "rollout": from_attention(rolled),
    "sink-free rollout": from_attention(rolled, sink=[0]),
    "flow": from_attention(flow),
    "gradient x embedding": gradient_x_embedding,
    "blank-out": blank_out,
}
"""The methods that are compared. Those relative to the null model are left out, since that model is causal
and these models are bidirectional."""

REPLACED = "blank-out, replaced"
"""Occlusion that replaces the token by one without meaning, so that the length stays the same."""

EVERY_TOKEN, OTHER_SYMBOLS = "every token", "other symbols"
"""The sets of candidates: see the module's docstring."""

TIE = 1e-4
"""Scores that differ by less than this share of the largest count as tied, so that none is *the* largest. (In
float32, attention equals the program's to about this precision.)"""


def source_rows(
    model: nn.Module, batches: Iterable[Batch], head: Head, methods: Mapping[str, Method] = BIDIRECTIONAL
) -> pd.DataFrame:
    """Whether each method's largest score is on a source, for every output of every sequence."""
    tables = list[pd.DataFrame]()
    for batch, before in in_turn(model, batches):
        asked = batch.target_ids != IGNORE
        sources = batch.target_attention[head] & asked[:, None]
        for query in range(asked.shape[1]):
            rows = asked[:, query].nonzero()[:, 0]
            if not len(rows):
                continue
            ids, real = batch.input_ids[rows], batch.attention_mask[rows]
            scores = ask(model, ids, methods, real, query)
            others = asked[rows].clone()
            others[:, query] = False
            for among, candidates in ((EVERY_TOKEN, real), (OTHER_SYMBOLS, others)):
                wanted = sources[rows, query] & candidates
                there = wanted.any(1)
                about = {
                    "sample": (before + rows[there]).cpu(),
                    "query": query,
                    "among": among,
                    "chance": (wanted.sum(1) / candidates.sum(1))[there].cpu(),
                }
                for method, score in scores.items():
                    found = _found(score[there], wanted[there], candidates[there]).cpu()
                    tables.append(pd.DataFrame(about | {"method": method, "found": found}))
    return _together(tables, ["sample", "query", "method", "among", "found", "chance"])


def _together(tables: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    """The rows of all tables; an empty table with these columns if there are none."""
    return pd.concat(tables or [pd.DataFrame(columns=columns)], ignore_index=True)[columns]


def _found(
    scores: Float[Tensor, "row key"], wanted: Bool[Tensor, "row key"], candidates: Bool[Tensor, "row key"]
) -> Bool[Tensor, " row"]:
    candidates = candidates & ~scores.isnan()
    best = scores.masked_fill(~(wanted & candidates), -torch.inf).amax(1)
    other = scores.masked_fill(wanted | ~candidates, -torch.inf).amax(1)
    size = scores.masked_fill(~candidates, 0.0).abs().amax(1)
    return best > other + TIE * size


def exactness(models: Iterable[Compiled], n_sequences: int = 200) -> pd.DataFrame:
    """Accuracy of compiled models on test sequences, and their attention's distance from the program's."""
    tables = []
    for each in models:
        batches = _batches(each, n_sequences, 1, each.longest)
        rows = program_agreement(each.model, batches)
        ours = [name_of(each.heads[head_of(program)]) for program in rows["program"]]
        apart = rows[rows["head"] == ours].groupby("sample")["apart"].max()
        scores = sample_scores(each.model, batches)
        tables.append(scores.assign(run=each.run, apart=scores["sample"].map(apart)))
    return pd.concat(tables, ignore_index=True)


def sources_found(models: Iterable[Compiled], n_sequences: int = 30, length: int = 10) -> pd.DataFrame:
    """`source_rows` of compiled models, with `run`, for the methods of `BIDIRECTIONAL` and `REPLACED`."""
    tables = []
    for each in models:
        replaced: Method = partial(blank_out, replacement=each.language.tokenizer.unk_token_id)
        methods = {**BIDIRECTIONAL, REPLACED: replaced}
        batches = _batches(each, n_sequences, length, length)
        rows = source_rows(each.model, batches, max(each.heads), methods)
        tables.append(rows.assign(run=each.run))
    return pd.concat(tables, ignore_index=True)


def _batches(each: Compiled, n: int, min_length: int, max_length: int) -> list[Batch]:
    lang, lengths = each.language, {"min_length": min_length, "max_length": max_length}
    return lang.in_batches(lang.sequences(n, split="test", **lengths), target_attention=True)


def with_attention_of(program: Language, lang: Language, sequences: Sequences) -> list[Batch]:
    """Batches of one language, with the target attention of another's program on the same sequences."""
    if program == lang:
        return lang.in_batches(sequences, target_attention=True)
    pairs = zip(lang.in_batches(sequences), program.in_batches(sequences, target_attention=True), strict=True)
    return [replace(batch, target_attention=other.target_attention) for batch, other in pairs]

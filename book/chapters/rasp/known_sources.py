"""Do methods of attribution find what an output was made of, where that is known?

Of a compiled model (`attnlib.models.compiled`) it is: its mechanism is the program's. Where the score of a
method is largest should be a *source* of the output, a symbol that the program's last selector looks at:

* reverse: the symbol at the mirrored place, and nothing else;
* sort: the token that belongs where the output stands. An equal symbol elsewhere would have given the same
  output, but is not what the model reads;
* hist: every occurrence of the query's symbol, the query's own among them. The count is made of all of them
  together with the beginning of the sequence, whose share of attention it is read from; that one is no source
  here, since it says nothing about the sequence.

Two sets of candidates, as in the needle test: all tokens; and only the other symbols, without the query's own
token (which a residual connection puts first, and blank-out cannot leave out) and without the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.attribution.attention import (
    ask,
    flow,
    from_attention,
    last_layer,
    mean_attention,
    rolled,
)
from attnlib.attribution.disturbing import blank_out
from attnlib.attribution.gradients import gradient_x_embedding
from attnlib.attribution.prompts import Method
from attnlib.generators.base import IGNORE, Batch, Head
from attnlib.measures.accuracy import sample_scores
from attnlib.models.compiled import Compiled
from book.chapters.rasp.program_heads import head_of, name_of, program_agreement

TWO_SIDED: Mapping[str, Method] = {
    "raw attention, last layer": from_attention(last_layer),
    "mean attention": from_attention(mean_attention),
    "rollout": from_attention(rolled),
    "sink-free rollout": from_attention(rolled, sink=[0]),
    "flow": from_attention(flow),
    "gradient x embedding": gradient_x_embedding,
    "blank-out": blank_out,
}
"""What is compared, whatever else comes to the registry; without those over the null model, which is a causal
one: here tokens see each other on both sides."""

REPLACED = "blank-out, replaced"
"""Blank-out with a token of no meaning in the place of the one that is left out: the length stays."""

EVERY_TOKEN, OTHER_SYMBOLS = "every token", "other symbols"
"""The candidates: see the module."""

TIE = 1e-4
"""Scores closer than this share of the largest are equal: none of them is *the* largest. (Attention in
float32 is the program's to about this.)"""


def source_rows(
    model: nn.Module, batches: Iterable[Batch], head: Head, methods: Mapping[str, Method] = TWO_SIDED
) -> pd.DataFrame:
    """Whether each method's largest score is on a source, for every output of every sequence.

    Args:
        model: what is explained, its own predictions.
        batches: with `target_attention`; a token that is asked for nothing is no symbol.
        head: of `target_attention`: its keys that are symbols are the sources.
        methods: by name. Scores that are NaN are no candidates.

    Returns:
        A row per output, method and set of candidates: `sample`, `query` (position of its token), `method`,
        `among`, `found`, and `chance`, how often a candidate drawn blindly is a source. Where a source and
        something else tie, nothing is found. Outputs without a source among the candidates have no row.
    """
    device, tables, before = next(model.parameters()).device, list[pd.DataFrame](), 0
    for batch in batches:
        batch = batch.to(device)
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
        before += len(batch)
    columns = ["sample", "query", "method", "among", "found", "chance"]
    return pd.concat([pd.DataFrame(columns=columns), *tables][bool(tables) :], ignore_index=True)[columns]


def _found(
    scores: Float[Tensor, "row key"], wanted: Bool[Tensor, "row key"], candidates: Bool[Tensor, "row key"]
) -> Bool[Tensor, " row"]:
    candidates = candidates & ~scores.isnan()
    best = scores.masked_fill(~(wanted & candidates), -torch.inf).amax(1)
    other = scores.masked_fill(wanted | ~candidates, -torch.inf).amax(1)
    size = scores.masked_fill(~candidates, 0.0).abs().amax(1)
    return best > other + TIE * size


def exactness(models: Iterable[Compiled], n_sequences: int = 200) -> pd.DataFrame:
    """Whether compiled models are right, and have their program's attention, on test sequences.

    Args:
        models: each on sequences of its language, up to its own length.
        n_sequences: of each.

    Returns:
        `sample_scores` of every model, with `run` ("sort, compiled") and `apart`, the largest difference of
        any weight of attention from the program's.
    """
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
    """`source_rows` of compiled models, with `run`, for the methods of `TWO_SIDED` and `REPLACED`.

    Args:
        models: see `exactness`.
        n_sequences: of each.
        length: of all sequences, in symbols.
    """
    tables = []
    for each in models:
        replaced: Method = partial(blank_out, replacement=each.language.tokenizer.unk_token_id)
        methods = {**TWO_SIDED, REPLACED: replaced}
        batches = _batches(each, n_sequences, length, length)
        rows = source_rows(each.model, batches, max(each.heads), methods)
        tables.append(rows.assign(run=each.run))
    return pd.concat(tables, ignore_index=True)


def _batches(each: Compiled, n: int, min_length: int, max_length: int) -> list[Batch]:
    lang, lengths = each.language, {"min_length": min_length, "max_length": max_length}
    return lang.in_batches(lang.sequences(n, split="test", **lengths), target_attention=True)

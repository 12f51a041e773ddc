r"""Answers that are built step by step: does following what was written find what they are made of?

A text is a prompt and the right answer. The *sources* of an answer's character are the characters of the
prompt that decide it, through whatever was written before it: those in whose place another one, and nothing
else changed, would have made it another (`sources`, of the task's own algorithm). A measure says of every
character of an answer what it depends on (`attnlib.attribution.spans`), in absolute value, as shares; and it
is asked for the sources in several `WAYS`. Candidates are the prompt's characters but the last, where the
first of the answer is predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.attribution.registry import Methods
from attnlib.attribution.spans import through_hops, token_attributions
from attnlib.generators import char_tokenizer
from attnlib.generators.base import IGNORE, Batch
from attnlib.generators.splits import TENTHS, Split, in_split
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.causal import CausalSizes
from attnlib.stats.plausibility import average_precision, average_precision_by_chance
from attnlib.training import Plan, token_loss, token_scores, trained
from book.chapters.attribution_benchmark.measured import AVERAGE_PRECISION
from book.chapters.attribution_benchmark.method_tables import normalised
from book.chapters.attribution_benchmark.predictions import DIRECTLY, HOP_PREDICTIONS, HOPS, OWN, verdict
from book.chapters.attribution_benchmark.settings import MOST_SEEDS, SETTINGS, SPARE
from book.chapters.records import one_number

WAYS: dict[str, Callable[[Float[Tensor, "written token"], int], Float[Tensor, "written prompt"]]] = {
    DIRECTLY: lambda rows, start: rows[:, :start].nan_to_num(0.0, 0.0, 0.0).abs(),
    HOPS: lambda rows, start: through_hops(rows, start),
    OWN: lambda rows, start: through_hops(rows, start, own=True),
}
"""Name -> by how much each written token depends on those of the prompt, as shares of all before it."""


class Written(NamedTuple):
    """A text (`<bos>`, then a token per character), the answer's first place, and which tokens decide it."""

    ids: Tensor
    start: int
    sources: Bool[np.ndarray, "written prompt"]


def written(prompt: str, answer: Callable[[str], str], allowed: str) -> Written:
    """The text of a prompt and its answer, with the sources."""
    ids = torch.tensor(char_tokenizer()(prompt + answer(prompt))["input_ids"])
    found = sources(prompt, answer, allowed)
    return Written(ids, len(prompt) + 1, np.pad(found, ((0, 0), (1, 0))))


def sources(prompt: str, answer: Callable[[str], str], allowed: str) -> Bool[np.ndarray, "written prompt"]:
    """Which characters of a prompt decide which of its answer's: another one there makes these others."""
    right = answer(prompt)
    found = np.zeros((len(right), len(prompt)), bool)
    for place, one in enumerate(prompt):
        for other in allowed if one in allowed else "":
            with suppress(ValueError):
                changed = answer(prompt[:place] + other + prompt[place + 1 :])[: len(right)]
                found[:, place] |= [*map(str.__ne__, right, changed.ljust(len(right)))]
    return found


# ---- tasks ------------------------------------------------------------------------------------------------

DIGITS, SYMBOLS, ENTRIES, STEPS = "0123456789", "abcdefghijkl", 6, 4
"""What stands in sums and series, and in tables; how many entries these have, and steps are taken in them."""


def added(prompt: str) -> str:
    """The sum of two numbers of one length, all with their least significant digit first: "81+30=" "111"."""
    numbers = prompt[:-1].split("+")
    return str(sum(int(each[::-1]) for each in numbers))[::-1].ljust(len(numbers[0]), "0")


def counted(prompt: str, n: int) -> str:
    """The `n` numbers after the first, a space after each."""
    if prompt != f"{int(prompt)} ":
        raise ValueError(f"a number should have no zeros in front; got {prompt!r}")
    return "".join(f"{int(prompt) + each} " for each in range(1, n + 1))


def walked(prompt: str) -> str:
    """The way through a table from a symbol on, each step to the value of the last; "-" where none is."""
    table, _, start = prompt.removesuffix("=").partition(" ")
    values = dict(zip(table[::2], table[1::2], strict=True))
    if 2 * len(values) < len(table):
        raise ValueError(f"a table should have every symbol once; got {prompt!r}")
    way = [start]
    for _ in range(STEPS):
        way.append(values.get(way[-1], "-"))
    return "".join(way[1:])


def tables(rng: np.random.Generator, n: int, split: Split) -> list[str]:
    """Prompts of `walked`: every table is one round of all its symbols, its entries in any order."""
    drawn = 20 * n // len(TENTHS[split])  # about twice as many as are wanted
    rings = rng.permuted(np.tile(np.arange(len(SYMBOLS)), (drawn, 1)), axis=1)[:, :ENTRIES]
    rings = rings[in_split(rings, np.full(drawn, ENTRIES), split)]
    found = []
    for ring in rings[:n]:
        letters = "".join(SYMBOLS[each] for each in ring)
        pairs = [letters[at] + letters[(at + 1) % ENTRIES] for at in rng.permutation(ENTRIES)]
        found.append(f"{''.join(pairs)} {letters[rng.integers(ENTRIES)]}=")
    return found


@dataclass(frozen=True)
class Walks:
    """Batches of walks, which are all as long; a function of the step alone."""

    seed: int
    size: int = 64
    split: Split = "train"

    def __call__(self, step: int) -> Batch:
        """The batch of a step."""
        prompts = tables(np.random.default_rng([self.seed, step]), self.size, self.split)
        ids = torch.tensor(char_tokenizer()([each + walked(each) for each in prompts])["input_ids"])
        targets = ids[:, 1:].clone()
        targets[:, : len(prompts[0])] = IGNORE
        return Batch(ids[:, :-1], targets, torch.ones_like(targets, dtype=torch.bool))


def walker(seed: int) -> nn.Module:
    """A model that walks through tables, of the kind of the chapter on algorithmic tasks; trained or kept."""
    model = CausalSizes(n_layers=3, width=64, ff_width=64).build("llama", char_tokenizer(), seed)
    valid = [Walks(seed, split="valid")(step) for step in range(4)]
    plan = Plan(
        steps=3000,
        learning_rate=0.0015,
        warmup=50,
        optimizer="adamw",
        clip=1.0,
        evaluate_every=100,
        metric="exact_match",
        stop_at=0.995,
        patience=2,
        seed=seed,
    )
    how: dict[str, Any] = {"valid": valid, "score": token_scores}
    trained(model, Walks(seed), token_loss(), plan, chapter="attribution_benchmark", **how)
    return model


@dataclass(frozen=True)
class Built:
    """A task whose answers are built step by step; what it takes of the chapter's parameters is told there.

    Attributes:
        model: of a seed, trained if it is not kept.
        texts: that no model was trained on, as many as there are.
    """

    seeds: Callable[[Any], list[int]]
    model: Callable[[Any, int], nn.Module]
    texts: Callable[[Any], Iterator[Written]]


def of_setting(title: str, name: str, answers: Callable[[str], Callable[[str], str]]) -> Built:
    """A task of the chapter on algorithmic reasoning, of texts in the range of training."""
    setting = SETTINGS[title]

    def texts(p: Any) -> Iterator[Written]:
        generator = setting.chapter(p).generator(name, "id", plain=True, generate_attn_labels=False)
        once = {each.text: each for each in generator.samples(SPARE * p.questions)}
        for each in once.values():
            yield written(each.prompt, answers(each.answer), DIGITS)

    return Built(setting.seeds, setting.model, texts)


def _walks(p: Any) -> Iterator[Written]:
    prompts = tables(np.random.default_rng(0), SPARE * p.questions, "test")
    return (written(each, walked, SYMBOLS) for each in prompts)


BUILT = {
    "addition": of_setting("addition", "long_addition", lambda answer: added),
    "successor": of_setting("successor", "successor", lambda answer: partial(counted, n=answer.count(" "))),
    "walks": Built(lambda p: [*range(MOST_SEEDS)], lambda p, seed: walker(seed), _walks),
}
"""Name -> task."""


# ---- what measures find -----------------------------------------------------------------------------------


def hop_rows(
    setting: str, seed: int, p: Any, methods: Methods, device: torch.device | str = "cpu"
) -> pd.DataFrame:
    """How well measures find the sources, in each of `WAYS`: rows as of `method_tables`, with the `way`.

    A row is of a text whose every character the model answers rightly: the mean over the answer's characters
    of average precision, and of that by chance.
    """
    model, rows = BUILT[setting].model(p, seed).to(device).eval(), list[dict[str, Any]]()
    texts = (each for each in enumerate(BUILT[setting].texts(p)) if answered(model, each[1]))
    for item, text in islice(texts, p.questions):
        candidates = np.zeros_like(text.sources)
        candidates[:, 1:-1] = True
        truth = text.sources & candidates
        blind = np.nanmean(average_precision_by_chance(truth, candidates))
        about = {"setting": setting, "seed": seed, "item": item, "metric": AVERAGE_PRECISION}
        about |= {"chance": blind, "perfect": 1.0}
        span = text.start, len(text.ids)
        for method, each in token_attributions(model, text.ids.to(device), span, methods).items():
            for way, drawn in WAYS.items():
                scores = drawn(each.cpu(), text.start).numpy().astype(float)
                value = np.nanmean(average_precision(scores, truth, candidates))
                rows.append(about | {"method": method, "way": way, "value": value})
    return pd.DataFrame(rows)


@torch.no_grad()
def answered(model: nn.Module, text: Written) -> bool:
    """Whether a model holds every character of the answer most probable, after those before it."""
    device = next(model.parameters()).device
    with evaluating(model):
        logits = logits_of(model, text.ids[None, :-1].to(device), start=text.start - 1)
    return bool((logits[0].argmax(-1).cpu() == text.ids[text.start :]).all())


def more(first: str, second: str) -> str:
    """What the difference of two ways is called."""
    return f"{first}, more than {second}"


def recorded(rows: pd.DataFrame) -> pd.DataFrame:
    """What is kept of a run: how much of the sources is found in every way, and how much more than in others.

    Runs are the tasks; a metric is a way, or the difference of two, and a measure: "directly: rollout".
    """
    if rows.empty:
        return pd.DataFrame()
    keys = ["setting", "seed", "item", "method"]
    ways = {str(way): part.set_index(keys) for way, part in rows.groupby("way", sort=False)}
    parts = dict(ways)
    for second, first in combinations(ways, 2):
        apart = ways[first]["value"] - ways[second]["value"]
        parts[more(first, second)] = ways[first].assign(value=apart + ways[first]["chance"])
    found = {way: normalised(part.reset_index(), AVERAGE_PRECISION) for way, part in parts.items()}
    kept = pd.concat(found, names=["way"]).reset_index("way")
    kept = kept.assign(run=kept["setting"], metric=kept["way"] + ": " + kept["method"])
    columns = ["run", "metric", "value", "low", "high", "n", "over", "mean", "chance", "questions", "seeds"]
    return kept[columns].reset_index(drop=True)


def by_way(kept: pd.DataFrame) -> pd.DataFrame:
    """Of what is `recorded`, the numbers of ways alone, with `way` and `method`."""
    names = kept["metric"].str.split(": ", n=1, expand=True).set_axis(["way", "method"], axis=1)
    return kept.join(names)[names["way"].isin([*WAYS])]


def hop_prediction_table(kept: pd.DataFrame) -> pd.DataFrame:
    """The result of each of `HOP_PREDICTIONS` over `n` models, as `predictions.prediction_table` has it."""
    table = list[tuple[Any, ...]]()
    for each in HOP_PREDICTIONS:
        for sign, pair in ((1, (each.first, each.second)), (-1, (each.second, each.first))):
            apart = one_number(kept, run=each.setting, metric=f"{more(*pair)}: {each.method}")
            if apart is not None:
                low, high = sorted((sign * apart["low"], sign * apart["high"]))
                table.append((each.words, verdict(low, high), sign * apart["value"], low, high, apart["n"]))
    return pd.DataFrame(table, columns=["prediction", "came out", "value", "low", "high", "n"])

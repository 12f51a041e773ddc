r"""Scores of attribution methods (*measures*), and their quality: plausibility, faithfulness, whole answers.

**Plausibility.** Does a measure find the tokens that the algorithm needs? It has to beat `BASELINES`, which
rank tokens without the model, and its own scores on an `untrained` model.

**Faithfulness.** Does a model use the tokens that a measure ranks first? This number is reported apart, since
a faithful measure misses tokens that the algorithm needs if the model is right by a shortcut. A removed token
is masked as a key, for every query in all layers, and the others keep their positions (recurrent models read
their unknown word there); or it is replaced by another token. The model's output is

    p = p(y)        or, with a foil z,        p = p(y) / (p(y) + p(z))

With $p(S)$ the probability of the prediction on the tokens $S$, $C$ all candidates and $T_b$ the first $b$ of
them by the score, for budgets $b$ that are the same for every score,

    comprehensiveness    mean over b of p(C) - p(C without T_b)      large: the first tokens are necessary
    sufficiency          mean over b of p(C) - p(T_b)                small: the first tokens are sufficient

The level of chance is the mean of the same number over random orders. Normalised by it, 0 is a random order;
at 1, the probability is 0 without the first tokens at every budget, or unchanged with these tokens alone.

**Whole answers.** An answer is generated token by token: do paths through earlier tokens lead to its sources?
For each character of an answer, a measure scores all earlier characters (`attnlib.attribution.spans`), in
absolute value, as shares. `WAYS` turn these into scores of the prompt's characters, which should find its
`sources`. Candidates are the prompt's characters except the last, which predicts the answer's first.

References:
    DeYoung et al. 2020, *ERASER: A Benchmark to Evaluate Rationalized NLP Models*, section 4: they divide by
    one budget more, that of no token, which is 0. There, tokens are deleted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnlib.attribution.attention import shares_a_pass
from attnlib.attribution.prompts import Method, Prompts, measure
from attnlib.attribution.registry import METHODS, Methods, attributions, named
from attnlib.attribution.spans import through_hops, token_attributions
from attnlib.generators import char_tokenizer
from attnlib.generators.base import IGNORE, Batch
from attnlib.generators.splits import TENTHS, Split, in_split
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.base import Saved, seeded
from attnlib.models.causal import CausalSizes, is_causal
from attnlib.models.pretrained import untrained_twin
from attnlib.stats.plausibility import (
    Mask,
    Numbers,
    Scores,
    average_precision,
    average_precision_by_chance,
    comparable,
    hit_at_k,
    hit_at_k_by_chance,
)
from attnlib.stats.ragged import Ragged
from attnlib.stats.rank_measures import spearman_rows
from attnlib.training import Plan, token_loss, token_scores, trained
from book.chapters.attribution_benchmark.questions import Questions, alike, row_table
from book.chapters.attribution_benchmark.settings import MOST_SEEDS, SETTINGS, SPARE
from book.chapters.attribution_benchmark.single_head import SingleHead
from book.chapters.later import MEASURES as LATER

AVERAGE_PRECISION = "average precision"

ASKED = tuple(name for name in METHODS if name not in LATER)
"""The measures that chapters evaluate if their parameters name none."""


class Scored(NamedTuple):
    """The scores of measures, one per token, and the reason for each `missing` measure."""

    scores: dict[str, Float[Tensor, "item token"]]
    missing: dict[str, str]


def scored(
    model: nn.Module, questions: Questions, methods: Methods = tuple(METHODS), *, batch_size: int = 16
) -> Scored:
    """The scores of measures for the target of every question, against its foil where it has one."""
    left = named(methods)
    if not len(questions):
        raise ValueError(f"there should be questions of {questions.setting}; got none")
    asked = questions.to(next(model.parameters()).device)
    scores, missing = dict[str, Tensor](), dict[str, str]()
    for *_, some in alike(asked.query, asked.attention_mask.sum(1), most=batch_size):
        found = _asked(model, asked.where(some), left, None if scores else missing)
        left = {name: left[name] for name in found}
        for name, each in found.items():
            whole = scores.setdefault(name, torch.zeros(asked.input_ids.shape))
            whole[some.cpu(), : each.shape[1]] = each.detach().float().cpu()
    return Scored({name: scores[name] for name in named(methods) if name in scores}, missing)


def plausibility_rows(
    questions: Questions, scores: Mapping[str, Float[Tensor, "item token"]], k: Collection[int] = (1, 3)
) -> pd.DataFrame:
    """Hit at k and average precision of every measure's scores, a row per question, measure and metric."""
    truth, candidates = (each.cpu().numpy() for each in (questions.truth, questions.candidates))
    tables = []
    for name, each in scores.items():
        of = each.detach().cpu().double().numpy(), truth, candidates
        blind = average_precision_by_chance(truth, candidates)
        numbers = {AVERAGE_PRECISION: (average_precision(*of), blind)}
        for n in k:
            numbers[f"hit at {n}"] = hit_at_k(*of, n), hit_at_k_by_chance(truth, candidates, n)
        tables += [row_table(questions, name, metric, *pair, 1.0) for metric, pair in numbers.items()]
    return pd.concat(tables, ignore_index=True)


def _asked(
    model: nn.Module,
    questions: Questions,
    methods: Mapping[str, Method],
    missing: dict[str, str] | None,
) -> dict[str, Tensor]:
    """The scores of questions of one query and length; errors of unsupported measures go into `missing`."""
    length, query = int(questions.attention_mask[0].sum()), int(questions.query[0])
    ids, how = questions.input_ids[:, :length], {"target": questions.target, "foil": questions.foil}
    if questions.counterfactual is not None:
        how["counterfactual"] = questions.counterfactual[:, :length]
    together = {name: method for name, method in methods.items() if shares_a_pass(method)}
    alone = [{name: method} for name, method in methods.items() if name not in together]
    waiting, found = [part for part in (together, *alone) if part], dict[str, Tensor]()
    while waiting:
        some = waiting.pop(0)
        try:
            found |= attributions(model, ids, some, None, query, **how)
        except ValueError as error:
            if missing is None:
                raise
            if len(some) == 1:
                missing |= dict.fromkeys(some, str(error))
            else:  # one of them failed: try each alone
                waiting = [*({name: method} for name, method in some.items()), *waiting]
    return found


@measure
def even(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The same score for every token; such a ranking is at the level of chance."""
    return torch.ones_like(prompts.ids, dtype=torch.float32)


@measure
def nearest(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """Scores that decrease with the distance from the query."""
    places = torch.arange(prompts.ids.shape[1], device=prompts.ids.device)
    return (prompts.ids.shape[1] - (places - prompts.query).abs()).float().expand(prompts.ids.shape)


@measure
def earliest(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """Scores that decrease from the beginning of the prompt to its end."""
    n = prompts.ids.shape[1]
    return torch.arange(n, 0, -1, device=prompts.ids.device).float().expand(prompts.ids.shape)


@measure
def random(model: nn.Module, prompts: Prompts, *, seed: int = 0) -> Float[Tensor, "batch key"]:
    """Random scores from 0 to 1, the same for batches of equal shape, query and sum of token ids."""
    generator = torch.Generator().manual_seed(seed + int(prompts.ids.sum()) + prompts.query)
    return torch.rand(prompts.ids.shape, generator=generator).to(prompts.ids.device)


BASELINES: dict[str, Method] = {
    "even attention": even,
    "random order": random,
    "nearest first": nearest,
    "earliest first": earliest,
}
"""Name -> measure whose scores do not depend on the model."""


def untrained(model: nn.Module, seed: int = 0) -> nn.Module:
    """A model of the same configuration with random weights, on the same device, in evaluation mode."""
    if isinstance(model, PreTrainedModel):
        return untrained_twin(model, seed)
    if isinstance(model, SingleHead):
        asked: Any = type(model)
        return asked(untrained(model.model, seed)).eval()
    if not isinstance(model, Saved):
        raise ValueError(
            f"{type(model).__name__} has no configuration to build an untrained control from. Give a "
            "Hugging Face model, or one of attnlib's that can be saved."
        )
    kind: Any = type(model)
    with seeded(seed):
        twin = kind(model.config)
    return twin.to(next(model.parameters()).device).eval()


Budget = float | int
"""A number of tokens: below 1 a share of the candidates (rounded up), from 1 on the number itself."""

BUDGETS: tuple[Budget, ...] = (0.1, 0.2, 0.5)
"""Shares of the candidates that are removed, or kept."""

COMPREHENSIVENESS, SUFFICIENCY = "comprehensiveness", "sufficiency"


def tokens_of(budget: Budget, candidates: Mask) -> Int[np.ndarray, " item"]:
    """The number of tokens in a budget, for every item."""
    if not budget > 0 or (budget >= 1 and budget != int(budget)):
        raise ValueError(f"a budget should be a share between 0 and 1, or a number of tokens; got {budget}")
    n = candidates.sum(1)
    return np.minimum(n, int(budget)) if budget >= 1 else np.ceil(np.round(budget * n, 9)).astype(np.int64)


def counts_of(budgets: Sequence[Budget], candidates: Mask) -> Int[np.ndarray, "item budget"]:
    """The number of tokens in each of several budgets, for every item; see `tokens_of`."""
    return np.stack([tokens_of(budget, candidates) for budget in budgets], axis=1)


def order_of(scores: Scores, candidates: Mask, seed: int = 0) -> Int[np.ndarray, "item token"]:
    """Each candidate's rank by descending score, from 0; other tokens come after all candidates.

    Ties are broken at random, in the same way for all scores of one shape and seed; NaN comes last.
    """
    coins = np.random.default_rng(seed).random(scores.shape)
    values = comparable(scores, candidates)
    order = np.lexsort((coins, -values, ~candidates), axis=-1)
    return order.argsort(axis=1)


def first_tokens(
    scores: Scores, candidates: Mask, budgets: Sequence[Budget], seed: int = 0
) -> Bool[np.ndarray, "item budget token"]:
    """Which candidates the score puts first, within every budget; ties as in `order_of`."""
    place = order_of(scores, candidates, seed)
    return (place[:, None] < counts_of(budgets, candidates)[..., None]) & candidates[:, None]


def rank_agreement(scores: Scores, standard: Scores, candidates: Mask) -> Numbers:
    """Spearman's correlation over each item's candidates; NaN for NaN scores and a constant `standard`."""
    pair = [comparable(each, candidates) for each in (scores, standard)]
    broken = np.isnan(np.stack(pair)).any(0) & candidates
    low, high = (np.where(candidates, pair[1], end) for end in (np.inf, -np.inf))
    silent = low.min(1, initial=np.inf) >= high.max(1, initial=-np.inf)
    found = spearman_rows(*(Ragged.from_padded(each, candidates) for each in pair))
    return np.where(broken.any(1) | silent, np.nan, np.nan_to_num(found))


Kept = Bool[Tensor, "item variant token"]


@torch.no_grad()
def probabilities(
    model: nn.Module,
    questions: Questions,
    kept: Kept,
    *,
    replacement: int | None = None,
    batch_size: int = 128,
) -> Float[Tensor, "item variant"]:
    """`p` of every question on subsets of its tokens; equal subsets are computed once."""
    asked = questions.to(next(model.parameters()).device)
    if replacement is None and "attention_mask" not in inspect.signature(model.forward).parameters:
        raise ValueError(
            f"{type(model).__name__} does not take a mask, so tokens cannot be left out: say which token "
            "is to stand in their place (replacement=...)."
        )
    kept = kept.to(asked.input_ids.device) & asked.attention_mask[:, None]
    item = torch.arange(len(asked), device=kept.device)[:, None].expand(kept.shape[:2])
    rows = torch.cat([item.flatten()[:, None], kept.flatten(0, 1)], 1)
    different, which = torch.unique(rows, dim=0, return_inverse=True)
    items, left = different[:, 0], different[:, 1:].bool()
    found = torch.zeros(len(different), dtype=torch.float64)  # on the processor: some GPUs have no doubles
    causal = is_causal(model)
    with evaluating(model):
        lengths = asked.attention_mask.sum(1)
        for query, length, some in alike(asked.query[items], lengths[items], most=batch_size):
            prompts = Prompts(asked.input_ids[items[some], :length], query)
            logits = _logits(model, prompts, left[some, :length], replacement, causal)
            foil = None if asked.foil is None else asked.foil[items[some]]
            aimed = prompts._replace(
                target=asked.target[items[some]].cpu(), foil=None if foil is None else foil.cpu()
            )
            score = aimed.score(logits.cpu().double())
            found[some.cpu()] = score.exp() if foil is None else score.sigmoid()
    return found[which.cpu()].view(kept.shape[:2])


def faithfulness_rows(
    model: nn.Module,
    questions: Questions,
    scores: Mapping[str, Float[Tensor, "item token"]],
    *,
    budgets: Sequence[Budget] = BUDGETS,
    orders: int = 5,
    standard: str | None = None,
    seed: int = 0,
    replacement: int | None = None,
    batch_size: int = 128,
) -> pd.DataFrame:
    """Comprehensiveness, sufficiency and agreement with a standard, for every method and item."""
    if standard is not None and standard not in scores:
        raise ValueError(f"the standard should be among the scores, {[*scores]}; got {standard!r}")
    candidates = questions.candidates.cpu().numpy()
    given = {name: each.detach().cpu().double().numpy() for name, each in scores.items()}
    rng = np.random.default_rng(seed)
    ranked = [*given.values(), *(rng.random(candidates.shape) for _ in range(orders))]
    first = np.stack([first_tokens(each, candidates, budgets, seed) for each in ranked], 1)
    ways = np.stack([~first, first | ~candidates[:, None, None]], 1)  # without these, and these only
    variants = ways.reshape(len(ways), -1, ways.shape[-1])
    kept = np.concatenate([np.ones_like(variants[:, :1]), variants], 1)
    how: dict[str, Any] = {"replacement": replacement, "batch_size": batch_size}
    p = probabilities(model, questions, torch.from_numpy(kept), **how).cpu().numpy()
    whole, lost = p[:, 0], (p[:, :1] - p[:, 1:]).reshape(ways.shape[:-1]).mean(-1)
    tables = []
    for metric, loss in zip((COMPREHENSIVENESS, SUFFICIENCY), lost.swapaxes(0, 1), strict=True):
        chance = loss[:, len(given) :].mean(1)
        perfect = whole if metric == COMPREHENSIVENESS else 0.0
        for place, name in enumerate(given):
            tables.append(row_table(questions, name, metric, loss[:, place], chance, perfect))
    for name in [name for name in given if standard is not None and name != standard]:
        agreement = rank_agreement(given[name], given[str(standard)], candidates)
        tables.append(row_table(questions, name, f"agreement with {standard}", agreement, 0.0, 1.0))
    return pd.concat(tables, ignore_index=True)


def _logits(
    model: Any, prompts: Prompts, left: Bool[Tensor, "row token"], replacement: int | None, causal: bool
) -> Float[Tensor, "row class"]:
    """The logits at the query if all tokens but `left` are masked, or replaced by `replacement`."""
    if replacement is not None:
        return logits_of(model, prompts.ids.masked_fill(~left, replacement), start=prompts.query)[:, 0]
    n = prompts.query + 1 if causal else prompts.ids.shape[1]
    return logits_seeing(model, prompts.ids[:, :n], left[:, :n], prompts.query)[:, 0]


def logits_seeing(
    model: Any, ids: Int[Tensor, "row token"], seen: Bool[Tensor, "row token"], start: int
) -> Float[Tensor, "row position class"]:
    """The logits from `start` on if only the tokens `seen` are keys; these keep their positions."""
    given: dict[str, Any] = {}
    if "position_ids" in inspect.signature(model.forward).parameters:
        given["position_ids"] = torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1)
    return logits_of(model, ids, seen, start, **given)


DIRECTLY, HOPS, OWN = "directly", "through hops", "through hops, own token too"
"""Ways to compute the sources of a generated answer from a measure's scores: see `WAYS` and the module."""

WAYS: dict[str, Callable[[Float[Tensor, "written token"], int], Float[Tensor, "written prompt"]]] = {
    DIRECTLY: lambda rows, start: rows[:, :start].nan_to_num(0.0, 0.0, 0.0).abs(),
    HOPS: lambda rows, start: through_hops(rows, start),
    OWN: lambda rows, start: through_hops(rows, start, own=True),
}
"""Name -> function from scores of all earlier tokens to scores of the prompt's tokens, per written token."""


class Written(NamedTuple):
    """A text (`<bos>`, then a token per character), the answer's first position, and the answer's sources."""

    ids: Tensor
    start: int
    sources: Bool[np.ndarray, "written prompt"]


def written(prompt: str, answer: Callable[[str], str], allowed: str) -> Written:
    """The text of a prompt and its answer, with the sources."""
    ids = torch.tensor(char_tokenizer()(prompt + answer(prompt))["input_ids"])
    found = sources(prompt, answer, allowed)
    return Written(ids, len(prompt) + 1, np.pad(found, ((0, 0), (1, 0))))


def sources(prompt: str, answer: Callable[[str], str], allowed: str) -> Bool[np.ndarray, "written prompt"]:
    """Which characters of a prompt decide which characters of its answer, directly or through earlier ones.

    A character is a source of an answer's if replacing it alone, by one of `allowed`, can change the latter.
    """
    right = answer(prompt)
    found = np.zeros((len(right), len(prompt)), bool)
    for place, one in enumerate(prompt):
        for other in allowed if one in allowed else "":
            with suppress(ValueError):
                changed = answer(prompt[:place] + other + prompt[place + 1 :])[: len(right)]
                found[:, place] |= [*map(str.__ne__, right, changed.ljust(len(right)))]
    return found


DIGITS, SYMBOLS, ENTRIES, STEPS = "0123456789", "abcdefghijkl", 6, 4
"""Characters of sums and series; characters of tables; entries of a table; steps of a walk through it."""


def added(prompt: str) -> str:
    """The sum of two numbers of equal length, least significant digit first: "111" for "81+39="."""
    numbers = prompt[:-1].split("+")
    return str(sum(int(each[::-1]) for each in numbers))[::-1].ljust(len(numbers[0]), "0")


def counted(prompt: str, n: int) -> str:
    """The `n` numbers after the prompt's number, each followed by a space."""
    if prompt != f"{int(prompt)} ":
        raise ValueError(f"a number should have no zeros in front; got {prompt!r}")
    return "".join(f"{int(prompt) + each} " for each in range(1, n + 1))


def walked(prompt: str) -> str:
    """The walk through a table from a symbol; each step looks up the last symbol ("-" without entry)."""
    table, _, start = prompt.removesuffix("=").partition(" ")
    values = dict(zip(table[::2], table[1::2], strict=True))
    if 2 * len(values) < len(table):
        raise ValueError(f"a table should have every symbol once; got {prompt!r}")
    way = [start]
    for _ in range(STEPS):
        way.append(values.get(way[-1], "-"))
    return "".join(way[1:])


def walk_prompts(rng: np.random.Generator, n: int, split: Split) -> list[str]:
    """Prompts for `walked`: every table is one cycle through its symbols, with entries in random order."""
    drawn = 20 * n // len(TENTHS[split])  # about twice as many as needed
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
    """Batches of walks of equal length; each batch depends only on the seed and the step."""

    seed: int
    size: int = 64
    split: Split = "train"

    def __call__(self, step: int) -> Batch:
        """The batch of a step."""
        prompts = walk_prompts(np.random.default_rng([self.seed, step]), self.size, self.split)
        ids = torch.tensor(char_tokenizer()([each + walked(each) for each in prompts])["input_ids"])
        targets = ids[:, 1:].clone()
        targets[:, : len(prompts[0])] = IGNORE
        return Batch(ids[:, :-1], targets, torch.ones_like(targets, dtype=torch.bool))


def walker(seed: int) -> nn.Module:
    """A causal model trained on walks through tables, or loaded if it was trained before."""
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
    """A task whose answers are generated token by token; each function takes the chapter's parameters.

    Attributes:
        model: returns the model of a seed, trained if it is not cached.
        texts: returns texts that no model was trained on, at most `SPARE` for each question.
    """

    seeds: Callable[[Any], list[int]]
    model: Callable[[Any, int], nn.Module]
    texts: Callable[[Any], Iterator[Written]]


def of_setting(title: str, name: str, answers: Callable[[str], Callable[[str], str]]) -> Built:
    """A task of the chapter on algorithmic reasoning, with texts in the range of training."""
    setting = SETTINGS[title]

    def texts(p: Any) -> Iterator[Written]:
        generator = setting.chapter(p).generator(name, "id", plain=True, generate_attn_labels=False)
        once = {each.text: each for each in generator.samples(SPARE * p.questions)}
        for each in once.values():
            yield written(each.prompt, answers(each.answer), DIGITS)

    return Built(setting.seeds, setting.model, texts)


def _walks(p: Any) -> Iterator[Written]:
    prompts = walk_prompts(np.random.default_rng(0), SPARE * p.questions, "test")
    return (written(each, walked, SYMBOLS) for each in prompts)


BUILT = {
    "addition": of_setting("addition", "long_addition", lambda answer: added),
    "successor": of_setting("successor", "successor", lambda answer: partial(counted, n=answer.count(" "))),
    "walks": Built(lambda p: [*range(MOST_SEEDS)], lambda p, seed: walker(seed), _walks),
}
"""Name -> task."""


def hop_rows(
    setting: str, seed: int, p: Any, methods: Methods, device: torch.device | str = "cpu"
) -> pd.DataFrame:
    """How well measures find the sources in each of `WAYS`: rows as `tables` takes them, with a column `way`.

    Only texts whose answers the model predicts correctly at every character have rows. A row has the average
    precision and its level of chance, both as means over the answer's characters.
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
    """Whether every character of the answer is the most probable one, given the right ones before it."""
    device = next(model.parameters()).device
    with evaluating(model):
        logits = logits_of(model, text.ids[None, :-1].to(device), start=text.start - 1)
    return bool((logits[0].argmax(-1).cpu() == text.ids[text.start :]).all())

"""Predictions with ground truth (*questions*), and their construction from the book's tasks.

A call of an `about_` function yields at most one question per text. Every question has a counterfactual from
the text's own generator, and the right answer to the counterfactual as its foil; predictions without one are
left out. Questions to a causal model end at the query, since later tokens cannot be attended to.

A counterfactual is the same text with its sources exchanged. Often all other tokens are the same, so that a
method that compares both texts token by token finds the sources by construction. For patching, use `others`:
then the counterfactual is another text of the same form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnlib.generators.algorithmic import AlgorithmicGenerator
from attnlib.generators.arithmetic import Arithmetic
from attnlib.generators.base import IGNORE, Sample
from attnlib.generators.classification import Documents, Planting, Vocabulary, opposites
from attnlib.generators.copying import Copying
from attnlib.generators.needle import NeedleGenerator, NeedleSample
from attnlib.generators.rasp import Language, Sequences
from attnlib.generators.tokenizer import SPECIAL
from attnlib.generators.translation import Lexicon, Pairs, Subwords
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from book.chapters.attribution_benchmark.single_head import ReadCopies, ReadSentences

T = TypeVar("T")

ID, OOD = "ID", "OOD"


@dataclass(frozen=True)
class Questions:
    """Predictions of one model, padded on the right, with the tokens that each of them needs.

    Attributes:
        setting: the name of the setting: "addition", "needle".
        query: the position that predicts.
        target: the right answer: a token, or a class.
        truth: the tokens that the algorithm needs, all of them candidates.
        candidates: the tokens that methods rank; padding, tokens that the query cannot attend to and the
            query's own token are none.
        in_distribution: whether the model was trained on questions like this one.
        foil: a wrong answer to compare with; None if there is none.
        counterfactual: the prompts with other tokens in the places of `truth`, and of tokens that follow from
            these, so that the right answer changes (to the foil, if there is one); None if there is none.
    """

    setting: str
    input_ids: Int64[Tensor, "item token"]
    attention_mask: Bool[Tensor, "item token"]
    query: Int64[Tensor, " item"]
    target: Int64[Tensor, " item"]
    truth: Bool[Tensor, "item token"]
    candidates: Bool[Tensor, "item token"]
    right: Bool[Tensor, " item"]
    in_distribution: Bool[Tensor, " item"]
    foil: Int64[Tensor, " item"] | None = None
    counterfactual: Int64[Tensor, "item token"] | None = None

    def __post_init__(self) -> None:
        if bool((self.truth & ~self.candidates).any()):
            raise ValueError(f"{self.setting}: tokens of `truth` should be candidates")

    def __len__(self) -> int:
        """The number of predictions."""
        return len(self.input_ids)

    def where(self, chosen: Bool[Tensor, " item"] | Int64[Tensor, " some"]) -> Questions:
        """The questions chosen by a mask or by indices."""
        return self._each(lambda part: part[chosen])

    def to(self, device: torch.device | str) -> Questions:
        """The same on another device."""
        return self._each(lambda part: part.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Questions:
        parts: Any = {name: change(part) for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **parts)


def alike(*numbers: Int64[Tensor, " row"], most: int) -> Iterator[tuple[Any, ...]]:
    """Batches of at most `most` rows with equal numbers: yields these numbers, and the rows' indices."""
    kinds = torch.stack(numbers, 1)
    for kind in kinds.unique(dim=0):
        for some in (kinds == kind).all(1).nonzero()[:, 0].split(most):
            yield *kind.tolist(), some


AT_ONCE = 8
"""Questions per batch: the logits of a language model's whole vocabulary take much memory."""


class Question(NamedTuple):
    """One prediction whose sources are known; see `Questions`."""

    ids: Int64[Tensor, " token"]
    query: int
    target: int
    truth: Bool[Tensor, " token"]
    candidates: Bool[Tensor, " token"]
    foil: int
    counterfactual: Int64[Tensor, " token"]
    in_distribution: bool


def form(text: str) -> str:
    """The form of a text, all letters and digits made the same: "xxxx+xxxx=xxxx" of "1240+4335=5575"."""
    return re.sub(r"\w", "x", text)


class Alike(Generic[T]):
    """Things grouped by their form, from which to draw one of a given form."""

    def __init__(self, every: Iterable[T], form: Callable[[T], Hashable]) -> None:
        self.by_form = dict[Hashable, list[T]]()
        for each in every:
            self.by_form.setdefault(form(each), []).append(each)

    def draw(self, form: Hashable, fits: Callable[[T], bool], rng: np.random.Generator) -> T | None:
        """A random thing of this form for which `fits` is true, or None if there is none."""
        found: Sequence[T] = [each for each in self.by_form.get(form, []) if fits(each)]
        return found[int(rng.integers(len(found)))] if found else None


def some(n: int, *parts: Iterable[Question]) -> Iterator[Question]:
    """The first `n` distinct questions per part with a changed source and a candidate that is no source."""
    for part in parts:
        yield from islice(_different(part), n)


def _different(questions: Iterable[Question]) -> Iterator[Question]:
    seen = set[tuple[int, ...]]()
    for each in questions:
        prompt = (each.query, *each.ids.tolist())
        differs = each.ids != each.counterfactual
        if prompt not in seen and bool((each.candidates & ~each.truth).any() and differs[each.truth].any()):
            yield each
        seen.add(prompt)


def gathered(setting: str, model: nn.Module, questions: Iterable[Question], padding: int = 0) -> Questions:
    """The questions as one padded batch, with whether the model answers each one correctly."""
    asked = [*questions]
    if not asked:
        raise ValueError(f"{setting}: there should be questions; allow more texts, or longer ones")

    def rows(name: str, value: int | bool) -> Tensor:
        return pad_sequence([getattr(each, name) for each in asked], True, value)

    sizes = torch.tensor([len(each.ids) for each in asked])
    numbers = {name: torch.tensor([getattr(each, name) for each in asked]) for name in _NUMBERS}
    parts: dict[str, Any] = numbers | {
        "input_ids": rows("ids", padding),
        "counterfactual": rows("counterfactual", padding),
        "attention_mask": torch.arange(int(sizes.max())) < sizes[:, None],
        "truth": rows("truth", False),
        "candidates": rows("candidates", False),
    }
    inputs = parts["input_ids"], parts["attention_mask"], parts["query"]
    right = predicted(model, *inputs) == parts["target"]
    return Questions(setting, **parts, right=right)


_NUMBERS = ("query", "target", "foil", "in_distribution")


@torch.no_grad()
def predicted(
    model: nn.Module,
    input_ids: Int64[Tensor, "item token"],
    attention_mask: Bool[Tensor, "item token"],
    query: Int64[Tensor, " item"],
) -> Int64[Tensor, " item"]:
    """The model's most probable token or class at each item's query."""
    device, found = next(model.parameters()).device, list[Tensor]()
    with evaluating(model):
        for rows in torch.arange(len(query)).split(AT_ONCE):
            ids, mask = (each[rows].to(device) for each in (input_ids, attention_mask))
            first = int(query[rows].min())
            logits = logits_of(model, ids, mask, first)
            found.append(logits[torch.arange(len(rows)), query[rows].to(device) - first].argmax(-1).cpu())
    return torch.cat(found)


def in_random_order(rows: Bool[Tensor, " token"], rng: np.random.Generator) -> Sequence[int]:
    """The positions where a row is True, in random order."""
    return rng.permutation(rows.nonzero()[:, 0].numpy()).tolist()


def but(mask: Bool[Tensor, " token"], query: int) -> Bool[Tensor, " token"]:
    """A mask without the query's own token."""
    without = mask.clone()
    without[query] = False
    return without


def row_table(
    questions: Questions,
    method: str,
    metric: str,
    value: Float[np.ndarray, " item"],
    chance: Float[np.ndarray, " item"] | float,
    perfect: Float[np.ndarray, " item"] | float,
) -> pd.DataFrame:
    """A row per question, of one measure and one metric."""
    about = {
        "setting": questions.setting,
        "split": np.where(questions.in_distribution.cpu().numpy(), ID, OOD),
        "right": questions.right.cpu().numpy(),
        "item": np.arange(len(questions)),
        "method": method,
        "metric": metric,
    }
    return pd.DataFrame(about | {"value": value, "chance": chance, "perfect": perfect})


Exchange = Callable[[str, int, Sequence[int], np.random.Generator], Sample | None]
"""From a text, a position in its answer and the position's sources: a text with another answer, or None."""


def about_answers(
    task: AlgorithmicGenerator | Arithmetic,
    samples: Iterable[Sample],
    *,
    others: Iterable[Sample] = (),
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about one character of every text's answer, drawn from those that have a reference.

    The truth is the `reference` without the query's own token; candidates are the task's text up to the
    query. Questions where no text of the same length has another answer are left out. Token `n` predicts
    character `n`, as the beginning is a token, too.
    """
    exchange = _another(others) or task.exchanged
    for row, sample in enumerate(samples):
        rng = np.random.default_rng([seed, row])
        assert sample.reference is not None and sample.evaluated is not None
        for query in in_random_order(sample.reference.any(1), rng):
            seen = slice(0, query + 1)
            truth = but(sample.reference[query], query)
            keys = (truth.nonzero()[:, 0] - 1).tolist()
            other = exchange(sample.text, query, keys, rng) if keys else None
            if other is None:
                continue
            yield Question(
                sample.input_ids[seen],
                query,
                int(sample.target_ids[query]),
                truth[seen],
                but(sample.evaluated[query], query)[seen],
                int(other.target_ids[query]),
                other.input_ids[seen],
                in_distribution,
            )
            break


def _another(others: Iterable[Sample]) -> Exchange | None:
    """An exchange that draws another text of the same form; None if there are no other texts."""
    alike = Alike(others, lambda sample: form(sample.text))
    if not alike.by_form:
        return None

    def exchange(text: str, place: int, keys: Sequence[int], rng: np.random.Generator) -> Sample | None:
        return alike.draw(form(text), lambda sample: sample.text[place] != text[place], rng)

    return exchange


def about_copies(
    model: ReadCopies,
    task: Copying,
    n: int,
    *,
    others: bool = False,
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about one symbol of every copy, whose ground truth is its position in the source.

    The earlier symbols of the copy are given, and right. The counterfactual has another symbol in this place:
    one that the sequence does not contain, or, if it contains all, another one that swaps places with it.
    """
    for row in range(n):
        rng = np.random.default_rng([seed, row])
        symbols = task.sequences(1, rng)[0]
        place = int(rng.integers(task.length))
        free = np.setdiff1d(np.arange(task.symbols), symbols)
        other = int(rng.choice(free if len(free) else symbols[symbols != symbols[place]]))
        swap = np.arange(task.symbols)
        swap[[symbols[place], other]] = swap[[other, symbols[place]]]
        if others:  # a permutation that moves every symbol
            swap = np.roll(np.arange(task.symbols), int(rng.integers(1, task.symbols)))
            other = int(swap[symbols[place]])
        rows = [
            torch.cat([torch.tensor([*one, task.end]), model.written(torch.tensor(one[:place]))])
            for one in (symbols, swap[symbols])
        ]
        at = torch.arange(len(rows[0]))
        yield Question(
            rows[0],
            len(rows[0]) - 1,
            int(symbols[place]),
            at == place,
            at < task.length,
            other,
            rows[1],
            in_distribution,
        )


def about_documents(
    vocabulary: Vocabulary,
    documents: Documents,
    planting: Planting | None = None,
    *,
    others: bool = False,
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about every document's class, at its last token, `<eos>`; the truth is the class's evidence.

    In the counterfactual, words of the other class with the same weight replace those of the truth; documents
    with a keyword that is too rare for this are left out.
    """
    if documents.relevance is None:
        raise ValueError("documents should be planted ones, whose relevance is known")
    swap, known = torch.arange(len(vocabulary)), vocabulary.ids
    for one, other in opposites(planting).items():
        if one in known and other in known:
            swap[known[one]] = known[other]
    relevance = documents.toward_label(documents.relevance)
    tokens, labels = documents.tokens.split(documents.lengths.tolist()), documents.labels.tolist()
    alike = Alike(zip(tokens, labels, strict=True), lambda each: (len(each[0]), each[1]))
    rows = zip(tokens, relevance.split(documents.lengths.tolist()), labels, strict=True)
    for row, (ids, speaks, label) in enumerate(rows):
        words = ids >= len(SPECIAL)
        truth = (speaks > 0) & words
        if (swap[ids] == ids)[truth].any() or not truth.any():  # its keyword, or the counterpart, is too rare
            continue
        counterfactual = torch.where(truth, swap[ids], ids)
        if others:
            rng = np.random.default_rng([seed, row])
            found = alike.draw((len(ids), 1 - label), lambda each: True, rng)
            if found is None:
                continue
            counterfactual = found[0]
        yield Question(
            ids,
            len(ids) - 1,
            label,
            truth,
            words,
            1 - label,
            counterfactual,
            in_distribution,
        )


def about_facts(
    generator: NeedleGenerator,
    samples: Iterable[NeedleSample],
    *,
    others: Iterable[NeedleSample] = (),
    seed: int = 0,
) -> Iterator[Question]:
    """A question about the first token of every prompt's answer, which one of the facts contains.

    The truth are the tokens of the value in that fact. In the counterfactual two facts have exchanged their
    values; prompts in which all values begin with the same token are left out.
    """
    special = torch.tensor(generator.tokenizer.all_special_ids, dtype=torch.int64)
    alike = Alike(others, _form)
    for row, sample in enumerate(samples):
        rng = np.random.default_rng([seed, row])
        if alike.by_form:
            other = alike.draw(_form(sample), partial(_answers_otherwise, sample), rng)
        else:
            other = generator.exchanged(sample, rng)
        if other is None:
            continue
        assert sample.reference is not None
        n = sample.n_prompt
        ids = sample.input_ids[:n]
        yield Question(
            ids,
            n - 1,
            int(sample.input_ids[n]),
            sample.reference[n - 1, :n],
            but(~torch.isin(ids, special), n - 1),
            int(other.input_ids[n]),
            other.input_ids[:n],
            True,
        )


def _form(sample: NeedleSample) -> tuple[int, tuple[int, ...]]:
    """The length of a prompt, and the positions of its needle."""
    assert sample.reference is not None
    return sample.n_prompt, tuple(sample.reference[sample.n_prompt - 1].nonzero()[:, 0].tolist())


def _answers_otherwise(sample: NeedleSample, other: NeedleSample) -> bool:
    return bool(sample.input_ids[sample.n_prompt] != other.input_ids[other.n_prompt])


DRAWN = 20
"""How many sequences `other_sequence` draws to find one with another output."""


def about_programs(
    lang: Language,
    sequences: Sequences,
    *,
    others: bool = False,
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about one output of every sequence, drawn from those that have a source.

    The truth is the set of symbols that the program's last selector selects (`book.chapters.rasp.measures`),
    without the query's own symbol, which is no candidate.
    """
    if not lang.definition.heads:
        raise ValueError(f"no program is known for {lang.name}, so its sources are not, either")
    batch, last = lang.batch(sequences), max(lang.definition.heads)
    for row in range(len(sequences)):
        rng, alone = np.random.default_rng([seed, row]), sequences[slice(row, row + 1)]
        n = int(batch.attention_mask[row].sum())
        ids, targets = batch.input_ids[row, :n], batch.target_ids[row, :n]
        symbols = targets != IGNORE
        selected = batch.target_attention[last][row, :n, :n] & symbols
        for query in in_random_order(symbols, rng):
            truth = but(selected[query], query)
            if not truth.any():
                continue
            if others:
                other = other_sequence(lang, alone, query - lang.bos, rng)
            else:
                other = lang.exchanged(alone, query - lang.bos, truth[int(lang.bos) :], rng)
            if other is None:
                continue
            twin = lang.batch(other, target_attention=False)
            yield Question(
                ids,
                query,
                int(targets[query]),
                truth,
                but(symbols, query),
                int(twin.target_ids[0, query]),
                twin.input_ids[0],
                in_distribution,
            )
            break


def other_sequence(
    lang: Language, sequence: Sequences, query: int, rng: np.random.Generator
) -> Sequences | None:
    """A sequence of the same length with another output at `query`; `None` if none of those drawn has one."""
    (length,) = sequence.lengths.tolist()
    seed, size = int(rng.integers(2**31)), {"min_length": length, "max_length": length}
    drawn = lang.sequences(DRAWN, split="test", seed=seed, **size)
    outputs = lang.definition.outputs
    differs = (outputs(drawn)[:, query] != outputs(sequence)[0, query]).nonzero()
    return drawn[differs[0]] if len(differs) else None


def about_sentences(
    model: ReadSentences,
    subwords: Subwords,
    pairs: Pairs,
    words: Lexicon,
    *,
    others: Pairs | None = None,
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about one word of every translation, whose ground truth is the aligned source words.

    There is no question about a word that no other can replace (the joining word).
    """
    if pairs.alignment is None:
        raise ValueError("sentences should be invented ones, whose alignment is known")
    texts = [] if others is None else [tuple(side.split() for side in text) for text in others.texts]
    alike = Alike(texts, lambda each: len(each[0]) + 2)  # with `<bos>` and `<eos>`
    for row in range(len(pairs)):
        rng, pair = np.random.default_rng([seed, row]), pairs[slice(row, row + 1)]
        assert pair.alignment is not None
        n = len(pair.source)
        aligned = pair.alignment.view(-1, n)
        said, written = (text.split() for text in pair.texts[0])
        for place in in_random_order(aligned.any(1), rng):
            if others is None:
                other = words.exchanged(said, written, aligned[:-1, 1:-1], place, rng)
            else:
                other = alike.draw(n, partial(_differs, place, written[place]), rng)  # type: ignore[assignment]
            if other is None:
                continue
            source, target = (torch.tensor(ids) for ids in subwords.encode([*map(" ".join, other)]))
            # The target's `<bos>` is left out: the last token of the source takes its place.
            ids = torch.cat([pair.source, model.written(pair.target[1 : place + 1])])
            candidates = torch.zeros_like(ids, dtype=torch.bool)
            candidates[1 : n - 1] = True
            truth = torch.zeros_like(candidates)
            truth[:n] = aligned[place]
            yield Question(
                ids,
                len(ids) - 1,
                int(pair.target[place + 1]),
                truth,
                candidates,
                int(target[place + 1]),
                torch.cat([source, model.written(target[1 : place + 1])]),
                in_distribution,
            )
            break


def _differs(place: int, word: str, sentence: tuple[list[str], ...]) -> bool:
    """Whether a sentence's translation has another word than `word` at `place`."""
    return place < len(sentence[1]) and sentence[1][place] != word

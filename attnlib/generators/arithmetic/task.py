"""Arithmetic as a task: the space of problems, their written form, and batches to train on."""

from __future__ import annotations

import functools
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from attnlib.checks import check, check_at_least
from attnlib.generators.arithmetic.attention import answer_digits, looks
from attnlib.generators.arithmetic.problems import OPERATORS, Problems, results_reach
from attnlib.generators.arithmetic.splits import ENUMERATED, Space, Splits, disjoint, independent
from attnlib.generators.arithmetic.writing import ANSWER, CHARACTERS, EOS, SIGN, Writing, read_numbers, write
from attnlib.generators.base import IGNORE, Batch, Sample
from attnlib.generators.exchange import exchanged_text, with_others
from attnlib.generators.order import EpochBatches, chunks
from attnlib.generators.tokenizer import char_tokenizer

if TYPE_CHECKING:
    import pandas as pd
    import transformers


def arithmetic(
    operators: str = "+",
    numbers: tuple[int, int] = (1, 99),
    *,
    n_operands: int = 2,
    reversed_digits: bool = False,
    padded: bool = False,
    negative: bool = True,
    operands_too: bool = False,
) -> Arithmetic:
    """A task of arithmetic, its settings checked.

    A problem is written `12+34=46`; with `reversed_digits`, every number has its units first (`21+43=64`);
    with `padded`, numbers are filled up with zeros to the widest there is (`12+34=046`), so that a column
    has one place in the text; with both, `21+43=640`. A minus sign stands where the number ends up: in front
    (`5-7=-2`), or reversed, at the end (`5-7=2-`).

    Args:
        operators: any of `+`, `-` and `*`; one of them stands between all the numbers of a problem.
        numbers: lowest and highest operand.
        n_operands: number of operands per problem.
        reversed_digits: write numbers with their units first, the order in which one adds on paper.
        padded: fill numbers up with zeros.
        negative: whether differences may be below 0.
        operands_too: predict the operands as well, all but the first character, as the original's loss does.
            No model can predict them with certainty: see `best_possible`.

    Example:
        >>> arithmetic("+").annotate("12+34=").text
        '12+34=46'
        >>> arithmetic("+-", (0, 999), reversed_digits=True, padded=True).annotate("210-430=").text
        '210-430=2200-'
    """
    some = operators and {*operators} <= {*OPERATORS} and len({*operators}) == len(operators)
    check(some, f"operators must be some of {OPERATORS!r}, each once", operators)
    some = len(numbers) == 2 and 0 <= numbers[0] <= numbers[1]
    check(some, "numbers must be two, 0 <= lowest <= highest", numbers)
    low, high = numbers
    check_at_least(2, n_operands=n_operands)
    space = Space("".join(o for o in OPERATORS if o in operators), (low, high), n_operands, negative)
    size = max(results_reach(operators, low, high, n_operands), space.size)
    check(size < 2**62, "numbers must be smaller or fewer, for problems to be numbered with 64 bits", numbers)
    some = negative or "-" not in operators or low * n_operands <= high + low
    check(some, f"negative must be True for {space.describe()}", negative)
    return Arithmetic(space, reversed_digits, padded, operands_too)


@functools.cache
def _tokenizer() -> transformers.PreTrainedTokenizerFast:
    return char_tokenizer(CHARACTERS)


@dataclass(frozen=True)
class Arithmetic:
    """A task made by `arithmetic`: problems, their texts, batches, and reference attention.

    Attributes:
        space: the space of problems.
        reversed_digits: whether numbers are written with their units first.
        padded: whether numbers are filled up with zeros.
        operands_too: whether operands are predicted too.
    """

    space: Space
    reversed_digits: bool = False
    padded: bool = False
    operands_too: bool = False

    @cached_property
    def tokenizer(self) -> transformers.PreTrainedTokenizerFast:
        """One token per character, the same in every task: a model can also read another task's problems."""
        return _tokenizer()

    @cached_property
    def widths(self) -> tuple[int, int]:
        """The largest number of digits of an operand, and of a result."""
        space = self.space
        reach = results_reach(space.operators, *space.numbers, space.n_operands, space.negative)
        return len(str(space.numbers[1])), len(str(reach))

    @property
    def max_length(self) -> int:
        """The longest input of a model in tokens: the beginning, and the longest problem without its end."""
        operands, result = self.widths
        sign = int("-" in self.space.operators and self.space.negative)
        return 1 + self.space.n_operands * (operands + 1) + sign + result

    # ---- one problem that a person typed -------------------------------------------------------------

    def annotate(self, text: str) -> Sample:
        """The sample of a problem as it is written in this task, with or without its answer.

        Raises:
            ValueError: the text is not a problem of this task, or its answer is wrong; the message says why.
        """
        return next(self.samples(self.parse(text)))

    def prompt(self, text: str) -> Int64[Tensor, " token"]:
        """The ids of a problem up to and including its =, for a model to continue."""
        written = self.texts(self.parse(text))[0]
        return torch.tensor(self.tokenizer(written[: written.index("=") + 1])["input_ids"])

    def exchanged(
        self, text: str, place: int, keys: Sequence[int], rng: np.random.Generator
    ) -> Sample | None:
        """A counterfactual: a problem of the same length with other digits at `keys` and at `place`.

        The rest of the answer becomes that of the new problem.

        Args:
            text: a problem with its answer.
            place: index of the character of the answer that is to change.
            keys: indices of the digits that this character depends on.
            rng: draws the new digits.

        Returns:
            `None` if there is no such problem, or none was found.

        Example:
            >>> other = arithmetic("+").exchanged("12+34=46", 7, [1, 4], np.random.default_rng(0)).text
            >>> other[0], other[3], other[7] != "6"
            ('1', '3', True)
        """

        def redrawn(text: str, keys: Sequence[int], rng: np.random.Generator) -> str:
            return with_others(text, dict.fromkeys(keys, string.digits), rng)

        def right(drawn: str) -> str:
            return self.texts(self.parse(drawn.partition("=")[0] + "="))[0]

        found = exchanged_text(text, place, keys, rng, redrawn, right)
        return None if found is None else self.annotate(found)

    def parse(self, *texts: str) -> Problems:
        """Texts as problems; a text that is wrong or not of this task raises `ValueError`."""
        example = self.texts(self.space.problems(np.array([self.space.size // 3])))[0]
        rows = [read_numbers(text, self.space, self.reversed_digits, example) for text in texts]
        operators = np.array([OPERATORS.index(operator) for operator, _ in rows], dtype=np.int64)
        operands = np.array([numbers for _, numbers in rows], dtype=np.int64)
        problems = Problems(operators, operands.reshape(len(rows), self.space.n_operands))
        for text, written in zip(texts, self.texts(problems), strict=True):
            question, _, answer = text.strip().partition("=")
            right_question, _, right = written.partition("=")
            if question != right_question:
                raise ValueError(f"{text!r} should be written {written!r} here: {self.describe()}")
            if answer and answer != right:
                raise ValueError(f"{text!r} is wrong: the answer is {right!r}, written as {self.describe()}")
        return problems

    def describe(self) -> str:
        """The task in words."""
        order = "units first" if self.reversed_digits else "as usual"
        zeros = "" if self.reversed_digits else ", without zeros in front"
        zeros = ", with zeros to fill up" if self.padded else zeros
        return f"{self.space.describe()}; numbers are written {order}{zeros}"

    # ---- many problems -------------------------------------------------------------------------------

    def splits(
        self, train: int, valid: int, test: int, *, seed: int = 0, as_published: bool = False
    ) -> Splits:
        """Problems to train, validate and test on, none of which is in two splits or twice in one.

        The two orders of a sum or product (12+34, 34+12) count as one problem here: they go into the same
        split. (A problem is in no split if a full split holds its twin.)

        Args:
            train: number of training problems.
            valid: number of validation problems, to choose the best model by.
            test: number of test problems to report on; they do not depend on the other sizes.
            seed: same seed, same splits.
            as_published: draw each split by itself, with replacement, as the original does: they overlap.
        """
        sizes = {"train": train, "valid": valid, "test": test}
        check_at_least(1, **sizes)
        return (independent if as_published else disjoint)(self.space, sizes, seed)

    def texts(self, problems: Problems) -> list[str]:
        """The problems as they are written."""
        return self._write(problems).texts()

    def samples(self, problems: Problems) -> Iterator[Sample]:
        """Each problem as a `Sample`, without the padding of its batch."""
        texts, names = iter(self.texts(problems)), ("input_ids", "target_ids", "reference", "evaluated")
        for batch in self.in_batches(problems, reference=True):
            lengths = batch.attention_mask.sum(1).tolist()
            rows = zip(*(getattr(batch, name) for name in names), strict=True)
            for n, (ids, targets, reference, evaluated) in zip(lengths, rows, strict=True):
                yield Sample(next(texts), ids[:n], targets[:n], reference[:n, :n], evaluated[:n, :n])

    def batch(self, problems: Problems, reference: bool = True) -> Batch:
        """Ids, targets and, if requested, the reference of many problems.

        The model reads the beginning and the characters; it has to predict the answer and the end.
        """
        writing = self._write(problems)
        ids, beginning = self._ids(writing), int(self.tokenizer.bos_token_id)
        input_ids = np.concatenate([np.full((len(problems), 1), beginning), ids[:, :-1]], axis=1)
        input_ids[:, 1:][~writing.real[:, 1:]] = int(self.tokenizer.pad_token_id)  # the end is not read
        asked = np.isin(writing.parts, (ANSWER, EOS))
        if self.operands_too:
            asked = np.ones_like(asked)
            asked[:, 0] = False
        target_ids = np.where(writing.real & asked, ids, IGNORE)
        arrays = {"input_ids": input_ids, "target_ids": target_ids, "attention_mask": writing.real}
        if reference:
            kinds = self._kinds(problems, writing)
            arrays["reference"] = kinds["operand column"] | kinds["carry column"]
            causal = np.tril(np.ones(writing.real.shape[1:] * 2, dtype=bool))
            causal[:, 0] = False  # the beginning is an attention sink without information
            arrays["evaluated"] = causal & answer_digits(writing)[:, :, None]
        tensors: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return Batch(**tensors)

    def kinds(self, problems: Problems) -> dict[str, Bool[Tensor, "batch query key"]]:
        """Masks of the keys of each kind: "operand column", "carry column", "operator", "local".

        See `attnlib.generators.arithmetic.attention`. The union of the first two is the `reference`.
        """
        kinds = self._kinds(problems, self._write(problems))
        return {kind: torch.from_numpy(mask) for kind, mask in kinds.items()}

    def columns(self, problems: Problems) -> Int64[Tensor, "batch query"]:
        """The column (units 0) of the answer's digit that each query predicts; -1 where it predicts none."""
        writing = self._write(problems)
        return torch.from_numpy(np.where(answer_digits(writing), writing.places, SIGN))

    def batches(self, problems: Problems, batch_size: int, seed: int = 0) -> EpochBatches[Batch]:
        """The batch of every training step: see `EpochBatches`."""
        return EpochBatches(
            lambda rows: self.batch(problems[rows], reference=False), len(problems), batch_size, seed
        )

    def in_batches(self, problems: Problems, batch_size: int = 500, reference: bool = False) -> list[Batch]:
        """All problems once, in their order, in batches for evaluation."""
        return [self.batch(problems[part], reference) for part in chunks(len(problems), batch_size)]

    def peek(self, n: int = 10, seed: int = 0) -> pd.DataFrame:
        """A table of `n` problems, to see what the task is."""
        import pandas as pd

        check_at_least(1, n=n)
        drawn = np.random.default_rng(seed).integers(self.space.size, size=100 * n)
        problems = self.space.problems(drawn[self.space.allowed(drawn)][:n])
        written = pd.Series(self.texts(problems)).str.partition("=")
        return pd.DataFrame({"problem": written[0] + "=", "answer": written[2], "carries": problems.carries})

    def _write(self, problems: Problems) -> Writing:
        return write(problems, self.widths, self.padded, self.reversed_digits)

    def _kinds(self, problems: Problems, writing: Writing) -> dict[str, np.ndarray]:
        return looks(writing, problems.operators == OPERATORS.index("*"))

    def _ids(self, writing: Writing) -> Int64[np.ndarray, "problem character"]:
        names = [*CHARACTERS, self.tokenizer.eos_token, self.tokenizer.pad_token]
        return np.array(self.tokenizer.convert_tokens_to_ids(names))[writing.characters]


def best_possible(task: Arithmetic) -> dict[str, float]:
    r"""Accuracy per token and cross entropy of an ideal model, which knows the distribution of problems.

    With $n(x_{\le t})$ the number of problems that begin with the characters $x_{\le t}$, such a model
    predicts $p(x_t \mid x_{<t}) = n(x_{\le t}) / n(x_{<t})$. It is right with probability
    $\max_{x_t} p$, and its cross entropy is the entropy of $p$, both as means over all predicted tokens. An
    answer follows from its problem, so its entropy is 0; that of operands (with `operands_too`) is not.

    Returns:
        `accuracy` and `cross_entropy` (in nats), exact: every problem counts once.
    """
    demand = f"numbers must make at most {ENUMERATED:,} problems"
    check(task.space.size <= ENUMERATED, demand, task.space.size)
    indices = np.arange(task.space.size)
    batch = task.batch(task.space.problems(indices[task.space.allowed(indices)]), reference=False)
    targets, ids = batch.target_ids.numpy(), batch.input_ids.numpy()
    prefix = np.zeros(len(ids), dtype=np.int64)
    right, entropy, asked = 0, 0.0, 0
    for read, target in zip(ids.T, targets.T, strict=True):
        prefix = np.unique(np.stack([prefix, read]), axis=1, return_inverse=True)[1]
        here = target != IGNORE
        _, n_prefix = np.unique(prefix[here], return_counts=True)
        (known, _), n_next = np.unique(np.stack([prefix[here], target[here]]), axis=1, return_counts=True)
        _, first = np.unique(known, return_index=True)
        right += np.maximum.reduceat(n_next, first).sum() if len(first) else 0
        entropy += (n_prefix * np.log(n_prefix)).sum() - (n_next * np.log(n_next)).sum()
        asked += here.sum()
    return {"accuracy": float(right / asked), "cross_entropy": float(entropy / asked)}

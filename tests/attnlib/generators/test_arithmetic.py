"""Arithmetic: what is written is right, splits do not overlap, the reference is what paper needs."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from attnlib.generators import IGNORE
from attnlib.generators.arithmetic import (
    KINDS,
    Problems,
    Splits,
    arithmetic,
    best_possible,
    read_files,
    write_files,
)

TASKS = st.builds(
    arithmetic,
    st.sampled_from(["+", "-", "*", "+-", "+-*"]),
    st.tuples(st.integers(0, 30), st.integers(0, 1500)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    n_operands=st.integers(2, 4),
    reversed_digits=st.booleans(),
    padded=st.booleans(),
    operands_too=st.booleans(),
)

FEW = settings(max_examples=20, phases=[Phase.explicit, Phase.generate])


def drawn(task, n=12, seed=0):
    """Random problems of a task."""
    indices = np.random.default_rng(seed).integers(task.space.size, size=n)
    return task.space.problems(indices[task.space.allowed(indices)])


def number(text, task):
    """A written number, read by a person who knows the task's order."""
    return int(text[::-1] if task.reversed_digits else text)


@settings(FEW)
@given(TASKS)
def test_what_is_written_is_right_and_can_be_read_back(task):
    problems = drawn(task)
    texts = task.texts(problems)
    for text in texts:
        question, answer = text.split("=")
        sign = next(sign for sign in "+-*" if sign in question)
        numbers = [number(part, task) for part in question.split(sign)]
        right = {"+": sum(numbers), "*": math.prod(numbers), "-": 2 * numbers[0] - sum(numbers)}[sign]
        assert number(answer, task) == right
        assert len(text) + 1 <= task.max_length
        if task.padded:
            assert len({len(part) for part in question.split(sign)}) == 1
    again = task.parse(*texts)
    assert (again.operators == problems.operators).all() and (again.operands == problems.operands).all()


@settings(FEW)
@given(TASKS)
def test_a_batch_holds_the_characters_and_asks_for_the_answer_as_its_samples_do(task):
    problems = drawn(task, 6)
    batch, texts = task.batch(problems), task.texts(problems)
    samples = list(task.samples(problems))
    assert batch.input_ids.shape[1] <= task.max_length and [sample.text for sample in samples] == texts
    for row, text in enumerate(texts):
        real = batch.attention_mask[row]
        assert int(real.sum()) == len(text) + 1
        assert task.tokenizer.decode(batch.input_ids[row, real]) == "<bos>" + text
        assert (batch.input_ids[row, ~real] == task.tokenizer.pad_token_id).all()
        asked = batch.target_ids[row]
        after = text[1:] if task.operands_too else text.partition("=")[2]
        assert task.tokenizer.decode(asked[asked != IGNORE]) == after + "<eos>"
        assert (asked[~real] == IGNORE).all()
        n, alone = len(text) + 1, task.annotate(text)
        for name in ("input_ids", "target_ids", "reference", "evaluated"):
            whole = getattr(batch, name)[row]
            mine = whole[:n, :n] if whole.ndim == 2 else whole[:n]
            assert torch.equal(getattr(samples[row], name), mine) and torch.equal(getattr(alone, name), mine)
        assert not batch.reference[row][:, ~real].any() and not batch.reference[row][~real].any()
    assert list(task.samples(problems[:0])) == []


def digit_places(task, text):
    """For every character of a text: which number it is of (the answer is -1) and its column."""
    question, answer = text.split("=")
    sign = next(sign for sign in "+-*" if sign in question)
    places = []
    for index, part in enumerate([*question.split(sign), answer]):
        digits = part.strip("-")
        columns = range(len(digits)) if task.reversed_digits else range(len(digits))[::-1]
        columns = [*columns, -1] if part.endswith("-") else [*[-1] * part.startswith("-"), *columns]
        places += [(index, column) for column in columns] + [(None, -1)]
    return places[:-1], sign, len(question.split(sign))


@settings(FEW)
@given(TASKS)
def test_the_reference_is_the_columns_that_a_digit_is_made_from(task):
    for text in task.texts(drawn(task, 4)):
        places, sign, n_operands = digit_places(task, text)
        sizes = [max([c for i, c in places if i == index], default=0) for index in range(n_operands)]
        sample = task.annotate(text)
        for query, (index, column) in enumerate(places):
            keys = set(sample.reference[query].nonzero().flatten().tolist())
            if index != n_operands or column < 0:
                assert not keys and not sample.evaluated[query].any()
                continue
            wanted = set()
            for key, (operand, place) in enumerate(places):
                if operand is None or operand >= n_operands:
                    continue
                room = sum(sizes) - sizes[operand] if sign == "*" else 0
                if any(0 <= c - place <= room for c in (column, column - 1)):
                    wanted.add(key + 1)  # the beginning stands before the first character
            assert keys == wanted
            assert sample.evaluated[query].nonzero().flatten().tolist() == list(range(1, query + 1))


def test_kinds_cover_operator_and_neighbour():
    task = arithmetic()
    kinds = task.kinds(task.parse("58+67="))
    assert tuple(kinds) == KINDS
    assert kinds["operator"][0, 7].nonzero().flatten().tolist() == [3, 6]
    assert kinds["local"][0, 7].nonzero().flatten().tolist() == [6, 7]
    assert kinds["operator"][0, 2].nonzero().flatten().tolist() == []  # the + is still to come


def test_carries_of_differences_and_products():
    problems = arithmetic("+-*", (0, 99)).parse("52-17=", "17-52=", "12*12=", "99*99=")
    assert problems.carries.tolist() == [1, 1, 0, 3]


def test_carries_of_the_largest_numbers_there_are():
    most = np.array([[2 * 10**18, 2 * 10**18 + 9]])
    for operator, count in ((0, 0), (1, 0)):
        assert Problems(np.array([operator]), most).carries.tolist() == [count]
    assert Problems(np.array([0]), most + 5 * 10**17).carries.tolist() == [1]


def test_results_that_are_not_negative_are_no_wider_than_they_can_be():
    task = arithmetic("-", (0, 9), n_operands=3, padded=True, negative=False)
    assert task.annotate("9-1-2=").text == "9-1-2=6"  # 9 at most; 0-9-9 does not count
    assert arithmetic("-", (0, 9), n_operands=3, padded=True).annotate("0-9-9=").text == "0-9-9=-18"
    longest = max(map(len, task.texts(task.splits(50, 10, 10).train)))
    assert 1 + longest == task.max_length, "the beginning, and no room for a number below 0"


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=5))
def test_carries_of_sums_as_done_on_paper(numbers):
    carry, count = 0, 0
    for place in range(9):
        carry = (sum(n // 10**place % 10 for n in numbers) + carry) // 10
        count += carry > 0
    assert Problems(np.array([0]), np.array([numbers])).carries.tolist() == [count]


@pytest.mark.parametrize(
    ("numbers", "operators", "n_operands"), [((1, 30), "+", 2), ((0, 10**5), "+-", 2), ((0, 12), "*", 3)]
)
def test_splits_are_disjoint_down_to_the_order_of_operands(numbers, operators, n_operands):
    task = arithmetic(operators, numbers, n_operands=n_operands)
    splits = task.splits(300, 60, 90, seed=3)
    assert [len(splits.train), len(splits.valid), len(splits.test)] == [300, 60, 90]
    assert not splits.seen().any()
    contents = []
    for part in (splits.train, splits.valid, splits.test):
        rows = list(zip(part.operators.tolist(), map(tuple, part.operands.tolist()), strict=True))
        contents.append({(sign, row if sign == 1 else tuple(sorted(row))) for sign, row in rows})
        assert len(set(rows)) == len(part)
        assert ((part.operands >= numbers[0]) & (part.operands <= numbers[1])).all()
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(contents, 2))


def test_both_orders_of_a_sum_are_seen_and_one_of_a_difference():
    train = Problems(np.array([0, 1, 2]), np.array([[1, 2], [9, 4], [3, 5]]))
    test = Problems(np.array([0, 1, 1, 2, 2]), np.array([[2, 1], [4, 9], [9, 4], [5, 3], [3, 6]]))
    assert Splits(train, train, test).seen().tolist() == [True, False, True, True, False]


def test_test_problems_do_not_depend_on_how_many_are_trained_on():
    task = arithmetic()
    few, many = task.splits(50, 20, 40), task.splits(5000, 20, 40)
    assert task.texts(few.test) == task.texts(many.test)
    assert task.texts(task.splits(50, 20, 40, seed=1).test) != task.texts(few.test)


def test_every_problem_can_be_used_up():
    task = arithmetic("-", (0, 20), negative=False)
    splits = task.splits(229, 1, 1)
    assert (splits.train.results >= 0).all() and len(set(task.texts(splits.train))) == 229
    with pytest.raises(ValueError, match="cannot be disjoint: there are 231 problems"):
        task.splits(230, 1, 1)


def test_where_few_problems_are_allowed_more_are_drawn():
    """Of differences of four numbers some four in a hundred are not negative, and that is millions."""
    task = arithmetic("-", (1, 99), n_operands=4, negative=False)
    splits = task.splits(2000, 200, 200)
    assert len({*task.texts(splits.train), *task.texts(splits.test)}) == 2200


def test_splits_as_published_overlap():
    task = arithmetic("+-", negative=False)
    splits = task.splits(20000, 200, 1000, as_published=True)
    assert 0.6 < splits.seen().mean() < 0.95
    assert (splits.train.results >= 0).all()
    with pytest.raises(ValueError, match=r"^n_operands must"):
        arithmetic(n_operands=3).splits(20, 20, 20, as_published=True)


def test_batches_cover_each_epoch_and_all_problems_once():
    task = arithmetic(padded=True)
    problems = task.splits(64, 10, 10).train
    whole = sorted(task.batch(problems).input_ids.tolist())
    epoch = torch.cat([task.batches(problems, 16, seed=5)(step).input_ids for step in range(4, 8)])
    assert sorted(epoch.tolist()) == whole
    assert sorted(torch.cat([each.input_ids for each in task.in_batches(problems, 30)]).tolist()) == whole


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12++3=", "there should be a number at character 4"),
        ("12-3=", "- was not asked for, only \\+"),
        ("120+3=", "120 is not from 1 to 99"),
        ("12+3", "it should have one =, and has 0"),
        ("12+3=16", "is wrong: the answer is '15'"),
        ("012+3=", "should be written '12\\+3=15' here"),
        ("1+2+3=", "there should be 2 numbers"),
    ],
)
def test_what_is_not_a_problem_is_refused_with_a_reason(text, message):
    with pytest.raises(ValueError, match=message):
        arithmetic().annotate(text)
    with pytest.raises(ValueError, match="its result is negative"):
        arithmetic("-", negative=False).annotate("3-5=")


@pytest.mark.parametrize(
    "settings",  # the first is refused
    [
        {"operators": "/"},
        {"operators": "++"},
        {"numbers": (-1, 5)},
        {"numbers": (6, 5)},
        {"n_operands": 1},
        {"numbers": (0, 10**6), "operators": "*", "n_operands": 5},
        {"negative": False, "operators": "-", "numbers": (9, 10), "n_operands": 3},
    ],
)
def test_impossible_tasks_are_refused(settings):
    with pytest.raises(ValueError, match=rf"^{next(iter(settings))} must "):
        arithmetic(**settings)


@pytest.mark.parametrize("how", [{}, {"reversed_digits": True, "padded": True}])
def test_files_are_the_originals_and_come_back(tmp_path, how):
    task = arithmetic("+-", negative=False, **how)
    splits = task.splits(40, 10, 20)
    files = write_files(tmp_path / "data", task, splits)
    assert [file.name for file in files] == ["train.txt", "val.txt", "test.txt"]
    assert files[0].read_text() == "".join(f"{text}<EOS>\n" for text in task.texts(splits.train))
    again = read_files(tmp_path / "data", task)
    for name in ("train", "valid", "test"):
        assert task.texts(getattr(again, name)) == task.texts(getattr(splits, name))


def test_a_wrong_line_of_a_file_is_named(tmp_path):
    task = arithmetic()
    write_files(tmp_path, task, task.splits(5, 5, 5))
    for lines, message in [
        ("1+1=2<EOS>\n\n2+2=5<EOS>\n", r"val\.txt, line 3: '2\+2=5' is wrong"),
        ("1+1=<EOS>\n", r"line 1: '1\+1=' has no answer"),
        ("\n", "holds no problem"),
    ]:
        (tmp_path / "val.txt").write_text(lines)
        with pytest.raises(ValueError, match=message):
            read_files(tmp_path, task)


@pytest.mark.parametrize(("one", "other"), [("train", "val"), ("train", "test"), ("val", "test")])
def test_a_file_that_is_a_copy_of_another_is_refused(tmp_path, one, other):
    task = arithmetic("+-", negative=False)
    write_files(tmp_path, task, task.splits(train=30, valid=5, test=5))
    (tmp_path / f"{other}.txt").write_bytes((tmp_path / f"{one}.txt").read_bytes())
    with pytest.raises(ValueError, match=rf"^{other}.txt must hold other problems than {one}.txt"):
        read_files(tmp_path, task)


def test_best_possible_is_what_cannot_be_known():
    assert best_possible(arithmetic()) == {"accuracy": 1.0, "cross_entropy": 0.0}
    task = arithmetic(operands_too=True)
    # Unknown are the second number, and of the first all but its first character: ln 99 + ln 11 per problem.
    batch = task.batch(task.space.problems(np.arange(task.space.size)), reference=False)
    tokens = float((batch.target_ids != IGNORE).sum()) / task.space.size
    assert best_possible(task)["cross_entropy"] == pytest.approx((math.log(99) + math.log(11)) / tokens)
    # 1+1=2 to 2+2=4: of 4 tokens asked for (+ 1 = 2 and the end: 5), all but the second number is known.
    tiny = best_possible(arithmetic("+", (1, 2), operands_too=True))
    assert tiny == {"accuracy": pytest.approx(4.5 / 5), "cross_entropy": pytest.approx(math.log(2) / 5)}
    with pytest.raises(ValueError, match=r"^numbers must"):
        best_possible(arithmetic("+", (0, 10**5)))


def test_a_single_problem_is_one_of_them():
    task = arithmetic()
    problems = task.space.problems(np.arange(5))
    assert [task.texts(problems[row]) for row in (0, -1)] == [
        task.texts(problems)[:1],
        task.texts(problems)[-1:],
    ]


def test_peek_shows_problems():
    table = arithmetic("*", (0, 12)).peek(5)
    assert list(table) == ["problem", "answer", "carries"] and len(table) == 5
    assert all(eval(row.problem[:-1]) == int(row.answer) for row in table.itertuples())
    with pytest.raises(ValueError, match=r"^n must"):
        arithmetic().peek(0)

"""What the page knows of tasks against Python: ids, right outputs, where programs look, what is refused."""

import numpy as np
import pytest
import torch

from attnlib.generators import rasp
from attnlib.generators.algorithmic import StringReversalGenerator
from attnlib.generators.arithmetic import arithmetic
from attnlib.generators.tokenizer import char_tokenizer
from attnlib.models import Transformer, TransformerConfig
from attnlib.widgets.front_end import front_end
from attnlib.widgets.model_explorer import PackedModel

pytestmark = pytest.mark.book

ASK = """([task, config, texts]) => {
  const own = taskOf(task, config);
  return texts.map((text) => {
    const refused = own.refuse(text);
    if (refused) return { refused };
    const targets = Object.entries(own.targets(text)).map(([head, mask]) => [head, [...mask]]);
    const [ids, names, begin, right] = [own.ids(text), own.names(text), own.begin(text), own.right(text)];
    const said = { ids, names, begin, right };
    return { refused, ...said, targets: Object.fromEntries(targets) };
  });
}"""


@pytest.fixture(scope="module")
def page(browser):
    script, _ = front_end("model_tasks.js")
    page = browser.new_page()
    page.add_script_tag(content=f'"use strict";\n{script}\nwindow.taskOf = taskOf;')
    yield page
    page.close()


def small(task, longest=60):
    classes = len(task.classes) if isinstance(task, rasp.Language) else None
    return Transformer(TransformerConfig(len(task.tokenizer), classes, 3, width=8, max_length=longest))


def asked(page, task, texts, longest=60):
    """What the page says of texts; the first must be one that can be asked."""
    packed = PackedModel.of("", small(task, longest), task, texts[:1])
    return page.evaluate(ASK, [packed.task, packed.config, texts])


def assert_masks_equal(found, expected, n):
    assert set(found) == set(expected)
    for name, mask in expected.items():
        assert (torch.tensor(found[name]).view(n, n).bool() == mask).all(), name


def alphabets(name):
    """Sizes to test: a Dyck language has an alphabet of its own, and order by code points shows in 100."""
    return (10,) if rasp.LANGUAGES[name].symbols else (10, 26, 100) if name == "sort" else (10, 26)


CASES = [(name, size, bos) for name in rasp.LANGUAGES for size in alphabets(name) for bos in (False, True)]


@pytest.mark.parametrize(("name", "size", "bos"), CASES)
def test_a_language_is_that_of_python(page, name, size, bos):
    lang = rasp.language(name, size, bos)
    texts = lang.decode(lang.sequences(40, seed=size, max_length=40))
    for text, found in zip(texts, asked(page, lang, texts), strict=True):
        sample = lang.annotate(text)
        assert found["refused"] == ""
        assert found["ids"] == sample.input_ids.tolist()
        assert found["names"] == lang.tokenizer.convert_ids_to_tokens(sample.input_ids.tolist())
        assert found["right"] == [str(symbol) for symbol in lang.outputs(text)]
        targets = {f"L{layer}H{head}": mask for (layer, head), mask in sample.target_attention.items()}
        assert_masks_equal(found["targets"], targets, len(sample.input_ids))


WRITTEN = [
    {},
    {"operators": "-"},
    {"operators": "*", "numbers": (0, 999)},
    {"operators": "+-", "numbers": (0, 99), "n_operands": 3},
    {"operators": "+-*", "numbers": (0, 120), "reversed_digits": True, "padded": True},
    {"operators": "+-", "numbers": (1, 10**9), "reversed_digits": True},
    {"operators": "*", "numbers": (0, 99), "n_operands": 3, "padded": True},
]


@pytest.mark.parametrize("settings", WRITTEN, ids=str)
def test_arithmetic_is_that_of_python(page, settings):
    task = arithmetic(**settings)
    drawn = task.space.problems(np.random.default_rng(0).integers(task.space.size, size=30))
    texts = [text.partition("=")[0] for text in task.texts(drawn)]
    for text, found in zip(texts, asked(page, task, texts), strict=True):
        sample = task.annotate(f"{text}=")
        assert found["refused"] == ""
        assert found["ids"] == task.prompt(f"{text}=").tolist()
        assert "".join(found["right"]) == sample.text.partition("=")[2] + "<eos>"
        looked = torch.tensor(found["targets"]["L0H1"]).view(sample.reference.shape).bool()
        rows = sample.evaluated.any(1)
        assert (looked[rows] == sample.reference[rows]).all()
        assert not looked[~rows].any()


def reversal(**settings):
    return StringReversalGenerator(tokenizer=char_tokenizer(), length=(1, 20), **settings)


@pytest.mark.parametrize("settings", [{}, {"charset": "zyx01"}], ids=str)
def test_string_reversal_is_that_of_python(page, settings):
    task = reversal(**settings)
    samples = task.samples(30)
    texts = [sample.prompt.removesuffix("=") for sample in samples]
    for sample, found in zip(samples, asked(page, task, texts), strict=True):
        ids = sample.input_ids.tolist()
        assert found["refused"] == "" and found["ids"] == ids
        assert found["names"] == task.tokenizer.convert_ids_to_tokens(ids)
        written = sample.target_ids[found["begin"] :].tolist()
        assert found["right"] == task.tokenizer.convert_ids_to_tokens(written)
        assert (sample.target_ids[: found["begin"]] == task.ignore_index).all()
        heads = {f"L{layer}H{head}": sample.reference for layer in range(3) for head in range(2)}
        assert_masks_equal(found["targets"], heads, len(ids))


def test_a_language_of_your_own_is_right_where_python_said_so(page):
    own = rasp.Definition(
        "sort", "as it is", lambda s: s.symbols, heads={(0, 1): rasp.LANGUAGES["hist"].heads[0, 0]}
    )
    lang = rasp.language(own, 10, bos=True)
    known, unknown = asked(page, lang, ["cab", "bac"])
    assert known["right"] == ["c", "a", "b"]
    assert_masks_equal(known["targets"], {"L0H1": lang.target_attention("cab")[0, 1]}, 4)
    assert unknown["right"] is None and unknown["targets"] == {}


REFUSED = [
    (
        rasp.language("sort", 10, bos=True),
        "",
        "There is nothing to read. Type up to 4 of the symbols abcdefghij.",
    ),
    (rasp.language("sort", 10, bos=True), "cabz", "'z' is not in this model's alphabet. Type up to 4 of"),
    (rasp.language("sort", 10), "<b>&", "'<', '>', '&' are not in this model's alphabet. Type up to 5 of"),
    (
        rasp.language("sort", 10, bos=True),
        "cabba",
        "That is 5 symbols; this model has positions for 4. Type 4 or fewer.",
    ),
    (
        rasp.language("dyck1_ptf"),
        "(b)",
        "'b' is not in this model's alphabet. Type up to 5 of the symbols ()a.",
    ),
    (arithmetic(), "  ", "There is nothing to answer. Type a problem such as "),
    (arithmetic(), "5+x", "'x' is not in this model's alphabet. Type a problem such as "),
    (arithmetic(), "5+7=12", "The model writes what stands behind the =."),
    (arithmetic(), "5+", "There should be 2 numbers with one operator between them."),
    (arithmetic(), "5", "There should be 2 numbers with one operator between them."),
    (arithmetic(), "5+6+7", "There should be 2 numbers with one operator between them."),
    (arithmetic(), "5-7", "This model does not know -, only +."),
    (arithmetic(), "5+100", "100 is not from 1 to 99."),
    (arithmetic(), "05+7", "Here that is written 5+7="),
    (arithmetic("-", negative=False), "5-7", "The result would be negative."),
    (
        reversal(),
        "",
        "There is nothing to reverse. Type up to 40 letters and digits; in training there were 20",
    ),
    (reversal(), "a-b=", "'-', '=' are not in this model's alphabet. Type up to 40 letters"),
    (reversal(), "a" * 41, "That is 41 symbols; this page reverses 40. Type 40 or fewer."),
    (arithmetic("+", (1, 999)), "55+7", "That is 6 tokens; this model has positions for 5."),
]


@pytest.mark.parametrize(("task", "text", "message"), REFUSED)
def test_what_cannot_be_asked_is_refused_with_the_reason(page, task, text, message):
    if isinstance(task, rasp.Language):
        fine = task.alphabet[:3]
    elif isinstance(task, StringReversalGenerator):
        fine = "a"
    else:
        fine = "7-5" if "-" in task.space.operators else "7+5"
    longest = 82 if isinstance(task, StringReversalGenerator) else 5
    first, found = asked(page, task, [fine, text], longest=longest)
    assert first["refused"] == ""
    assert found["refused"].startswith(message)

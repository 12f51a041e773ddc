"""What a page computes by itself, its transformer and its tasks, against torch and Python."""

import base64
import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attnlib.generators import rasp
from attnlib.generators.algorithmic import StringReversalGenerator
from attnlib.generators.arithmetic import arithmetic
from attnlib.generators.tokenizer import char_tokenizer
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import changing, heads_ablated, reinforced
from attnlib.models.attention.call import Affine
from attnlib.models.base import config_of
from attnlib.models.stored import stored_models
from attnlib.widgets import ModelExplorer
from attnlib.widgets.front_end import front_end
from attnlib.widgets.model_explorer import PackedModel
from attnlib.widgets.static import EXPORT
from tests.explorers import shown

pytestmark = pytest.mark.book

# ---- the transformer


VOCABULARY, CLASSES, LONGEST = 11, 7, 30
CHAPTERS = ("rasp_languages", "arithmetic_lens", "algorithmic_reasoning")


UNPACK = """const unpackedWeights = (packed) =>
  Object.fromEntries(Object.entries(packed).map(([name, text]) =>
  [name, new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer)]));"""


READ = """({ config, packed, sequences, swaps }) => {
  const weights = unpackedWeights(packed);
  const model = new Transformer(config, weights), all = [];
  sequences.forEach((ids, i) => {
    const own = Object.entries(swaps?.[i] ?? {})
      .map(([head, to]) => [head, Array.isArray(to) ? Float32Array.from(to) : to]);
    const { logits, attentions } = model.read(ids, Object.fromEntries(own));
    all.push([[...logits], [...attentions]]);
  });
  return all;
}"""


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    """A page that has the scripts of the explorer of models, and calls some of their parts by name."""
    script = EXPORT.sub("", front_end("model_explorer.js")[0])
    page = browser.new_page()
    names = "{ Transformer, unpackedWeights, taskOf, unpackModel, evenly }"
    page.add_script_tag(content=f'"use strict";\n{script}\n{UNPACK}\nObject.assign(window, {names});')
    yield page
    page.close()


def build(seed=0, **settings):
    """A model whose biases and norms matter: they start at 0 and 1."""
    torch.manual_seed(seed)
    sizes = {"n_layers": 2, "n_heads": 4, "width": 32, "ff_width": 48, "max_length": LONGEST}
    model = Transformer(TransformerConfig(VOCABULARY, CLASSES, **{**sizes, **settings})).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=float("norm.weight" in name), std=0.3)
    return model


def drawn(count=LONGEST, seed=1, step=1):
    """Sequences of every length from 1 on, or of every so many."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [1 + i % LONGEST for i in range(0, count, step)]
    return [torch.randint(VOCABULARY, (1, n), generator=generator) for n in lengths]


def packed(model):
    weights = {name: weight.numpy().tobytes() for name, weight in model.state_dict().items()}
    return {name: base64.b64encode(data).decode() for name, data in weights.items()}


def in_page(page, model, sequences, swaps=None):
    """Logits and attentions of each sequence, as torch has them."""
    given = {"config": config_of(model), "packed": packed(model), "swaps": swaps}
    sizes = model.config.n_layers, model.config.n_heads
    found = page.evaluate(READ, {**given, "sequences": [ids[0].tolist() for ids in sequences]})
    for ids, (logits, attentions) in zip(sequences, found, strict=True):
        n = ids.shape[1]
        numbers = (torch.tensor(values, dtype=torch.float32) for values in (logits, attentions))
        yield next(numbers).view(1, n, -1), next(numbers).view(1, *sizes, n, n)


@torch.no_grad()
def assert_equal(ours, model, ids):
    read = model(ids, output_attentions=True)
    for here, there in zip(ours, (read.logits, read.attentions), strict=True):
        torch.testing.assert_close(here, there, atol=1e-4, rtol=0)


FORMS = [
    ("pre", "relu", False, "sinusoidal"),
    ("pre", "gelu", True, "learned"),
    ("post", "relu", True, "none"),
    ("post", "gelu", False, "sinusoidal"),
    ("pre", "relu", True, "sinusoidal"),
    ("post", "relu", False, "learned"),
    ("pre", "gelu", False, "none"),
]
"""Any two settings, each with each value of the other."""


@pytest.mark.parametrize(("norm", "activation", "causal", "positions"), FORMS)
def test_it_gives_what_torch_gives(page, norm, activation, causal, positions):
    model = build(norm=norm, activation=activation, causal=causal, positions=positions)
    sequences = drawn(step=3)
    for ids, ours in zip(sequences, in_page(page, model, sequences), strict=True):
        assert_equal(ours, model, ids)


@pytest.mark.parametrize(
    "sizes",
    [
        {"n_layers": 1, "n_heads": 1, "width": 6, "ff_width": 1},
        {"n_layers": 5, "n_heads": 8, "width": 64, "n_classes": 1},
        {"n_heads": 3, "width": 15, "ff_width": 7, "positions": "learned"},
    ],
)
def test_it_has_any_size(page, sizes):
    torch.manual_seed(2)
    settings = {"vocabulary": VOCABULARY, "max_length": LONGEST, **sizes}
    model, sequences = Transformer(TransformerConfig(**settings)).eval(), drawn(12)
    for ids, ours in zip(sequences, in_page(page, model, sequences), strict=True):
        assert_equal(ours, model, ids)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("swap", "instead"), [("even", "uniform"), ("off", "zero")])
def test_a_head_that_attends_evenly_or_is_off_does_what_it_does_in_torch(page, causal, swap, instead):
    model, sequences, heads = build(causal=causal), drawn(), [(0, 1), (1, 3)]
    swaps = [{"L0H1": swap, "L1H3": swap}] * len(sequences)
    for ids, ours in zip(sequences, in_page(page, model, sequences, swaps), strict=True):
        with heads_ablated(model, heads, instead):
            assert_equal(ours, model, ids)


def onto(matrix, call):
    """Head 2 of the layer attends as the matrix says."""
    chosen = torch.zeros(1, call.query.shape[1], 1, 1)
    chosen[:, 2] = 1.0
    return Affine(1 - chosen, chosen, matrix)


def test_a_head_can_be_given_any_attention(page):
    model, sequences = build(), drawn()
    matrices = [torch.softmax(3 * torch.randn(1, 1, *(2 * ids.shape[1:])), -1) for ids in sequences]
    swaps = [{"L1H2": matrix.flatten().tolist()} for matrix in matrices]
    for ids, matrix, ours in zip(sequences, matrices, in_page(page, model, sequences, swaps), strict=True):
        with changing(model, {1: partial(onto, matrix)}):
            assert_equal(ours, model, ids)


def test_a_row_of_zeros_leaves_a_head_its_own_attention(page):
    """As `reinforced` leaves rows that it is told no key of."""
    model, sequences = build(), drawn(60)
    generator = torch.Generator().manual_seed(3)
    masks = [torch.rand(1, *(2 * ids.shape[1:]), generator=generator) < 0.1 for ids in sequences]
    even = [mask / mask.sum(-1, keepdim=True).clamp(min=1) for mask in masks]
    swaps = [{"L1H2": each.flatten().tolist()} for each in even]
    assert sum(int((~mask.any(-1)).sum()) for mask in masks) > 100
    for ids, mask, ours in zip(sequences, masks, in_page(page, model, sequences, swaps), strict=True):
        with reinforced(model, [(1, 2)], mask, 1.0):
            assert_equal(ours, model, ids)


def test_what_it_cannot_compute_it_says(page):
    model = build()
    said = page.evaluate(
        """([config, packed]) => {
          const weights = unpackedWeights(packed);
          const said = (work) => { try { work(); } catch (error) { return error.message; } return ""; };
          const model = new Transformer(config, weights), { "layers.1.up.bias": lost, ...others } = weights;
          return [() => new Transformer({ ...config, positions: "rotary" }, weights),
            () => new Transformer({ ...config, rotary: true }, weights),
            () => new Transformer(config, others), () => model.read(Array(31).fill(1)),
            () => model.read([11]), () => model.read([1], { L2H0: "even" })].map(said);
        }""",
        [config_of(model), packed(model)],
    )
    assert said == [
        'this page cannot compute positions "rotary", only sinusoidal, learned, none',
        "this page knows no setting rotary of a model",
        "layers.1.up.bias must hold 48 numbers; got none",
        "there are 31 tokens, and this model reads at most 30",
        "there is no token 11",
        "no head is called L2H0",
    ]


# ---- tasks


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


CASES = [(name, 10, bos) for name in rasp.LANGUAGES for bos in (False, True)]
CASES += [("sort", 100, True)]  # order by code points shows in 100


@pytest.mark.parametrize(("name", "size", "bos"), CASES)
def test_a_language_is_that_of_python(page, name, size, bos):
    lang = rasp.language(name, size, bos)
    texts = lang.decode(lang.sequences(20, seed=size, max_length=40))
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


# ---- both: models that are shown


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_stored_models_give_in_the_page_what_they_give_in_torch(page, chapter):
    """Ten sequences each, in double precision: torch's single precision is off by up to 3e-4 (reverse)."""
    widget, worst = ModelExplorer(shown(chapter)), 0.0
    for index, kept in enumerate(stored_models(chapter).values()):
        batch, exact = kept.tests[0], copy.deepcopy(kept.model).double()
        some = zip(batch.input_ids[:10], batch.attention_mask[:10], strict=True)
        rows = [ids[real] for ids, real in some]
        state = {"items": widget.items, "weights": base64.b64encode(widget.weights).decode()}
        found = page.evaluate(
            """([state, index, rows]) => {
              const bytes = Uint8Array.from(atob(state.weights), (letter) => letter.charCodeAt(0));
              const model = unpackModel({ get: (name) => (name === "weights" ? bytes : state[name]) }, index);
              return rows.map((ids) => Object.values(model.read(ids)).map((values) => [...values]));
            }""",
            [state, index, [row.tolist() for row in rows]],
        )
        for ids, ours in zip(rows, found, strict=True):
            with torch.no_grad():
                read = exact(ids[None], output_attentions=True)
            for here, there in zip(ours, (read.logits, read.attentions), strict=True):
                worst = max(worst, float((torch.tensor(here) - there.flatten()).abs().max()))
    assert worst < 1e-4


SWAP = """([state, texts]) => {
  const weights = Uint8Array.from(atob(state.weights), (letter) => letter.charCodeAt(0));
  const { task: told, config } = state.items[0], task = taskOf(told, config);
  const model = unpackModel({ get: (name) => (name === "weights" ? weights : state[name]) }, 0);
  return texts.map((text) => Object.entries(task.targets(text)).map(([head, mask]) => {
    const ids = task.ids(text), own = { [head]: evenly(mask, ids.length) };
    const { logits, attentions } = model.read(ids, own);
    return [head, ...[logits, attentions].map((values) => [...values])];
  }));
}"""


def made(task):
    """A model of the size that the language asks for, untrained."""
    torch.manual_seed(1)
    n_layers, n_heads = task.size
    sizes = {"n_layers": n_layers, "n_heads": n_heads, "width": 16, "max_length": 31}
    return Transformer(TransformerConfig(len(task.tokenizer), len(task.classes), **sizes)).eval()


@pytest.mark.parametrize(("name", "bos"), [("sort", False), ("hist", True)])
def test_a_head_with_the_programs_attention_does_what_it_does_in_python(page, name, bos):
    """Where the program selects nothing, such as at a first symbol in hist2 without BOS, it keeps its own."""
    task = rasp.language(name, 10, bos)
    widget = ModelExplorer({name: {"model": made(task), "task": task, "texts": ["cabbage"]}})
    model, empty = copy.deepcopy(made(task)).double(), 0
    texts = task.decode(task.sequences(20, max_length=30))
    state = {"items": widget.items, "weights": base64.b64encode(widget.weights).decode()}
    for text, found in zip(texts, page.evaluate(SWAP, [state, texts]), strict=True):
        sample = task.annotate(text)
        n = len(sample.input_ids)
        assert len(found) == len(sample.target_attention)
        for (head, mask), (called, logits, attentions) in zip(
            sample.target_attention.items(), found, strict=True
        ):
            with torch.no_grad(), reinforced(model, [head], mask[None], 1.0):
                there = model(sample.input_ids[None]).logits.float()
            torch.testing.assert_close(
                torch.tensor(logits, dtype=torch.float32).view(1, n, -1), there, atol=1e-4, rtol=0
            )
            rows = torch.tensor(attentions, dtype=torch.float32).view(*task.size, n, n)[head]
            torch.testing.assert_close(rows.sum(-1), torch.ones(n))
            assert called == "L{}H{}".format(*head)
            empty += int((~mask.any(-1)).sum())
    assert bool(empty) == (not bos)

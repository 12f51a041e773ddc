"""The page's own transformer against torch: every form of the model, with heads as they are and changed."""

import base64
import itertools
from functools import partial

import pytest
import torch
from torch import nn

from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import changing, heads_ablated, reinforced
from attnlib.models.attention.call import Affine
from attnlib.models.base import config_of
from attnlib.widgets.front_end import front_end

pytestmark = pytest.mark.book

VOCABULARY, CLASSES, LONGEST = 11, 7, 30

UNPACK = """const unpack = (packed) => Object.fromEntries(Object.entries(packed).map(([name, text]) =>
  [name, new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer)]));"""

READ = """({ config, packed, sequences, swaps }) => {
  const weights = unpack(packed);
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
def page(browser):
    script, _ = front_end("transformer.js")
    page = browser.new_page()
    page.add_script_tag(
        content=f'"use strict";\n{script}\n{UNPACK}\nObject.assign(window, {{ Transformer, unpack }});'
    )
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


def drawn(count=LONGEST, seed=1):
    """Sequences of every length from 1 on."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [1 + i % LONGEST for i in range(count)]
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
    *itertools.product(("pre", "post"), ("relu", "gelu"), (False, True), ("sinusoidal", "learned", "none"))
]


@pytest.mark.parametrize(("norm", "activation", "causal", "positions"), FORMS)
def test_it_gives_what_torch_gives(page, norm, activation, causal, positions):
    model = build(norm=norm, activation=activation, causal=causal, positions=positions)
    sequences = drawn()
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
          const weights = unpack(packed);
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

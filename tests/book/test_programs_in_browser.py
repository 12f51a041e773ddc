"""Heads with a program's attention in place of their own, as in Python; and models that cannot be shown."""

import base64
import copy

import pytest
import torch

from attnlib.generators import rasp
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import reinforced
from attnlib.widgets import ModelExplorer
from attnlib.widgets.front_end import front_end
from attnlib.widgets.static import EXPORT

pytestmark = pytest.mark.book

PROGRAMMED = [name for name, definition in rasp.LANGUAGES.items() if definition.heads]

EMPTY = {("hist2", False), ("sort", False), ("sort_by_freq", False)}
"""Where a head selects nothing in some rows: with a token at the beginning, it looks there."""

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


def explorer(*names, bos=True):
    tasks = {name: rasp.language(name, 10, bos) for name in names}
    return ModelExplorer(
        {name: {"model": made(task), "task": task, "texts": ["cabbage"]} for name, task in tasks.items()}
    )


@pytest.fixture(scope="module")
def page(browser):
    script = EXPORT.sub("", front_end("model_explorer.js")[0])
    page = browser.new_page()
    names = "{ taskOf, unpackModel, evenly }"
    page.add_script_tag(content=f'"use strict";\n{script}\nObject.assign(window, {names});')
    yield page
    page.close()


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("name", PROGRAMMED)
def test_a_head_with_the_programs_attention_does_what_it_does_in_python(page, name, bos):
    """Where the program selects nothing, such as at a first symbol in hist2 without BOS, it keeps its own."""
    widget, task = explorer(name, bos=bos), rasp.language(name, 10, bos)
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
    assert bool(empty) == ((name, bos) in EMPTY)


def test_a_row_without_a_key_shows_the_heads_own_attention(opened):
    page, readout = opened(explorer("sort", bos=False)), []
    for swap in ("own", "program"):
        page.get_by_label("Attention of the chosen head").select_option(swap)
        page.locator("button.attnx-token").nth(1).hover()  # the smallest symbol, before which none stands
        readout.append(page.locator(".attnx-readout").inner_text().partition(" It writes")[0])
    assert not rasp.language("sort", 10).target_attention("cabbage")[0, 0][1].any()
    assert readout[0] == readout[1]
    assert page.locator(".attno-said").inner_text().startswith("With L0H0 the program's: ")


# ---- models that cannot be shown


CANNOT = {
    "another version": (
        "state.items[0].config.rotary = true",
        "this page knows no setting rotary of a model",
    ),
    "another language": (
        'state.items[0].task.program = "shuffle"',
        'this page knows no language "shuffle", only reverse, hist, ',
    ),
    "another task": (
        'state.items[0].task.kind = "chess"',
        'this page knows no task "chess", only language, arithmetic',
    ),
    "other weights": (
        'state.items[0].tensors[0][0] = "embeddings"',
        "embedding.weight must hold 224 numbers; got none",
    ),
}
WHAT_TO_DO = "Make this page again, model and page by one version of attnlib"
UNPACKED = "for (const [name, value] of Object.entries(state)) {"


def changed(widget, change):
    """The widget's page; before it is drawn, its state is changed."""
    page = widget.to_html()
    assert page.count(UNPACKED) == 1
    return page.replace(UNPACKED, f"{change};\n{UNPACKED}")


@pytest.mark.parametrize(("change", "message"), CANNOT.values(), ids=CANNOT)
def test_a_model_that_cannot_be_shown_says_why(opened, change, message):
    page = opened(changed(explorer("sort"), change))
    said = page.locator("[role=alert]").inner_text()
    assert said.startswith(f"The model sort cannot be computed: {message}")
    assert said.endswith(f". {WHAT_TO_DO}.") and "\n" not in said


def test_another_model_stays_usable(opened):
    change = CANNOT["another version"][0].replace("[0]", "[1]")
    page = opened(changed(explorer("sort", "reverse"), change))
    model, box = page.get_by_label("Model", exact=True), page.locator("input[type=text]")
    model.select_option("reverse")
    said = page.locator("[role=alert]").inner_text()
    assert said.startswith("The model reverse cannot be computed: this page knows no setting rotary")
    assert said.endswith(f"{WHAT_TO_DO}, or choose another model.")
    box.fill("bad")
    assert page.locator("[role=alert]").inner_text() == said
    model.select_option("sort")
    assert page.locator("[role=alert]").is_hidden()
    assert page.locator("button.attnx-token").all_inner_texts() == ["<bos>", "b", "a", "d"]

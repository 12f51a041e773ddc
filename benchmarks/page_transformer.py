"""How fast the page computes each stored model: its own module, and the same as one would write it first.

    python benchmarks/page_transformer.py [--record]

In headless Chromium (`$CHROMIUM`, or /usr/bin/chromium), on 30 tokens (of the sums, as many as there can be),
with the attention of every head. "Plain" (page_transformer.js) has a list for every token; the benchmark
first checks that both give the same logits. Both take turns, and the best of each counts; a turn is timed by
the page's clock, which is not that of the processor. torch takes the same sequence on one thread, with
attention.
"""

from __future__ import annotations

import base64
import time
from pathlib import Path

import torch
from playwright.sync_api import Page
from timing import Line, common_options, open_browser, report

from attnlib.generators.rasp import Language
from attnlib.models.stored import StoredModel, stored_models
from attnlib.widgets import ModelExplorer
from attnlib.widgets.front_end import front_end
from book.chapters.trying import texts_for

CHAPTERS = ("rasp_languages", "arithmetic_lens")
TOKENS, TURNS = 30, 60

TIME = """([state, ids, turns]) => {
  const bytes = Uint8Array.from(atob(state.weights), (letter) => letter.charCodeAt(0));
  const traits = { get: (name) => (name === "weights" ? bytes : state[name]) };
  const model = unpackModel(traits, 0), weights = unpackWeights(traits, 0), { config, positions } = model;
  const plain = () => plainly(config, weights, positions, ids).flat();
  const ways = { ours: () => model.read(ids).logits, plain };
  const apart = Math.max(...ways.plain().map((value, i) => Math.abs(value - ways.ours()[i])));
  const best = { ours: Infinity, plain: Infinity };
  for (let turn = 0; turn < turns; turn++) {
    for (const [name, count] of [["ours", 5], ["plain", 1]]) {
      const start = performance.now();
      for (let i = 0; i < count; i++) ways[name]();
      best[name] = Math.min(best[name], (performance.now() - start) / count);
    }
  }
  return { apart, ...best };
}"""
SHARED = "Object.assign(window, { unpackModel, unpackWeights, plainly });"


def ids_of(kept: StoredModel) -> list[int]:
    """The first test sequence as long as can be, up to `TOKENS`."""
    rows = [ids[real] for b in kept.tests for ids, real in zip(b.input_ids, b.attention_mask, strict=True)]
    return max((row for row in rows if len(row) <= TOKENS), key=len).tolist()


@torch.no_grad()
def torch_ms(kept: StoredModel, ids: list[int]) -> float:
    """Milliseconds of one reading by torch, attention included: the best turn."""
    batch, turns = torch.tensor([ids]), []
    for _ in range(TURNS):
        start = time.perf_counter()
        kept.model(batch, output_attentions=True)
        turns.append(1000 * (time.perf_counter() - start))
    return min(turns)


def line_of(page: Page, kept: StoredModel) -> Line:
    """One model's line of the table."""
    text, name = texts_for(kept)[0] if isinstance(kept.task, Language) else "5+7", kept.name
    packed = ModelExplorer({name: {"model": kept.model, "task": kept.task, "texts": [text]}})
    state = {"items": packed.items, "weights": base64.b64encode(packed.weights).decode()}
    ids, config = ids_of(kept), kept.model.config
    found = page.evaluate(TIME, [state, ids, TURNS])
    if found["apart"] > 1e-3:
        raise AssertionError(f"the plain way gives other logits for {name}: {found['apart']:.2g} apart")
    sizes = f"{config.n_layers} x {config.n_heads} heads, width {config.width}"
    return {
        "what": f"{name} ({sizes}), {len(ids)} tokens",
        "ms": found["ours"],
        "per second": 1000 / found["ours"],
        "the plain way, per second": 1000 / found["plain"],
        "times the plain way": found["plain"] / found["ours"],
        "ms in torch": torch_ms(kept, ids),
    }


def main() -> None:
    """Print milliseconds, and the ratio."""
    options = common_options(__doc__).parse_args()
    torch.set_num_threads(1)
    script, _ = front_end("model_weights.js")
    plain = Path(__file__).with_suffix(".js").read_text()
    with open_browser() as browser:
        page = browser.new_page()
        page.add_script_tag(content=f'"use strict";\n{script}\n{plain}\n{SHARED}')
        lines = [line_of(page, kept) for chapter in CHAPTERS for kept in stored_models(chapter).values()]
    report("page_transformer", lines, options.record)


if __name__ == "__main__":
    main()

"""Cost of every attribution method, in units of a plain forward call of a real language model.

    python benchmarks/measures.py [--record]                # ten minutes of one thread
    python benchmarks/measures.py [--record] --parts look   # one minute

The model is SmolLM2-135M-Instruct, with a prompt of 128 tokens and one prediction at its end. The unit is the
usual call `model(ids)`, with logits at every position. (The unit of `attnlib.benchmarking.costs`, a pass with
logits at the last position only, costs less and has a row of its own.) The plain call and each method take
turns. Maximum flow on 30 layers takes minutes, and is left out.

The part `look` measures the wait of a reader who types another prompt: all methods that only use attention,
computed together on 200 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from timing import common_options, shown, write_machine, write_table
from torch import Tensor
from torch.nn import Module

from attnlib.attribution.prompts import Method
from attnlib.attribution.registry import METHODS, attributions
from attnlib.benchmarking.costs import FORWARD, cost_table
from attnlib.models.pretrained import load_language_model
from book.chapters.later import MEASURES as LATER

TOKENS = 128
PLAIN, LAST = "the plain call", "a pass with scores at the end only"
LEFT_OUT = ("flow", *LATER)
WATCHING = [*METHODS][: [*METHODS].index("flow")]
"""Methods that only use attention, and share one forward pass when they are computed together."""

TOGETHER, LOOK_TOKENS = f"the {len(WATCHING)} that only watch attention, together", 200
TEXT = "The keeper of the lighthouse had two daughters, and each of them wanted to see the world. "


@torch.no_grad()
def plain_call(model: Module, input_ids: Tensor, **_: object) -> Tensor:
    """A plain call with the signature of a method; what it returns are not attributions."""
    return model(input_ids).logits[..., 0]


def together(model: Module, input_ids: Tensor, query: int = -1, **_: object) -> Tensor:
    """All methods that only use attention, with the signature of a single method."""
    return attributions(model, input_ids, WATCHING, query=query)["rollout"]


def measured(name: str, tokens: int, methods: Mapping[str, Method], record: bool) -> None:
    """Print time and matrix products of methods relative to the plain call, and memory; `record` a table."""
    model, tokenizer = load_language_model(device="cpu")
    ids = tokenizer(TEXT * tokens, return_tensors="pt")["input_ids"]
    prompt, other = ids[:, :tokens], ids[:, 1 : tokens + 1]  # a counterfactual that differs in every token
    asked = {PLAIN: plain_call, **methods}
    table = cost_table(model, prompt, asked, counterfactual=other).set_index("method")
    if missing := table.index[table["seconds"].isna()].tolist():
        raise SystemExit(f"not measured: {missing}")
    of_plain = table[["seconds", "passes"]] / table.loc[PLAIN, ["seconds", "passes"]]
    table = table.assign(**of_plain).rename(index={FORWARD: LAST})
    table = table.loc[[PLAIN, LAST, *methods]].reset_index()
    columns = {"seconds": "times the first", "passes": "products, times", "megabytes": "peak MB"}
    table = table[["method", *columns]].rename(columns=columns)
    for column in columns.values():
        table[column] = [shown(value) for value in table[column]]
    print(table.to_string(index=False))
    if record:
        write_table(table, name)
        write_machine(name)


def main() -> None:
    """Measure the requested parts."""
    parts = {
        "measures": (TOKENS, {name: METHODS[name] for name in METHODS if name not in LEFT_OUT}),
        "look": (LOOK_TOKENS, {TOGETHER: together}),
    }
    parser = common_options(__doc__)
    parser.add_argument("--parts", nargs="+", choices=[*parts], default=[*parts])
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.parts:
        measured(name, *parts[name], options.record)


if __name__ == "__main__":
    main()

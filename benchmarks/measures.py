"""What every measure of what a prediction drew on costs, in plain calls of a real language model.

    python benchmarks/measures.py [--record]                # ten minutes of one thread
    python benchmarks/measures.py [--record] --parts look   # one minute

SmolLM2-135M-Instruct, a prompt of 128 tokens, one prediction at its end. The unit is what a reader would
call: `model(ids)`, with scores of the next token at every position.
(`attnlib.benchmarking.costs` counts in passes with scores at the last position only, which
cost less: they are a line of their own.) The plain call and each measure take turns. Maximum flow on 30
layers takes minutes, and is left out.

The part `look` is what a reader waits for who types another prompt: all measures that only watch attention,
of 200 tokens, asked together.
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
"""Those that only watch attention, and share a pass where they are asked together."""

TOGETHER, LOOK_TOKENS = f"the {len(WATCHING)} that only watch attention, together", 200
TEXT = "The keeper of the lighthouse had two daughters, and each of them wanted to see the world. "


@torch.no_grad()
def plain_call(model: Module, input_ids: Tensor, **_: object) -> Tensor:
    """A plain call, in the form of a measure: its scores are no scores of one."""
    return model(input_ids).logits[..., 0]


def together(model: Module, input_ids: Tensor, query: int = -1, **_: object) -> Tensor:
    """All that only watch attention, in the form of one measure."""
    return attributions(model, input_ids, WATCHING, query=query)["rollout"]


def measured(name: str, tokens: int, methods: Mapping[str, Method], record: bool) -> None:
    """Print time, products of matrices and memory of measures, over the plain call's; `record` a table."""
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
    """Measure the parts that are asked for."""
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

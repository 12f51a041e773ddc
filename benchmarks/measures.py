"""What every measure of what a prediction drew on costs, in plain calls of a real language model.

    python benchmarks/measures.py [--record]      # ten minutes of one thread

SmolLM2-135M-Instruct, a prompt of 128 tokens, one prediction at its end. The unit is what a reader would
call: `model(ids)`, with scores of the next token at every position. (`book.chapters.tells.costs` counts in
passes with scores at the last position only, which cost less: they are a line of their own.) The plain call
and each measure take turns. Maximum flow on 30 layers takes minutes, and is left out.
"""

from __future__ import annotations

import torch
from timing import common_options, shown, write_machine, write_table
from torch import Tensor
from torch.nn import Module

from attnlib.attribution.registry import METHODS
from attnlib.models.pretrained import load_language_model
from book.chapters.tells.costs import FORWARD, cost_table

TOKENS = 128
PLAIN, LAST = "the plain call", "a pass with scores at the end only"
LEFT_OUT = ("flow",)
TEXT = "The keeper of the lighthouse had two daughters, and each of them wanted to see the world. "


@torch.no_grad()
def plain_call(model: Module, input_ids: Tensor, **_: object) -> Tensor:
    """A plain call, in the form of a measure: its scores are no scores of one."""
    return model(input_ids).logits[..., 0]


def main() -> None:
    """Print time, products of matrices and memory of every measure, over the plain call's."""
    options = common_options(__doc__).parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load_language_model(device="cpu")
    ids = tokenizer(TEXT * TOKENS, return_tensors="pt")["input_ids"]
    prompt, other = ids[:, :TOKENS], ids[:, 1 : TOKENS + 1]  # a counterfactual that differs in every token
    methods = {PLAIN: plain_call} | {name: METHODS[name] for name in METHODS if name not in LEFT_OUT}
    table = cost_table(model, prompt, methods, counterfactual=other).set_index("method")
    if missing := table.index[table["seconds"].isna()].tolist():
        raise SystemExit(f"not measured: {missing}")
    of_plain = table[["seconds", "passes"]] / table.loc[PLAIN, ["seconds", "passes"]]
    table = table.assign(**of_plain).rename(index={FORWARD: LAST})
    table = table.loc[[PLAIN, LAST, *(name for name in methods if name != PLAIN)]].reset_index()
    columns = {"seconds": "times the first", "passes": "products, times", "megabytes": "peak MB"}
    table = table[["method", *columns]].rename(columns=columns)
    for column in columns.values():
        table[column] = [shown(value) for value in table[column]]
    print(table.to_string(index=False))
    if options.record:
        write_table(table, "measures")
        write_machine("measures")


if __name__ == "__main__":
    main()

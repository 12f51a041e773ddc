"""The pages on performance: a summary in eight lines, remaining costs, and charts, all made from tables."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from attnlib.plots.drawing import Drawing, Drawn, drawing
from attnlib.plots.panels import finished, in_words, legend_of, looks, row_of_panels
from attnlib.plots.themes import colour

from .drawn import write_drawing

FIGURE = """\
```{{figure}} /book/_front/speed-{file}.svg
:name: speed-{file}
:alt: {alt}

{caption}
```"""

SUMMARY = """\
```{{table}} Performance in eight lines. Ratios are of processor time; on the GPU, of wall-clock time.
:name: speed-summary

| task | attnlib | alternative | numbers |
|---|---|---|---|
{rows}
```"""

LONGEST_HEADS = 5 * 8
"""Heads in all layers of the model in the table of the longest context; each has a float32 matrix."""

TIMES, BEFORE, MIB = "times the first", "before", "peak MiB"
WORDS = "steps of the attention classifier, 10 to 30 words"


def read(stage: Path, name: str) -> pd.DataFrame:
    """A table in `book/performance`, by its name."""
    return pd.read_csv(stage / f"book/performance/{name}.csv", na_values="–")


def ratio(table: pd.DataFrame, *cells: Any) -> float:
    """The last ratio (column "times ...") in the one row that contains these cells."""
    for cell in cells:
        table = table[table.eq(cell).any(axis=1)]
    (found,) = table[[column for column in table if str(column).startswith("times ")][-1]]
    return float(found)


def summary(stage: Path) -> str:
    """The table that opens the page: eight lines, every number read from the table that the line names."""

    def times(name: str, *cells: Any) -> str:
        return f"{ratio(read(stage, name), *cells):.3g} times"

    def span(name: str) -> str:
        ratios = read(stage, name)["times the original"]
        return f"{ratios.min():.2g} to {ratios.max():.2g} times as fast"

    ours, eager = "rollout_of, 64 keys", "eager + rollout"
    most = read(stage, "forward").query("method == @eager")["tokens"].max()
    longest = read(stage, "longest_context").iloc[-1]
    matrices = LONGEST_HEADS * longest["tokens"] ** 2 * 4 / 1e12
    live = read(stage, "live")
    (word,) = live[live["what"].str.startswith("a further word")].to_dict("records")
    lines = {
        "forward": (
            "Rollout of 64 keys over 4,096 tokens, CPU",
            f"{times('forward', 4096, ours)} a forward pass",
            f"{times('forward', most, eager)} with eager attention, at {most:,} tokens",
        ),
        "longest-context": (
            f"Memory for rollout of 64 keys over {longest['tokens']:,} tokens",
            f"{longest[f'{ours}, MiB']:.0f} MiB",
            f"{matrices:.2g} TB for the attention matrices",
        ),
        "generation": (
            "Rollout while generating 64 tokens, CPU",
            f"{times('generation', 'generate_with_rollout')} plain generation",
            f"{times('generation', 'naive')} with a new forward pass per token",
        ),
        "forward-gpu": (
            "Rollout of 64 keys over 4,096 tokens, GPU",
            f"{times('forward_gpu', 4096, ours)} a forward pass",
            f"{times('forward_gpu', 4096, eager)} with eager attention",
        ),
        "measures": (
            "Attribution of one prediction to 128 tokens",
            f"AttnLRP: {times('measures', 'AttnLRP')} a forward pass",
            f"occlusion: {times('measures', 'blank-out')} a forward pass",
        ),
        "rasp-sampling": ("Samples of RASP languages", span("rasp_sampling"), "code of the study"),
        "rasp-training": ("Training on RASP languages", span("rasp_training"), "code of the study"),
        "live": (
            "A language model in the browser",
            f"{word['here, by the clock'].split()[0]} tokens per second",
            f"{1 / float(word['processor seconds in Python']):.3g} in PyTorch, one thread",
        ),
    }
    rows = [f"| {' | '.join(cells)} | {{numref}}`speed-table-{name}` |" for name, cells in lines.items()]
    return SUMMARY.format(rows="\n".join(rows))


def bounds(stage: Path) -> str:
    """The remaining costs and what causes them, as a list in MyST; every ratio is read from its table."""

    def times(name: str, *cells: Any) -> str:
        return f"{ratio(read(stage, name), *cells):.3g} times"

    longest = read(stage, "longest_context").iloc[-1]
    return f"""\
- **Rollout.** Rollout of 64 keys over 4,096 tokens costs {times("forward", 4096, "rollout_of, 64 keys")} a
  plain pass, and rollout of all keys {times("forward", 4096, "rollout_of, all keys")}. In heads of only 8
  channels it costs {longest["times the plain pass"]:.3g} times at {longest["tokens"]:,.0f} tokens, because
  the scores of 128 queries and all keys no longer fit into the cache.
- **Generation.** 64 tokens generated with the whole matrix cost
  {times("generation", "generate_with_rollout")} plain generation. The overhead is
  Python code that collects queries in 512 short calls of attention.
- **Attribution.** Integrated gradients ({times("measures", "integrated gradients")} a plain call) take 20
  forward and backward passes. Occlusion ({times("measures", "blank-out")}), AtMan and activation patching
  perturb each token separately, and compute the rest of the text again. Value zeroing
  ({times("measures", "value zeroing")}) computes one feed-forward block for every pair of tokens.
- **Dyck samples.** They are drawn {times("rasp_sampling", "dyck2_ptf")} as fast as by the original code, less
  than other languages gain. A third of the time draws random numbers, which could not change without changing
  the texts. Another third makes batches, which the original's time does not include.
- **Training.** Training on RASP languages is {times("rasp_training", "sort, float32")} as fast as the
  original (in bf16 {times("rasp_training", "sort, bf16")}), and training the addition model
  {times("lens_training", "sums, right tokens only, float32")}. Most of a step is matrix products on tokens
  that are not padding. Training a classifier on short texts is {times("classifier_training", WORDS)} as
  fast as with a packed LSTM; most of such a step is PyTorch's own LSTM kernel."""


def chart(name: str, stage: Path) -> str:
    """Write the chart of a table as SVG for light and dark pages; return the MyST that shows the chart."""
    draw, caption = CHARTS[name]
    drawn = draw(read(stage, name))
    write_drawing(drawn, stage / f"book/_front/speed-{name}.svg")
    return FIGURE.format(file=name, alt=drawn.alt, caption=caption)


@drawing
def methods(table: pd.DataFrame) -> Drawn:
    """Processor time of each method at one size, as a multiple of the first method's time."""
    figure, (axis,) = row_of_panels(1, height=0.9 + 0.3 * len(table))
    look = next(looks())
    axis.scatter(table[TIMES], range(len(table)), color=look.colour, marker=look.shape, s=26)
    axis.axvline(1, color=colour("faint"), lw=0.8, ls=":")
    axis.grid(axis="both", alpha=0.3)
    axis.set(xscale="log", xlabel=f"time / {table['method'][0]}", ylim=(len(table) - 0.5, -0.5))
    axis.set_yticks(range(len(table)), table["method"])
    in_words(axis.xaxis)
    said = "; ".join(f"{row['method']} {row[TIMES]:.2f}" for _, row in table.iloc[1:].iterrows())
    return finished(figure), table, f"Times {table['method'][0]}: {said}."


@drawing
def over_tokens(table: pd.DataFrame) -> Drawn:
    """Time and memory of each method over the text's length; broken lines show an earlier version."""
    figure, (time, memory) = row_of_panels(2, height=3.4)
    said = []
    for (method, rows), look in zip(table.groupby("method", sort=False), looks(), strict=False):
        how: dict[str, Any] = {"marker": look.shape, "ms": 4, "color": look.colour, "label": str(method)}
        time.plot(rows["tokens"], rows[TIMES], **how)
        memory.plot(rows["tokens"], rows[MIB], **how)
        time.plot(rows["tokens"], rows[BEFORE], "--", color=look.colour)
        last = rows.iloc[-1]
        before = f" (before {last[BEFORE]:.2f})" if pd.notna(last[BEFORE]) else ""
        said.append(f"{method} {last[TIMES]:.2f}{before} at {last['tokens']:,} tokens")
    time.plot([], [], "--", color=colour("faint"), label="earlier version")
    sizes = sorted(set(table["tokens"]))
    for axis, label in ((time, "time / plain pass"), (memory, "peak memory, MiB")):
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.set(yscale="log", xlabel="tokens", ylabel=label)
        in_words(axis.yaxis)
    legend_of(figure)
    return finished(figure), table, f"Lines over tokens. Times the first: {'; '.join(said)}."


CHARTS: Mapping[str, tuple[Callable[[pd.DataFrame], Drawing], str]] = {
    "forward": (
        over_tokens,
        "Time as a multiple of a plain forward pass, and peak memory. Broken lines: an earlier version.",
    ),
    "measures": (
        methods,
        "Time of each attribution method as a multiple of a forward pass (dotted), on a logarithmic axis.",
    ),
}
"""By table: the function that draws it, and its caption."""

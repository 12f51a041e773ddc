"""The page on speed: what bounds what is left, in ratios read from its tables; charts of two of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from attnlib.plots.drawing import Drawing, Drawn, drawing
from attnlib.plots.panels import finished, in_words, looks, row_of_panels
from attnlib.plots.themes import colour

from .drawn import write_drawing

FIGURE = """\
```{{figure}} /book/_front/speed-{file}.svg
:name: speed-{file}
:alt: {alt}

{caption}
```"""

TIMES, BEFORE, MIB, RESIDENT = "times the first", "before", "peak MiB", "resident, MiB"
WORDS = "steps of the attention classifier, 10 to 30 words"


def read(stage: Path, name: str) -> pd.DataFrame:
    """A table of the page, by its name."""
    return pd.read_csv(stage / f"book/performance/{name}.csv", na_values="–")


def bounds(stage: Path) -> str:
    """What bounds what is left, as a list in MyST; every ratio is read from its table."""

    def times(name: str, *cells: Any) -> str:
        """The last ratio of the one row with these cells."""
        table = read(stage, name)
        for cell in cells:
            table = table[table.eq(cell).any(axis=1)]
        (ratio,) = table[[column for column in table if str(column).startswith("times ")][-1]]
        return f"{ratio:.3g} times"

    longest, built = read(stage, "longest_context").iloc[-1], read(stage, "building").iloc[-1]
    return f"""\
- Rollout of 64 keys in 4,096 tokens costs {times("forward", 4096, "rollout_of, 64 keys")} a plain pass, all
  of it {times("forward", 4096, "rollout_of, all keys")}. In heads as narrow as 8 channels it is
  {longest["times the plain pass"]:.3g} times at {longest["tokens"]:,.0f} tokens: the scores of 128 queries
  and all keys leave the cache, are passed over several times, and there is little arithmetic to do
  meanwhile.
- 64 tokens generated with the whole matrix cost {times("generation", "generate_with_rollout")} plain
  generation. What is added is Python: queries are collected in 512 calls of attention, each of which takes
  little time itself.
- Of the measures of what a prediction drew on, some are slow by what they ask. Integrated gradients
  ({times("measures", "integrated gradients")} a plain call) go forwards and backwards 20 times. Blank-out
  ({times("measures", "blank-out")}), AtMan and activation patching disturb every token by itself, and
  compute the rest of the text again from there: half of 128 passes. Value zeroing
  ({times("measures", "value zeroing")}) takes one feed-forward block for every pair of tokens, which is
  half of 128 passes of those.
- Dyck sequences are drawn {times("rasp_sampling", "dyck2_ptf")} as fast as by the original, where others
  are ten times as fast and more. A third of the time draws random numbers, a place for every insertion;
  drawn otherwise, they would give other texts, and no trained model would be found again. A third makes
  batches, which the original's time leaves out.
- Training on RASP languages is {times("rasp_training", "sort, float32")} as fast as the original (in bf16
  {times("rasp_training", "sort, bf16")}): three quarters of a step are products of matrices with tokens
  that are not padding. So is half of a step of the transformer that adds
  ({times("lens_training", "sums, right tokens only, float32")}); a fifth of it is dropout, and of texts of
  ten tokens only a tenth is padding.
- `make book` takes at least half of {built["seconds"]} seconds on two cores, and {built["of training"]} of
  them train the models that are compared with the records: to be done sooner, chapters would have to
  train less.
- Training a classifier on short texts is {times("classifier_training", WORDS)} as fast as with a packed
  LSTM: nearly four fifths of such a step is PyTorch's own kernel of an LSTM."""


def streamed(stage: Path) -> str:
    """What an hour of streaming did to memory, in a sentence."""
    table = pd.read_csv(stage / "book/performance/streaming.csv", thousands=",")
    first, before, last = table.iloc[0], table.iloc[-2], table.iloc[-1]
    return f"""\
One process streamed {last["texts"]:,.0f} texts, one after the other, {last["tokens"]:,.0f} tokens in all.
At most {first[RESIDENT]:,.0f} MiB of memory were resident in its first {first["minutes"]:.0f} minutes, and
{last[RESIDENT]:,.0f} MiB between minute {before["minutes"]:.0f} and its last, {last["minutes"]:.0f}."""


def chart(name: str, stage: Path) -> str:
    """The chart of one table, as SVG for light and for dark pages, and the lines that show it."""
    draw, caption = CHARTS[name]
    drawn = draw(read(stage, name))
    write_drawing(drawn, stage / f"book/_front/speed-{name}.svg")
    return FIGURE.format(file=name, alt=drawn.alt, caption=caption)


@drawing
def methods(table: pd.DataFrame) -> Drawn:
    """Processor time of each method as a multiple of that of the first, at one size."""
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
    """Time and memory of each method over the length of the text; broken lines are those of before."""
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
    time.plot([], [], "--", color=colour("faint"), label="the way of before")
    sizes = sorted(set(table["tokens"]))
    for axis, label in ((time, "time / plain pass"), (memory, "peak memory, MiB")):
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.set(yscale="log", xlabel="tokens", ylabel=label)
        in_words(axis.yaxis)
    handles = time.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    return finished(figure), table, f"Lines over tokens. Times the first: {'; '.join(said)}."


CHARTS: Mapping[str, tuple[Callable[[pd.DataFrame], Drawing], str]] = {
    "forward": (
        over_tokens,
        "Time as a multiple of the plain pass, and memory; broken, what rollout did before.",
    ),
    "measures": (methods, "Time as a multiple of a plain call (dotted), on a logarithmic axis."),
}
"""By table: what draws it, and what stands under it."""

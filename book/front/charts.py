"""A chart beside each table of the page on speed, drawn from the table's own file."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from attnlib.plots.drawing import Drawing, Drawn
from attnlib.plots.panels import BESIDE, finished, looks, row_of_panels
from attnlib.plots.themes import colour

from .drawn import write_drawing

FIGURE = """\
```{{figure}} /book/_front/speed-{file}.svg
:name: speed-{name}
:alt: {alt}

{caption}
```"""

OURS, TIMES, NOW, BEFORE, MIB = "attnlib", "times the first", "now", "before", "peak MiB"
PER_SECOND, SECONDS = "per second", "seconds"


def chart(name: str, stage: Path) -> str:
    """The chart of one table, as SVG for light and for dark pages, and the lines that show it."""
    draw, caption, command = CHARTS[name]
    table = pd.read_csv(stage / f"book/performance/{name}.csv", na_values="–")

    def drawn() -> Drawn:
        figure, words = draw(table)
        return figure, table, words

    drawing = Drawing(drawn)
    write_drawing(drawing, stage / f"book/_front/speed-{name}.svg")
    caption = f"{caption} Measured by `python benchmarks/{command}`."
    return FIGURE.format(name=name.replace("_", "-"), file=name, alt=drawing.alt, caption=caption)


def rates(table: pd.DataFrame) -> tuple[Figure, str]:
    """How many per second each way makes: a row per line of the table."""
    ways = {OURS: table[PER_SECOND]}
    ways |= {name.rsplit(", ", 1)[0]: table[name] for name in _in(table, PER_SECOND)}
    said = (f"{_range(table[f'times {way}'])} of {way}" for way in ways if way != OURS)
    return _dots(table["what"], ways, PER_SECOND), (
        f"A row per line of the table. attnlib makes so many times as many per second: {', '.join(said)}."
    )


def methods(table: pd.DataFrame) -> tuple[Figure, str]:
    """Processor time of each method as a multiple of that of the first, at one size."""
    ways = {NOW: table[TIMES]} | ({BEFORE: table[BEFORE]} if BEFORE in table else {})
    said = (f"{row['method']} {_now_and_before(row)}" for _, row in table.iloc[1:].iterrows())
    return _dots(table["method"], ways, TIMES), f"Times {table['method'][0]}: {'; '.join(said)}."


def milliseconds(table: pd.DataFrame) -> tuple[Figure, str]:
    """What a text costs in the page, in JavaScript as one would write it first, and in torch."""
    ways = {"in the page": table["ms"], "the plain way": 1000 / table["the plain way, per second"]}
    ways["torch"] = table["ms in torch"]
    said = ", ".join(f"{way} {_range(took)}" for way, took in ways.items())
    faster = f"{_range(table['times the plain way'])} times as fast as the plain way"
    return _dots(table["what"], ways, "milliseconds"), f"A row per model. Milliseconds: {said}; {faster}."


def seconds(table: pd.DataFrame) -> tuple[Figure, str]:
    """How long each line of a table takes."""
    said = "; ".join(f"{what} {took:g}" for what, took in zip(table["what"], table[SECONDS], strict=True))
    return _dots(table["what"], {OURS: table[SECONDS]}, SECONDS), f"Seconds: {said}."


def over_tokens(table: pd.DataFrame) -> tuple[Figure, str]:
    """Time and memory of each method over the length of the text; broken lines are those of before."""
    figure, (time, memory) = _two_panels()
    said = []
    for (method, rows), look in zip(table.groupby("method", sort=False), looks(), strict=False):
        how: dict[str, Any] = {"marker": look.shape, "ms": 4, "color": look.colour, "label": str(method)}
        time.plot(rows["tokens"], rows[TIMES], **how)
        memory.plot(rows["tokens"], rows[MIB], **how)
        if BEFORE in rows:
            time.plot(rows["tokens"], rows[BEFORE], "--", color=look.colour)
        last = rows.iloc[-1]
        said.append(f"{method} {_now_and_before(last)} at {last['tokens']:,} tokens")
    for axis, label in ((time, TIMES), (memory, MIB)):
        _doubling(axis, table["tokens"])
        axis.set(yscale="log", ylabel=label)
    _in_words(time.yaxis, table[TIMES])
    _in_words(memory.yaxis, table[MIB])
    _legend_below(time)
    return finished(figure), f"Lines over tokens. Times the first: {'; '.join(said)}."


def to_the_longest(table: pd.DataFrame) -> tuple[Figure, str]:
    """Seconds and memory of two passes over the length of the text, both on logarithmic axes.

    The first kind of processor has filled markers, others hollow ones.
    """
    figure, axes = _two_panels()
    for axis, unit, label in zip(
        axes, ("s", "MiB"), ("processor seconds", "extra MiB at the peak"), strict=True
    ):
        for kind, rows in table.groupby("instructions", sort=False):
            face = None if kind == table["instructions"].iloc[0] else "none"
            for column, look in zip(_in(table, unit), looks(), strict=False):
                way = f"{column.rsplit(', ', 1)[0]}, {kind}"
                how = {"color": look.colour, "ls": look.stroke, "marker": look.shape, "mfc": face, "ms": 4}
                axis.plot(rows["tokens"], rows[column], label=way, **how)
        _doubling(axis, table["tokens"])
        axis.set(yscale="log", ylabel=label)
        _in_words(axis.yaxis, table[_in(table, unit)])
    _legend_below(axes[0])
    last = table.iloc[-1]
    said = ", ".join(f"{column} {last[column]:,.0f}" for column in _in(table, "s") + _in(table, "MiB"))
    times = f"{last['times the plain pass']:.2f} times the plain pass"
    where = f"At {last['tokens']:,.0f} tokens ({last['instructions']})"
    return finished(figure), f"Lines over tokens. {where}: {said}; {times}."


def _in(table: pd.DataFrame, unit: str) -> list[str]:
    return [str(name) for name in table if str(name).endswith(f", {unit}")]


def _dots(rows: pd.Series, ways: Mapping[str, pd.Series], label: str) -> Figure:
    """A point per way in each row, on a logarithmic axis; a line from the least to the greatest."""
    figure, (axis,) = row_of_panels(1, height=0.9 + 0.3 * len(rows))
    values = pd.DataFrame(dict(ways))
    places = range(len(rows))
    axis.hlines(places, values.min(axis=1), values.max(axis=1), color=colour("faint"), lw=1, zorder=1)
    for (way, column), look in zip(ways.items(), looks(), strict=False):
        axis.scatter(column, places, color=look.colour, marker=look.shape, s=26, label=way, zorder=2)
    axis.set(xscale="log", xlabel=label, ylim=(len(rows) - 0.5, -0.5))
    axis.set_yticks(places, rows)
    _in_words(axis.xaxis, values)
    if len(ways) > 1:
        axis.legend(**BESIDE)
    return finished(figure)


def _doubling(axis: Axes, tokens: pd.Series) -> None:
    sizes = sorted(set(tokens))
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [f"{size:,}" if size < 10_000 else f"{size // 1024}k" for size in sizes])
    axis.set_xlabel("tokens")


def _in_words(axis: Axis, values: pd.DataFrame | pd.Series) -> None:
    """Numbers on a logarithmic axis as one writes them; within two powers of ten, 2 and 5 of each too."""
    numbers = values.to_numpy(float)
    least, most = np.nanmin(numbers), np.nanmax(numbers)
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 100 * least else (1,)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _two_panels() -> tuple[Figure, list[Axes]]:
    return row_of_panels(2, height=3.4)


def _legend_below(axis: Axes) -> None:
    """The legend of both panels, which have the same lines."""
    handles = axis.get_legend_handles_labels()
    axis.figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)


def _range(values: pd.Series) -> str:
    least, most = f"{values.min():.3g}", f"{values.max():.3g}"
    return least if least == most else f"{least} to {most}"


def _now_and_before(row: pd.Series) -> str:
    known = BEFORE in row and pd.notna(row[BEFORE])
    return f"{row[TIMES]:.2f}" + (f" (before {row[BEFORE]:.2f})" if known else "")


Chart = Callable[[pd.DataFrame], tuple[Figure, str]]
RATES = "Per second, on a logarithmic axis: more is faster."
ROLLOUT = "rollout.py --threads 1 --parts"

CHARTS: Mapping[str, tuple[Chart, str, str]] = {
    "forward": (
        over_tokens,
        "Time as a multiple of the plain pass, and memory; broken, as it was before.",
        f"{ROLLOUT} forward",
    ),
    "longest_context": (
        to_the_longest,
        "Time and memory of a pass, on logarithmic axes.",
        "longest_context.py",
    ),
    "dense": (over_tokens, "Time as a multiple of the first way, and memory.", f"{ROLLOUT} dense"),
    "head_weights": (rates, RATES, "head_weights.py"),
    "generation": (methods, "Time as a multiple of plain generation.", f"{ROLLOUT} generation"),
    "flow": (methods, "Time as a multiple of that of `attention_flow`.", f"{ROLLOUT} flow"),
    "rasp_sampling": (rates, RATES, "rasp_sampling.py"),
    "algorithmic_sampling": (rates, RATES, "algorithmic_sampling.py"),
    "reference_mass": (rates, RATES, "reference_mass.py"),
    "measures": (methods, "Time as a multiple of a plain call, on a logarithmic axis.", "measures.py"),
    "page_transformer": (
        milliseconds,
        "Milliseconds for a text, on a logarithmic axis: less is faster.",
        "page_transformer.py",
    ),
    "rasp_training": (rates, RATES, "rasp_training.py"),
    "classifier_training": (rates, RATES, "classifier_training.py"),
    "lens_training": (rates, RATES, "lens_training.py"),
    "translation_training": (rates, RATES, "translation_training.py"),
    "copying": (rates, RATES, "copying.py"),
    "copying_processes": (rates, RATES, "copying.py"),
    "copying_stacked": (rates, RATES, "copying.py"),
    "translation_beta": (rates, RATES, "translation_beta.py"),
    "agreement": (rates, RATES, "agreement.py"),
    "agreement_tables": (seconds, "Seconds, on a logarithmic axis: less is faster.", "agreement.py"),
}
"""By table: what draws it and says what is to be seen, what stands under it, and what measures it."""

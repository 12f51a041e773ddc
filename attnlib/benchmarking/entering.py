"""Benchmark a method of your own: its scores beside those of all others, as a table, a page and a file."""

from __future__ import annotations

import datetime
import html
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from attnlib.attribution.prompts import Method
from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.population import POPULATION, draw
from attnlib.benchmarking.questions import TRUTHS
from attnlib.benchmarking.scoring import (
    COMPARED,
    CONFIRMATION,
    Checked,
    differences,
    features,
    published,
    rows_of,
    summary,
    versions,
)
from attnlib.checks import check, check_one_of
from attnlib.files import write_atomically
from attnlib.stats import with_interval
from attnlib.stats.seeds import over_seeds
from attnlib.widgets.static import whole_page

SEEDS = range(CONFIRMATION.start, CONFIRMATION.start + 200)
"""The seeds of the programs on which a method is evaluated by default."""

REFERENCES = ("rollout", "gradient norm")
"""Methods that a new method is compared with, beside the best of the others."""

SHOWN = 5
"""How many programs the page shows at either end: furthest ahead of the best other method, and behind."""


@dataclass(frozen=True)
class Result:
    """The scores of a method beside those of all others.

    Attributes:
        name: the method's name.
        seeds: seeds of the requested programs; `programs` counts those with scores.
        rows: a score per program, for the method and the others (`attnlib.benchmarking.scoring.rows_of`).
        passes: forward passes of the model per question; a batch counts as one for each of its rows.
    """

    name: str
    seeds: range
    rows: pd.DataFrame
    passes: float

    @property
    def programs(self) -> int:
        """The number of programs on which the method has scores."""
        return int(self.rows.loc[self.rows["method"] == self.name, "seed"].nunique())

    @property
    def table(self) -> pd.DataFrame:
        """A row per method, the best by `reads` first: scores by both truths, with intervals over programs.

        Columns `method`; `reads` and `causes` (signs as the method gives them) with `_low`, `_high` and
        `_rank`; `reads, absolute` and `causes, absolute` of methods with negative scores; `n`, programs.
        """
        found = summary(self.rows)
        plain = found[found["sign"] == "as given"]
        parts: list[pd.DataFrame | pd.Series] = []
        for truth in TRUTHS:
            part = plain[plain["truth"] == truth].set_index("method")[["value", "low", "high", "rank", "n"]]
            names = {"value": truth, **{name: f"{truth}_{name}" for name in ("low", "high", "rank")}}
            parts.append(part.rename(columns=names).drop(columns=[] if truth == TRUTHS[0] else "n"))
            absolute = found[(found["sign"] == "absolute") & (found["truth"] == truth)].set_index("method")
            parts.append(absolute["value"].rename(f"{truth}, absolute"))
        return (
            pd.concat(parts, axis=1).rename_axis("method").sort_values("reads", ascending=False).reset_index()
        )

    @property
    def differences(self) -> pd.DataFrame:
        """The method minus `REFERENCES` and the best other one, by each truth, with Holm's correction.

        Columns as in `attnlib.benchmarking.scoring.differences`.
        """
        plain = self.rows[self.rows["sign"] == "as given"]
        tables = []
        for truth in TRUTHS:
            rows = plain[plain["truth"] == truth]
            others = summary(rows[rows["method"] != self.name])["method"]
            against = dict.fromkeys([*REFERENCES, *others[:1]])
            tables.append(differences(rows, [(self.name, other) for other in against if other != self.name]))
        return pd.concat(tables, ignore_index=True)

    @property
    def by_feature(self) -> pd.DataFrame:
        """The method's mean score by features of programs: layers, counting, causality, and each disguise.

        Columns `feature`, `of` (its value), `truth`, `value`, `low`, `high` and `n` (programs).
        """
        own = self.rows[(self.rows["method"] == self.name) & (self.rows["sign"] == "as given")]
        rows = own.merge(features(sorted(set(own["seed"]))), on="seed")
        rows["counting"] = rows["counts"] > 0
        found = []
        for feature in ("layers", "counting", "causal", "rotated", "split", "sink", "junk", "hard"):
            for (of, truth), part in rows.groupby([feature, "truth"]):
                found.append((feature, str(of), truth, *over_seeds(part["value"].to_numpy())))
        return pd.DataFrame(found, columns=["feature", "of", "truth", "value", "low", "high", "n"])

    def entry(self, path: str | Path) -> Path:
        """Write the method's scores as JSON, an entry of a leaderboard with its origin; returns the path."""
        own = self.rows[self.rows["method"] == self.name]
        told = {
            "method": self.name,
            "population": POPULATION,
            "seeds": f"{self.seeds.start}:{self.seeds.stop}",
            "programs": self.programs,
            "passes": round(self.passes, 2),
            "summary": records_of(summary(own).drop(columns="rank")),
            "differences": records_of(self.differences),
            "by feature": records_of(self.by_feature),
            "values": {
                f"{truth}, {sign}": dict(zip(part["seed"].tolist(), part["value"].tolist(), strict=True))
                for (truth, sign), part in own.groupby(["truth", "sign"], sort=False)
            },
            "versions": versions(),
            "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        write_atomically(Path(path), json.dumps(told).encode() + b"\n")
        return Path(path)

    def page(self, path: str | Path) -> Path:
        """Write a self-contained page: table, comparisons, best and worst programs; returns the path."""
        write_atomically(Path(path), whole_page(f"{self.name} on {POPULATION}", _page(self)).encode())
        return Path(path)

    def said(self) -> str:
        """The method's row and its comparisons, as text for a terminal."""
        (own,) = self.table[self.table["method"] == self.name].to_dict("records")
        lines = [
            f"{self.name}: {self.programs} programs of {POPULATION}, {self.passes:.1f} passes a question"
        ]
        for truth in TRUTHS:
            number = _score(own, truth)
            rank = f"rank {int(own[f'{truth}_rank'])} of {len(self.table)}"
            lines.append(f"  by {truth:6} {with_interval(number)}, {rank}")
        return "\n".join([*lines, *compared_in_words(self.differences)])


def benchmark(
    method: str | Method,
    seeds: Sequence[int] = SEEDS,
    *,
    name: str | None = None,
    progress: bool = True,
) -> Result:
    """Score an attribution method on programs whose sources are known, beside all other methods.

    Args:
        method: a name of `METHODS`, or a function `f(model, input_ids, attention_mask=None, query=-1,
            target=None, foil=None)` that returns a score per token, `[batch token]`; a function with the
            argument `counterfactual=None` receives it, too. The model is an attnlib `Transformer` in float64;
            prompts have one length.
        seeds: seeds of the programs, as a `range`. Seeds from 1000 on are test data: do not tune a method on
            them. For programs without recorded scores, the other methods run, too: seconds per program.
        name: the method's name in the results; by default the function's own name.
        progress: whether to show a bar, if there is a terminal.

    Raises:
        ValueError: there is no such method, or it has the name of another; there are no seeds; the method
            fails, returns no scores, changes the model, or is random without a seed of its own.
    """
    some = isinstance(seeds, range) and len(seeds) > 0
    check(some, "seeds must be a range of at least one program, such as range(1000, 1200)", seeds)
    if isinstance(method, str):
        check_one_of(METHODS, method=method)
    called = name or (method if isinstance(method, str) else str(getattr(method, "__name__", "my method")))
    own = Checked(METHODS[method] if isinstance(method, str) else method, called)
    others = [each for each in COMPARED if each != called]
    new = called == method or called not in METHODS
    check(new, "name must differ from those of the methods that are there (give name=...)", called)
    known = published(seeds)
    missing = sorted(set(seeds) - set(known["seed"]))
    bar = tqdm(
        total=len(seeds) + len(missing),
        unit="program",
        disable=None if progress else True,
        leave=False,
        file=sys.stderr,
    )
    with bar:
        rows = rows_of(seeds, {called: own}, tick=lambda _: bar.update())
        fresh = rows_of(missing, {each: METHODS[each] for each in others}, tick=lambda _: bar.update())
    if rows.empty:
        raise ValueError(f"seeds {seeds.start}:{seeds.stop} name no program with enough questions; name more")
    kinds = {**dict.fromkeys(("method", "truth", "sign"), str), "value": float}
    tables = [rows, known[known["method"].isin(others)].astype(kinds), fresh]
    both = pd.concat([each for each in tables if len(each)], ignore_index=True)
    return Result(called, seeds, both, own.passes / own.questions)


def records_of(table: pd.DataFrame) -> Any:
    """Rows as JSON can hold them, with six decimals; NaN becomes null."""
    return json.loads(table.to_json(orient="records", double_precision=6))


def _score(row: Mapping[Any, Any], truth: str) -> dict[str, Any]:
    """A method's score by one truth, with its interval, from a row of `Result.table`."""
    ends = {name: row[f"{truth}_{name}"] for name in ("low", "high")}
    return {"value": row[truth], **ends, "n": row["n"]}


def compared_in_words(table: pd.DataFrame) -> list[str]:
    """Rows of `differences` as lines for a terminal, and a line that explains their intervals."""
    lines = []
    for row in table.to_dict("records"):
        p = "p < .001" if row["p_holm"] < 0.001 else f"p = {row['p_holm']:.3f}"
        lines.append(f"  by {row['truth']:6} minus {row['second']}: {with_interval(row, signed=True)}, {p}")
    return [*lines, "Intervals: 95 % over programs; p of paired t-tests, with Holm's correction."]


def _page(result: Result) -> str:
    """The HTML body of `Result.page`."""
    table, shown = result.table, []
    for row in table.to_dict("records"):
        cells = [f"<th scope='row'>{html.escape(row['method'])}</th>"]
        for truth in TRUTHS:
            absolute = row.get(f"{truth}, absolute", math.nan)
            cells += [f"<td>{with_interval(_score(row, truth))}</td>", f"<td>{row[f'{truth}_rank']:.0f}</td>"]
            cells.append(f"<td>{'' if math.isnan(absolute) else f'{absolute:.2f}'}</td>")
        own = " style='font-weight: bold'" if row["method"] == result.name else ""
        shown.append(f"<tr{own}>{''.join(cells)}</tr>")
    heads = "".join(f"<th>{truth}</th><th>rank</th><th>{truth}, absolute</th>" for truth in TRUTHS)
    said = "".join(f"<p>{html.escape(line.strip())}</p>" for line in result.said().splitlines())
    return (
        f"<h1>{html.escape(result.name)}</h1>{said}<div style='overflow-x: auto'><table>"
        f"<thead><tr><th>method</th>{heads}</tr></thead><tbody>{''.join(shown)}</tbody></table></div>"
        f"<h2>By kind of program</h2>{_by_feature(result)}"
        f"<h2>Programs on which it is furthest ahead of the best other method, and furthest behind</h2>"
        f"{_examples(result)}"
    )


def _by_feature(result: Result) -> str:
    rows = "".join(
        f"<tr><td>{row['feature']}</td><td>{row['of']}</td><td>{row['truth']}</td><td>{with_interval(row)}</td>"
        f"<td>{row['n']:.0f}</td></tr>"
        for row in result.by_feature.to_dict("records")
    )
    heads = "<th>feature</th><th>value</th><th>truth</th><th>score</th><th>programs</th>"
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<div style='overflow-x: auto'>{table}</div>"


def _examples(result: Result) -> str:
    plain = result.rows[(result.rows["sign"] == "as given") & (result.rows["truth"] == "reads")]
    wide = plain.pivot(index="seed", columns="method", values="value")
    best = str(wide.drop(columns=result.name).mean().idxmax())
    ahead = (wide[result.name] - wide[best]).dropna().sort_values(ascending=False)
    parts = []
    for seed in dict.fromkeys([*map(int, ahead.index[:SHOWN]), *map(int, ahead.index[-SHOWN:])]):
        text = html.escape("\n".join(draw(seed).lines()))
        own, other = (float(wide[name].loc[seed]) for name in (result.name, best))
        scores = f"{own:.2f}, {html.escape(best)} {other:.2f}"
        parts.append(
            f"<h3>Seed {seed}: {scores} by reads</h3><pre style='white-space: pre-wrap'>{text}</pre>"
        )
    return "".join(parts)

"""The page on speed shows what the benchmarks recorded, and a ratio is one of the best turns."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from book.front.speed import CHARTS, bounds, chart, summary

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "book" / "performance_details.md").read_text()
TABLES = sorted((ROOT / "book" / "performance").glob("*.csv"))
OTHERS = ("the plain way", "the original", "as published")


def test_the_page_opens_with_eight_lines_of_its_tables():
    lines = [line.strip("| ").split(" | ") for line in summary(ROOT).splitlines() if "{numref}" in line]
    assert len(lines) == 8
    named = {re.findall(r"speed-table-([\w-]+)", line[-1])[0].replace("-", "_"): line for line in lines}
    assert set(named) <= {path.stem for path in TABLES}
    rows = pd.read_csv(ROOT / "book/performance/forward.csv").set_index(["tokens", "method"])[
        "times the first"
    ]
    assert f"{rows[4096, 'rollout_of, 64 keys']:.3g} times" in named["forward"][1]
    assert f"{rows[2048, 'eager + rollout']:.3g} times" in named["forward"][2]
    last = pd.read_csv(ROOT / "book/performance/longest_context.csv").iloc[-1]
    assert f"{last['rollout_of, 64 keys, MiB']:.0f} MiB" in named["longest_context"][1]
    ratios = pd.read_csv(ROOT / "book/performance/rasp_sampling.csv")["times the original"]
    assert f"{ratios.min():.2g} to {ratios.max():.2g} times" in named["rasp_sampling"][1]


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_says_what_is_in_its_table(name, tmp_path):
    shutil.copytree(ROOT / "book" / "performance", tmp_path / "book/performance")
    shown = chart(name, tmp_path)
    assert (tmp_path / f"book/_front/speed-{name}.svg").exists()
    (said,) = re.findall(r"^:alt: (.+)$", shown, re.MULTILINE)
    assert f"{pd.read_csv(ROOT / f'book/performance/{name}.csv')['times the first'].iloc[-1]:.2f}" in said


def test_a_ratio_in_the_text_is_that_of_its_table():
    table = pd.read_csv(ROOT / "book/performance/generation.csv", index_col="method")
    ratio = table.loc["generate_with_rollout", "times the first"]
    assert f"with the whole matrix cost {ratio:.3g} times plain generation" in " ".join(bounds(ROOT).split())


def test_what_is_said_of_a_gpu_is_its_tables():
    said = " ".join(PAGE.partition("### On a GPU")[2].partition("```")[0].split())
    rows = pd.read_csv(ROOT / "book/performance/forward_gpu.csv").set_index(["tokens", "method"]).loc[4096]
    for method in ("eager + rollout", "eager + as published", "rollout_of, 64 keys", "rollout_of, all keys"):
        assert f"{rows.loc[method, 'times the first']:.1f} times" in said, method
    for method in ("eager + rollout", "eager + as published", "rollout_of, all keys"):
        assert f"{rows.loc[method, 'peak MiB'] / 1024:.1f} GiB" in said, method
    written = " ".join(PAGE.partition("While generating after")[2].partition("```")[0].split())
    again = pd.read_csv(ROOT / "book/performance/generation_gpu.csv", index_col="method")["times the first"]
    for method, form in {
        "generate_with_rollout": "{:.1f} times",
        "stream_with_rollout": "{:.1f} times",
        "naive": "{:.1f} times",
    }.items():
        assert form.format(again[method]) in written, method
    assert rows.loc["rollout_of, 64 keys", "peak MiB"] < 1.05 * rows.loc["plain forward", "peak MiB"]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_recorded_table_is_whole_and_its_ratios_are_its_own(path):
    table = pd.read_csv(path)
    assert len(table) and table.notna().all(axis=None)
    for other in OTHERS:
        if f"times {other}" in table:
            ratios = table["per second"] / table[f"{other}, per second"]
            assert (ratios / table[f"times {other}"]).between(0.98, 1.02).all()  # three digits each

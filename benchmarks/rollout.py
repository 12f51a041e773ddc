"""Time and memory of rollout: each method of computing it against the others.

    python benchmarks/rollout.py --quick       # about 6 minutes on two CPU cores
    python benchmarks/rollout.py               # N = 256 ... 8192: about an hour
    python benchmarks/rollout.py --device cuda --parts forward generation --sizes 1024 4096 16384 --memory 16
    python benchmarks/rollout.py --parts forward --sizes 16384 65536 131072 --rounds 1   # a night

Every case runs in processes of its own, so that its peak memory can be measured: the highest resident set
size minus the size when model and inputs were ready. (On a GPU, where PyTorch counts the allocations of each
case, all run in this process, in a minute.) Methods that are compared take turns, and times are the best of
all their runs, which reduces the influence of other programs. (On a shared machine, use `--threads 1` and
processor time, cpu_seconds.) Ratios are to the first method of the same part and size. The script prints a
table and, with `--record`, writes the tables of the book.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
import time
from argparse import SUPPRESS
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import transformers
from timing import common_options, shown, write_machine, write_table
from torch import Tensor

from attnlib.models.attention import once
from attnlib.rollout import attention_flow, generate_with_rollout, rollout, rollout_of, stream_with_rollout

transformers.logging.set_verbosity_error()
LAYERS, HEADS, WIDTH, VOCABULARY, KEYS = 8, 8, 512, 8192, 64
PROMPT, NEW = 128, 64

BEFORE = "before: "
"""Prefix of the older version of a method, which forms attention twice; GPUs, for example, still use it."""

ROLLOUTS = ("rollout_of, 64 keys", "rollout_of, 8 rows", "rollout_of, all keys")
PARTS: dict[str, tuple[str, ...]] = {
    "forward": (
        "plain forward",
        *ROLLOUTS,
        *(BEFORE + each for each in ROLLOUTS),
        "eager + rollout",
        "eager + as published",
    ),
    "dense": ("head mean + bmm", "head mean + bmm, no residual", "rollout", "rollout, 1 row", "as published"),
    "generation": (
        "plain generate",
        "generate_with_rollout",
        BEFORE + "generate_with_rollout",
        "stream_with_rollout",
        "naive",
    ),
    "flow": ("attention_flow", "attention_flow, causal", "NetworkX", "NetworkX, causal"),
}
GIBIBYTE = 2**30


def cases(quick: bool, memory: float, sizes: list[int] | None) -> list[dict[str, Any]]:
    """The cases to run, without those whose attention matrices need more than `memory` GiB."""
    sizes = sizes or ([256, 1024, 4096] if quick else [256, 512, 1024, 2048, 4096, 8192])
    chosen = [
        {"part": part, "method": method, "n": n}
        for part, limit in (("forward", max(sizes)), ("dense", 1024 if quick else 2048))
        for n in sizes
        for method in PARTS[part]
        if n <= limit
    ]
    chosen += [{"part": "generation", "method": method, "n": PROMPT + NEW} for method in PARTS["generation"]]
    chosen += [{"part": "flow", "method": method, "n": 32, "quick": quick} for method in PARTS["flow"]]

    def fits(case: dict[str, Any]) -> bool:
        matrix = case["n"] ** 2 * 4 / GIBIBYTE
        if case["part"] == "dense" or "eager" in case["method"]:
            return 2.2 * LAYERS * HEADS * matrix <= memory
        return "all keys" not in case["method"] or 6 * matrix <= memory

    return [case for case in chosen if fits(case)]


def build(n: int, device: str) -> Any:
    """A model of ordinary proportions with random weights: time does not depend on them."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=1376, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=max(n, 256), eos_token_id=None,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval().to(device)


def as_published(attentions: Tensor, weights: Tensor | None = None) -> Tensor:
    """Rollout as in the study's code, with the same order of operations."""
    _, layers, heads, n, _ = attentions.shape
    if weights is None:
        weights = torch.full((layers, heads), 1 / heads, device=attentions.device)
    mixed = (attentions * weights[None, :, :, None, None]).sum(2) + torch.eye(n, device=attentions.device)
    mixed = mixed / mixed.sum(-1, keepdim=True)
    product = mixed[:, 0]
    for layer in range(1, layers):
        product = torch.bmm(mixed[:, layer], product)
    return product


def mean_and_bmm(attentions: Tensor) -> Tensor:
    """Rollout layer by layer, implemented directly from its definition."""
    identity = torch.eye(attentions.shape[-1], device=attentions.device)
    product = None
    for layer in attentions.unbind(1):
        mixed = layer.mean(1) + identity
        mixed = mixed / mixed.sum(-1, keepdim=True)
        product = mixed if product is None else torch.bmm(mixed, product)
    return product


def without_residual(attentions: Tensor) -> Tensor:
    """A part of rollout: no residual, no normalisation."""
    product = attentions[:, 0].mean(1)
    for layer in range(1, attentions.shape[1]):
        product = torch.bmm(attentions[:, layer].mean(1), product)
    return product


def naive_generation(model: Any, ids: Tensor) -> list[Tensor]:
    """The whole forward pass, with attention, for every generated token."""
    rows = []
    for _ in range(NEW):
        output = model(ids, output_attentions=True, use_cache=False)
        rows.append(rollout(output.attentions, cumulative=True)[:, :, -1, :PROMPT])
        ids = torch.cat([ids, output.logits[:, -1:].argmax(-1)], 1)
    return rows


def forward_work(method: str, n: int, device: str) -> Callable[[], Any]:
    """The call to time: one pass over `n` tokens."""
    model = build(n, device)
    ids = torch.randint(0, VOCABULARY, (1, n), device=device)
    if "eager" in method:
        model.set_attn_implementation("eager")
        follow = rollout if method == "eager + rollout" else lambda a: as_published(torch.stack(a, 1))
        return lambda: follow(model.model(ids, output_attentions=True, use_cache=False).attentions)
    options: dict[str, Any] = {
        "rollout_of, 64 keys": {"keys": range(KEYS)},
        "rollout_of, 8 rows": {"rows": range(n - 8, n)},
    }.get(method.removeprefix(BEFORE), {})
    if method == "plain forward":  # without the language-model head, like rollout_of
        return lambda: model.model(ids, use_cache=False)
    if method.startswith(BEFORE):
        once.FROM = sys.maxsize
    return lambda: rollout_of(model, ids, **options)


def dense_work(method: str, n: int, device: str) -> Callable[[], Any]:
    """The call to time: rollout of attention matrices that are given."""
    attentions = torch.rand(1, LAYERS, HEADS, n, n, device=device)
    attentions /= attentions.sum(-1, keepdim=True)
    functions: dict[str, Callable] = {
        "head mean + bmm": mean_and_bmm,
        "head mean + bmm, no residual": without_residual,
        "rollout": rollout,
        "rollout, 1 row": lambda a: rollout(a, rows=[-1]),
        "as published": as_published,
    }
    return lambda: functions[method](attentions)


def generation_work(method: str, n: int, device: str) -> Callable[[], Any]:
    """The call to time: 64 new tokens after a prompt of 128."""
    model = build(n, device)
    ids = torch.randint(0, VOCABULARY, (1, PROMPT), device=device)
    if method == "naive":
        model.set_attn_implementation("eager")
        return lambda: naive_generation(model, ids)
    mask = torch.ones_like(ids)

    def generate() -> Tensor:
        return model.generate(ids, attention_mask=mask, max_new_tokens=NEW, do_sample=False)

    if method == "plain generate":
        return generate
    if method.startswith(BEFORE):
        once.FROM = sys.maxsize
        return lambda: rollout_of(model, generate()[:, :-1], keys=range(PROMPT), cumulative=True)
    if method == "generate_with_rollout":
        return lambda: generate_with_rollout(model, ids, NEW, do_sample=False)
    return lambda: list(stream_with_rollout(model, ids, NEW, do_sample=False))


def flow_work(method: str, quick: bool) -> tuple[Callable[[], Any], float]:
    """The call to time (maximum flow, 6 layers of 32 tokens), and the ratio of all pairs to its pairs."""
    scores = 2 * torch.randn(6, 4, 32, 32, generator=torch.Generator().manual_seed(0))
    if "causal" in method:
        scores = scores.masked_fill(torch.ones(32, 32, dtype=torch.bool).triu(1), -torch.inf)
    attention = scores.softmax(-1)
    if method.startswith("attention_flow"):
        return lambda: attention_flow(attention), 1.0
    import networkx as nx

    mixed = (attention.mean(1).double() + torch.eye(32)) / 2
    graph = nx.DiGraph()
    for layer, i, j in mixed.nonzero().tolist():
        graph.add_edge((layer + 1, i), (layer, j), capacity=float(mixed[layer, i, j]))
    pairs = [divmod(pair, 32) for pair in range(0, 32**2, 31 if quick else 1)]
    method_of = nx.algorithms.flow.edmonds_karp
    return (
        lambda: [nx.maximum_flow_value(graph, (6, q), (0, k), flow_func=method_of) for q, k in pairs],
        32**2 / len(pairs),
    )


def resident() -> int:
    """The current resident set size in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def run_case(case: dict[str, Any], device: str, threads: int) -> dict[str, Any]:
    """Run one case in this process; return its times and peak memory."""
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    part, method, n, scale = case["part"], case["method"], case["n"], 1.0
    if part == "flow":
        work, scale = flow_work(method, case["quick"])
    else:
        makers = {"forward": forward_work, "dense": dense_work, "generation": generation_work}
        work = makers[part](method, n, device)
    cuda = device == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if cuda else resident()
    times: list[float] = []
    processor: list[float] = []
    while len(times) < 3 or (sum(times) < 2 and len(times) < 20):
        started, worked = time.perf_counter(), time.process_time()
        work()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
        processor.append(time.process_time() - worked)
        if len(times) == 1:  # later runs would include memory that the allocator keeps
            highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            peak = torch.cuda.max_memory_allocated() if cuda else highest
        if sum(times) > 60:
            break
    measured = {"seconds": min(times) * scale, "cpu_seconds": min(processor) * scale}
    return case | measured | {"peak_mib": (peak - before) / 2**20}


def with_ratios(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The table of cases, with times also as multiples of the first method of the same part and size."""
    table = pd.DataFrame(rows).drop(columns="quick", errors="ignore")
    first = table.groupby(["part", "n"])[["seconds", "cpu_seconds", "peak_mib"]].transform("first")
    table["times_first"] = table["seconds"] / first["seconds"]
    table["cpu_times_first"] = table["cpu_seconds"] / first["cpu_seconds"]
    return table


def measured_alone(case: dict[str, Any], device: str, threads: int) -> dict[str, Any] | None:
    """Run a case, on a CPU in a fresh process; return `None` and print the error if that process failed."""
    if device == "cuda":
        row = run_case(case, device, threads)
        torch.cuda.empty_cache()
        return told(row | {"device": device, "threads": threads})
    command = [
        sys.executable,
        __file__,
        "--case",
        json.dumps(case),
        "--device",
        device,
        "--threads",
        str(threads),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{case} failed:\n{done.stderr[-800:]}", file=sys.stderr)
        return None
    return told(json.loads(done.stdout.splitlines()[-1]) | {"device": device, "threads": threads})


def told(row: dict[str, Any]) -> dict[str, Any]:
    """Print a row, and return it."""
    print("{part:11} n={n:<5} {method:24} {seconds:9.4f} s {peak_mib:9.0f} MiB".format(**row), flush=True)
    return row


def best_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per method, with its least times and its least peak memory."""
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        kept = best.setdefault(row["method"], dict(row))
        kept |= {name: min(kept[name], row[name]) for name in ("seconds", "cpu_seconds", "peak_mib")}
    return list(best.values())


def write_pages(table: pd.DataFrame) -> None:
    """Write a CSV per part for the book's page on performance, and a line on the machine."""
    device = str(table["device"].iloc[0])
    ratio, place = ("times_first", "_gpu") if device == "cuda" else ("cpu_times_first", "")
    times = table.set_index(["n", "method"])[ratio].map("{:.2f}".format)
    for part, rows in table[~table["method"].str.startswith(BEFORE)].groupby("part", sort=False):
        before = [
            times.get((n, BEFORE + method), "–") for n, method in zip(rows["n"], rows["method"], strict=True)
        ]
        in_words = {
            "tokens": rows["n"],
            "method": rows["method"],
            "seconds": rows["seconds"].map(shown),
            "times the first": rows[ratio].map("{:.2f}".format),
            "before": before,
            "peak MiB": rows["peak_mib"].map("{:.0f}".format),
        }
        if set(before) == {"–"}:
            del in_words["before"]
        write_table(pd.DataFrame(in_words), f"{part}{place}")
    write_machine(f"rollout{place}", device, int(table["threads"].iloc[0]))


def main() -> None:
    """Run the cases one after the other, each in a fresh process."""
    parser = common_options(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes, a sample of NetworkX's pairs")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument("--memory", type=float, default=8, help="GiB that attention may take (default 8)")
    parser.add_argument("--sizes", type=int, nargs="+", help="tokens, in place of those of --quick or all")
    parser.add_argument("--rounds", type=int, default=2, help="processes per case (default 2)")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--case", help=SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run_case(json.loads(arguments.case), arguments.device, arguments.threads)))
        return
    chosen = [
        case
        for case in cases(arguments.quick, arguments.memory, arguments.sizes)
        if case["part"] in arguments.parts
        and not (arguments.device == "cuda" and case["method"].startswith(BEFORE))  # the same there
    ]
    rows = []
    for _, group in itertools.groupby(chosen, key=lambda case: (case["part"], case["n"])):
        turns = list(group) * arguments.rounds
        measured = [measured_alone(case, arguments.device, arguments.threads) for case in turns]
        rows += best_of([*filter(None, measured)])
    table = with_ratios(rows)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
    if arguments.record:
        write_pages(table)


if __name__ == "__main__":
    main()

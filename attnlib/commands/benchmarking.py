"""`attnlib benchmark my_file.py:my_method`: test an attribution method or a metric against ground truth."""

from __future__ import annotations

import importlib.util
import sys
from argparse import Namespace, _SubParsersAction
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.entering import SEEDS, Result, benchmark
from attnlib.benchmarking.metrics import SEEDS as METRIC_SEEDS
from attnlib.benchmarking.metrics import benchmark_metric
from attnlib.benchmarking.recording import seeds_of
from attnlib.commands.looking import check_place


def add_parser(commands: _SubParsersAction[Any]) -> None:
    """Add the command `benchmark` to a parser's commands."""
    command = commands.add_parser(
        "benchmark",
        help="score an attribution method on programs whose sources are known",
        description="Asks a method about exact transformers that are compiled from random programs, sets its "
        "scores beside those of all built-in methods, and writes a page. Nothing is trained or fetched.",
        epilog="The function: f(model, input_ids, attention_mask=None, query=-1, target=None, foil=None), or "
        "with counterfactual=None as well; it returns a score per token, of the shape of input_ids.",
    )
    entered = command.add_mutually_exclusive_group(required=True)
    entered.add_argument("method", nargs="?", help="FILE.py:FUNCTION, or the name of a built-in method")
    entered.add_argument(
        "--metric",
        metavar="FILE.py:FUNCTION",
        help="a faithfulness metric in place of a method: f(model, input_ids, scores, query=-1, target=None, "
        "foil=None) returns a number per prompt, larger if the scores are more faithful",
    )
    command.add_argument(
        "-o", "--output", type=Path, help="a page (.html, of a method) or a leaderboard entry (.json)"
    )
    command.add_argument("--seeds", type=seeds_of, metavar="FIRST:LAST", help=_seeds_help())
    command.add_argument(
        "--name", help="what the method or metric is called; the function's name unless given"
    )


def run(given: Namespace) -> str:
    """Run the command and return the text for stdout: the scores, and the path of the file written."""
    if given.output is not None:
        endings = (".json",) if given.metric else (".html", ".json")
        if given.output.suffix not in endings:
            raise ValueError(f"--output must end in {' or '.join(endings)}; got {given.output}")
        check_place(given.output)
    if given.metric:
        judged = benchmark_metric(function_of(given.metric), given.seeds or METRIC_SEEDS, name=given.name)
        return "\n".join([judged.said(), *([str(judged.entry(given.output))] if given.output else [])])
    method = given.method if given.method in METHODS else function_of(given.method)
    result: Result = benchmark(method, given.seeds or SEEDS, name=given.name)
    lines = [result.said()]
    if given.output is not None:
        write = result.page if given.output.suffix == ".html" else result.entry
        lines.append(str(write(given.output)))
    return "\n".join(lines)


def function_of(text: str) -> Callable[..., Any]:
    """The function that "FILE.py:FUNCTION" names; the file is run as a module."""
    file, colon, name = text.rpartition(":")
    path = Path(file)
    if not (colon and file.endswith(".py") and name.isidentifier()):
        raise ValueError(f"method must be FILE.py:FUNCTION or one of {', '.join(METHODS)}; got {text!r}")
    if not path.is_file():
        raise ValueError(f"method must name a file that exists; there is no {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # the file can import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} must run as a module; it ends with {said}") from error
    finally:
        sys.path.pop(0)
    found = getattr(module, name, None)
    if not callable(found):
        there = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise ValueError(f"{path} must define a function {name}; it defines {', '.join(there) or 'none'}")
    return found


def _seeds_help() -> str:
    return (
        f"the programs, {SEEDS.start}:{SEEDS.stop} unless given, of a metric "
        f"{METRIC_SEEDS.start}:{METRIC_SEEDS.stop}; tune a method on those below {SEEDS.start}; "
        "of programs without recorded scores, such as those from 2000 on, all methods are asked"
    )

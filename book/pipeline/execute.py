"""Execute one chapter through papermill, clean it for the page, and write it whole or not at all.

`python -m book.pipeline.execute notebooks/X.ipynb OUT.ipynb --parameters quick.yaml --results DIR ...`
"""

import argparse
import ast
import ctypes
import json
import os
import platform
import re
import resource
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat
import papermill
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_markdown_cell
from papermill.exceptions import PapermillExecutionError, strip_color

from attnlib.places import CheckpointError, cache_folder, pasteable, write_atomically

from .absent import fill_absent
from .profiles import ProfileError, read_profile

PACKAGES = ("attnlib", "torch", "transformers", "numpy", "pandas", "scipy", "jupyter-book")
OTHER_PARAMETERS = """```{{admonition}} A run of other parameters
:class: warning

Here {names} {are} not what this chapter was written with. Numbers in its text are of this run; the words
around them were written about the book's own, and may not hold of yours.
```"""
HEADING = re.compile("^## ", re.MULTILINE)
PARAMETERS_BUTTON = {"code_prompt_show": "Parameters of this run", "code_prompt_hide": "Hide them"}
ADDRESS = re.compile(r" at 0x[0-9a-f]+>")
ANY_CACHE = "${ATTNLIB_CACHE:-$HOME/.cache/attnlib}"
"""The folder of trained models that a page shows: the reader's, as a shell expression, not this build's."""

WIDGET = "application/vnd.jupyter.widget-view+json"
"""The MIME type of outputs that only a live notebook can show; they are removed."""

BAR = "\x1b[K{desc}  cell {n_fmt}/{total_fmt}  {bar:30}  {elapsed}"
"""How papermill shows progress in a terminal."""

KERNEL_DIED = """The kernel died. Most often that is memory running out: run the chapters one after the other
(make book CORES=1) or take a smaller profile."""


class ChapterError(Exception):
    """A chapter stopped: the message names the notebook, the cell and the last line of the exception."""


def say(name: str, seconds: float, text: str) -> None:
    """Print a line on a chapter; in a terminal it overwrites a progress bar."""
    clear = "\r\x1b[K" if sys.stdout.isatty() else ""
    print(f"{clear}{name}  {seconds:5.0f} s  {text}", flush=True)


def is_injected(cell: nbformat.NotebookNode) -> bool:
    """Whether papermill put this cell in, to set parameters."""
    return "injected-parameters" in cell.metadata.get("tags", [])


def run_chapter(source: Path, parameters: Mapping[str, object]) -> nbformat.NotebookNode:
    """Execute a notebook with `parameters` in the current folder and return it, outputs included."""
    begun = list[tuple[int, str]]()
    try:
        # No output path: papermill would save a half-executed notebook after every cell.
        return papermill.execute_notebook(
            source,
            None,
            parameters=dict(parameters),
            kernel_name="python3",
            progress_bar={"desc": source.stem, "leave": False, "disable": None, "bar_format": BAR},
            on_cell_execute=lambda cell, cell_index: begun.append((cell_index, cell.source)),
            store_widget_state=False,
            iopub_timeout=60,  # seconds to wait for what a cell printed, where both cores are busy
            # Or kernels warn about their sockets, and call it an error that one is busy when it is to end.
            extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
        )
    except (PapermillExecutionError, DeadKernelError) as error:
        index, code = begun[-1]
        # Cells are counted from 1, without the one that papermill injects after that of the parameters.
        number = index if parameters else index + 1
        first_line = next(line.strip() for line in code.splitlines() if line.strip())
        if isinstance(error, DeadKernelError):
            why = KERNEL_DIED
        else:
            why = strip_color("\n".join([f"{error.ename}: {error.evalue}\n", *error.traceback]))
        raise ChapterError(f"{source} failed in cell {number}: {first_line}\n{why}") from error


def end_with_parent() -> None:
    """On Linux, have this process killed when its parent process ends; ipykernel does so for the kernel."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG


def clean(notebook: nbformat.NotebookNode, chapter: Path | None = None) -> nbformat.NotebookNode:
    """Remove papermill's traces and machine-dependent output from a notebook, and show its parameters once.

    The page names the parameters that are neither the notebook's own nor those of the profile `quick` of
    `chapter`, its source.

    Progress bars, times, addresses in memory, random names and the path of this build's models are removed,
    so that the same run gives the same file on every machine.
    """
    injected = any(map(is_injected, notebook.cells))
    changed = other_than_written(notebook, chapter)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if is_injected(cell):
            cell["id"] = "injected-parameters"
            cell.metadata["tags"] = [*tags, "hide-input"]
            cell.metadata["mystnb"] = dict(PARAMETERS_BUTTON)
        elif injected and "parameters" in tags:
            cell.metadata["tags"] = [*tags, "remove-cell"]
        if cell.cell_type == "code":
            kept = [
                output
                for output in cell.outputs
                if output.get("name") != "stderr" and WIDGET not in output.get("data", {})
            ]
            cell.outputs = [of_any_machine(output) for output in joined(kept)]
    if changed and notebook.cells[0].cell_type == "markdown":
        listed = ", ".join(f"`{name}`" for name in changed)
        said = OTHER_PARAMETERS.format(names=listed, are="are" if len(changed) > 1 else "is")
        texts = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
        headed = next((cell for cell in texts if HEADING.search(cell.source)), None)  # explorers come first
        if headed:
            headed.source = HEADING.sub(lambda heading: f"{said}\n\n{heading[0]}", headed.source, count=1)
        else:
            notebook.cells.insert(1, new_markdown_cell(said))
    notebook.metadata.pop("papermill", None)
    notebook.metadata.pop("widgets", None)
    return notebook


def other_than_written(notebook: nbformat.NotebookNode, chapter: Path | None = None) -> list[str]:
    """The injected parameters whose values are neither the notebook's own nor its `quick` profile's."""
    own, given = own_and_given(notebook)
    less = quick_values(chapter) if chapter else {}
    quick = assigned("\n".join(f"{name} = {value!r}" for name, value in less.items()))
    return [name for name, value in given.items() if value not in (own.get(name), quick.get(name))]


def quick_values(chapter: Path) -> dict[str, Any]:
    """The parameters of a chapter's `quick` profile, if it has one."""
    profile = chapter.with_name("profiles") / chapter.stem / "quick.yaml"
    return read_profile(profile, chapter) if profile.exists() else {}


def parameters_of(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """The parameters that a notebook was run with, as dumps of their syntax trees."""
    own, given = own_and_given(notebook)
    return own | given


def own_and_given(notebook: nbformat.NotebookNode) -> tuple[dict[str, str], dict[str, str]]:
    """The parameters of the notebook's own cell, and the injected ones, as dumps of their syntax trees."""
    own, given = dict[str, str](), dict[str, str]()
    for cell in notebook.cells:
        if is_injected(cell):
            given |= assigned(cell.source)
        elif "parameters" in cell.metadata.get("tags", []):
            own |= assigned(cell.source)
    return own, given


def assigned(source: str) -> dict[str, str]:
    """The values that assignments set, as dumps of syntax trees, in which 1e-3 and 0.001 are equal."""
    found = dict[str, str]()
    for each in ast.parse(source).body:
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None:
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            found |= {one.id: ast.dump(each.value) for one in targets if isinstance(one, ast.Name)}
    return found


def joined(outputs: Iterable[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Outputs with adjacent parts of printed text joined, since timing determines how it is split."""
    found = list[nbformat.NotebookNode]()
    for output in outputs:
        if found and output.get("name") == found[-1].get("name") == "stdout":
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def of_any_machine(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An output without addresses in memory and without the path of this build's models."""
    if "text/plain" in output.get("data", {}):
        output.data["text/plain"] = ADDRESS.sub(">", output.data["text/plain"])
    elif "text" in output:
        output["text"] = output.text.replace(f"{pasteable(cache_folder())}/", f"{ANY_CACHE}/")
    return output


def describe_run(name: str, profile: str, wall_time: float, results: Path) -> dict[str, object]:
    """The status page's data on a run: time, memory, device (from its records), system and versions."""
    told = {json.loads(path.read_bytes()).get("device", "CPU") for path in results.glob("*.json")}
    gpus = ", ".join(sorted(told - {"CPU"}))
    return {
        "notebook": name,
        "profile": profile,
        "wall_time_s": round(wall_time, 1),
        "memory_gb": round(peak_memory() / 1e9, 1),
        "finished": time.strftime("%Y-%m-%d"),
        "device": gpus or f"{platform.machine()} CPU",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "packages": {package: version(package) for package in PACKAGES},
    }


def peak_memory() -> int:
    """The peak memory in bytes of the chapter's kernel: the maximum over finished child processes."""
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit


def main() -> int:
    """Execute one chapter; returns the exit status."""
    parser = argparse.ArgumentParser(description="Execute one chapter through papermill.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--parameters", type=Path, required=True, help="a profile, as YAML")
    parser.add_argument("--results", type=Path, required=True, help="the folder for this chapter's records")
    parser.add_argument("--run", type=Path, help="where to write what the status page shows")
    parser.add_argument("--log", type=Path, required=True, help="written only when the chapter fails")
    args = parser.parse_args()

    end_with_parent()
    args.results.mkdir(parents=True, exist_ok=True)
    # record() adds the chapter's own folder.
    os.environ["ATTNLIB_RESULTS"] = str(args.results.parent.resolve())
    # Models this small train fastest on one thread each, with two chapters in parallel.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    name, start = args.source.stem, time.monotonic()
    say(name, 0, "begun")
    try:
        quick_values(args.source)  # `clean` reads them, too: a mistake in them must not cost a run of hours
        notebook = run_chapter(args.source, read_profile(args.parameters, args.source))
        wall_time = time.monotonic() - start
        if absent := fill_absent(notebook):
            print(f"{name}  its prose names what is not in this run: {', '.join(absent)}", flush=True)
        write_atomically(args.target, nbformat.writes(clean(notebook, args.source)).encode())
        if args.run:
            run = describe_run(name, args.parameters.stem, wall_time, args.results)
            write_atomically(args.run, json.dumps(run, indent=1).encode())
    except (ChapterError, ProfileError) as error:
        args.log.write_text(f"{error}\n", encoding="utf-8")
        return 1
    except KeyboardInterrupt:
        return 130
    except CheckpointError as error:  # a full disk, which has no room for a log either
        print(error, file=sys.stderr)
        return 1
    say(name, wall_time, "done")
    return 0


if __name__ == "__main__":
    sys.exit(main())

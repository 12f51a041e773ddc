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
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_markdown_cell
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines
from papermill.exceptions import PapermillExecutionError, strip_color
from tqdm import tqdm

from attnlib.attended import bar
from attnlib.places import cache_folder, pasteable

from .absent import fill_absent
from .kept import describing
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

PARENT_DEATH_SIGNAL = (1, int(signal.SIGKILL))  # arguments of prctl(2): PR_SET_PDEATHSIG and the signal


class ChapterError(Exception):
    """A chapter stopped: the message names the notebook, the cell and the last line of the exception."""


def say(name: str, seconds: float, text: str) -> None:
    """Print a line on a chapter; in a terminal it overwrites a progress bar."""
    clear = "\r\x1b[K" if sys.stdout.isatty() else ""
    print(f"{clear}{name}  {seconds:5.0f} s  {text}", flush=True)


class Progress:
    """The progress of a chapter: a line when it begins, and in a terminal a bar while it runs."""

    def __init__(self, name: str) -> None:
        self.cell = 0
        self.source = ""
        self.injected = 0
        say(name, 0, "begun")
        form = "\x1b[K{desc}  cell {n_fmt}/{total_fmt}  {bar:30}  {elapsed}{postfix}"
        self.bar: tqdm = bar(desc=name, leave=False, dynamic_ncols=True, delay=0.1, bar_format=form)

    def begin(self, cell: nbformat.NotebookNode, index: int, total: int) -> None:
        """Note the cell that starts, by its number in the notebook as a reader opens it."""
        # The reader's notebook lacks the cell that papermill injects, which counts as the cell before it.
        self.injected += is_injected(cell)
        if cell.cell_type == "code":
            self.cell, self.source = index + 1 - self.injected, first_line(cell.source)
            self.bar.total, self.bar.n = total, self.cell
            self.bar.set_postfix_str(self.source[:60])

    def write(self, text: str) -> None:
        """Take the cell's stderr: the bar shows its last line."""
        if lines := [line for line in strip_color(text).split("\n") if line.strip()]:
            self.bar.set_postfix_str(lines[-1].strip()[:60])

    def flush(self) -> None:
        """Part of the interface of a file."""


class ReportingEngine(NBClientEngine):
    """Papermill's engine, which reports each cell to a `Progress`."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, **kwargs: Any
    ) -> nbformat.NotebookNode:
        """Run every cell; see papermill's `Engine`."""
        progress: Progress = kwargs["stderr_file"]
        start = nb_man.cell_start
        total = sum(not is_injected(cell) for cell in nb_man.nb.cells)

        def cell_start(cell: nbformat.NotebookNode, cell_index: int = 0, **rest: Any) -> None:
            progress.begin(cell, cell_index, total)
            start(cell, cell_index, **rest)

        nb_man.cell_start = cell_start
        return super().execute_managed_notebook(nb_man, kernel_name, **kwargs)


papermill_engines.register("reporting", ReportingEngine)


class KernelManager(AsyncKernelManager):
    """Shuts a kernel down without interrupting it first: a busy kernel would log that as an error."""

    async def _async_interrupt_kernel(self) -> None:
        if not self.shutting_down:
            await super()._async_interrupt_kernel()


def is_injected(cell: nbformat.NotebookNode) -> bool:
    """Whether papermill put this cell in, to set parameters."""
    return "injected-parameters" in cell.metadata.get("tags", [])


def first_line(source: str) -> str:
    """The first line of a cell that is not blank."""
    return next((line.strip() for line in source.splitlines() if line.strip()), "(empty)")


def run_chapter(source: Path, parameters: Mapping[str, object]) -> nbformat.NotebookNode:
    """Execute a notebook with `parameters` in the current folder and return it, outputs included."""
    progress = Progress(source.stem)
    try:
        # No output path: papermill would save a half-executed notebook after every cell.
        return papermill.execute_notebook(
            source,
            None,
            parameters=dict(parameters),
            engine_name="reporting",
            kernel_name="python3",
            progress_bar=False,
            stderr_file=progress,
            kernel_manager_class=KernelManager,
            store_widget_state=False,
            iopub_timeout=60,  # seconds to wait for what a cell printed, where both cores are busy
            # Or each kernel warns about its sockets, which only this machine can reach.
            extra_arguments=["--IPKernelApp.log_level=ERROR", *ending_with_us()],
        )
    except PapermillExecutionError as error:
        trace = strip_color("\n".join(error.traceback))
        where = failed_in(source, progress)
        raise ChapterError(f"{where}\n{error.ename}: {error.evalue}\n\n{trace}") from error
    except DeadKernelError as error:
        where = failed_in(source, progress)
        raise ChapterError(
            f"{where}\nThe kernel died. Most often that is memory running out: run the chapters one after "
            "the other (make book CORES=1) or take a smaller profile."
        ) from error
    finally:
        progress.bar.close()


def end_with_parent() -> None:
    """On Linux, have this process killed when its parent process ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(*PARENT_DEATH_SIGNAL)


def ending_with_us() -> list[str]:
    """Kernel options that end the kernel with this process, even during a call that blocks all threads."""
    ask = f"__import__('ctypes').CDLL(None).prctl{PARENT_DEATH_SIGNAL}"
    return [f"--IPKernelApp.exec_lines={ask}"] if sys.platform == "linux" else []


def failed_in(path: Path, progress: Progress) -> str:
    """The line that says where a chapter stopped; cells are counted from 1, text cells included."""
    return f"{path} failed in cell {progress.cell}: {progress.source}"


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
    less = dict[str, Any]()
    if chapter and (quick := chapter.with_name("profiles") / chapter.stem / "quick.yaml").exists():
        less = read_profile(quick, chapter)
    asked = assigned("\n".join(f"{name} = {value!r}" for name, value in less.items()))
    return [name for name, value in given.items() if value not in (own.get(name), asked.get(name))]


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


def write_whole(path: Path, text: str) -> None:
    """Write a file under another name and move it into place: it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def main() -> int:
    """Execute one chapter; returns the exit status."""
    parser = argparse.ArgumentParser(description="Execute one chapter through papermill.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--parameters", type=Path, required=True, help="a profile, as YAML")
    parser.add_argument("--results", type=Path, required=True, help="the folder for this chapter's records")
    parser.add_argument("--run", type=Path, required=True, help="where to write what the status page shows")
    parser.add_argument("--log", type=Path, required=True, help="written only when the chapter fails")
    args = parser.parse_args()

    end_with_parent()
    args.results.mkdir(parents=True, exist_ok=True)
    # record() adds the chapter's own folder.
    os.environ["ATTNLIB_RESULTS"] = str(args.results.parent.resolve())
    # Models this small train fastest on one thread each, with two chapters in parallel.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    start = time.monotonic()
    try:
        notebook = run_chapter(args.source, read_profile(args.parameters, args.source))
    except (ChapterError, ProfileError) as error:
        write_whole(args.log, f"{error}\n")
        return 1
    wall_time = time.monotonic() - start
    if absent := fill_absent(notebook):
        print(f"{args.source.stem}  its prose names what is not in this run: {', '.join(absent)}", flush=True)
    run = describe_run(args.source.stem, args.parameters.stem, wall_time, args.results)
    try:
        write_whole(args.target, nbformat.writes(clean(notebook, args.source)))
        write_whole(args.run, describing(run, [args.target, *args.results.glob("*")]))
    except OSError as error:
        print(
            f"{args.source.stem}  {args.target} cannot be written ({error.strerror}): mend that, and "
            "make the same call again; what was trained is kept",
            file=sys.stderr,
        )
        return 1
    say(args.source.stem, wall_time, "done")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Size, start-up time and speed of the language model in a page, against Python on one thread.

    python benchmarks/live.py [--record]

The page runs in headless Chromium (`$CHROMIUM`, or /usr/bin/chromium). Two times are measured, each the best
of a few turns: wall-clock time, which a reader waits, and processor time of the whole browser, which other
programs do not affect, and in which two workers spend two seconds per second. The model's file (93 MB) is
fetched once.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import torch
from timing import Line, common_options, open_browser, report, shown

from attnlib.attribution.perturbation import blank_out
from attnlib.commands.living import look_live
from attnlib.generators.prompts import EXAMPLES, encode
from attnlib.models.pretrained import DEFAULT, gguf_of_default, load_language_model
from attnlib.rollout import generate_with_rollout
from attnlib.widgets.front_end import front_end
from attnlib.widgets.live import LIVE, parts

TOKENS, WORDS, TURNS = 64, 24, 3
OPEN = "LiveModel.open(document.querySelector('input').files[0], { parts: PARTS })"
WRITE = "(async (count) => { for await (const word of live.write(ids, { newTokens: count })); })"


def of_browser(what: Callable[[psutil.Process], float]) -> float:
    """The sum of a quantity over the processes of the browser."""
    return sum(what(each) for each in psutil.Process().children(recursive=True) if "chrom" in each.name())


def processor(process: psutil.Process) -> float:
    """Seconds of processor time of a process."""
    return sum(process.cpu_times()[:2])


def memory(process: psutil.Process) -> float:
    """Bytes of memory of a process; shared memory is divided among the processes that share it."""
    return process.memory_full_info().pss


def timed(work: Callable[[], object], clock: Callable[[], float], turns: int = TURNS) -> tuple[float, float]:
    """The least wall-clock seconds, and the least of `clock` (processor seconds), over some turns."""
    taken = list[tuple[float, float]]()
    for _ in range(turns):
        start, spent = time.perf_counter(), clock()
        work()
        taken.append((time.perf_counter() - start, clock() - spent))
    by_clock, by_processor = zip(*taken, strict=True)
    return min(by_clock), min(by_processor)


def line(what: str, wanted: str, here: str, spent: float | str = "–", python: float | str = "–") -> Line:
    """A row of the table."""
    return {
        "what": what,
        "wanted": wanted,
        "here, by the clock": here,
        "processor seconds": spent,
        "processor seconds in Python": python,
    }


def whole_file(folder: Path) -> Iterator[Line]:
    """Rows on the page that `attnlib look --live` writes."""
    page_file = look_live(DEFAULT, "The sky is", say=lambda _: None).save(folder / "look.html")
    yield line("one file with the model inside", "at most 130 MB", f"{page_file.stat().st_size / 1e6:.1f} MB")
    with open_browser() as browser:
        page = browser.new_page()
        page.goto("about:blank")

        def opened() -> None:
            page.goto(page_file.as_uri())
            page.wait_for_selector("[data-g]", timeout=120_000)

        taken, spent = timed(opened, lambda: of_browser(processor), 2)
        yield line("that file, from disk to the first word", "at most 6 s", f"{shown(taken)} s", spent)


def engine(folder: Path, ids: list[int], python: dict[str, float]) -> Iterator[Line]:
    """Rows on the engine alone, in a page that gets the model's file by a file input."""
    script = f"{front_end('model.js', LIVE)[0]}\nconst PARTS = {json.dumps(parts())};".replace("</", "<\\/")
    (folder / "page.html").write_text(f"<!DOCTYPE html><input type=file><script>{script}</script>")
    with open_browser() as browser:
        page = browser.new_page()
        page.goto((folder / "page.html").as_uri())
        page.set_input_files("input", gguf_of_default())
        empty = of_browser(memory)

        def run(script: str) -> tuple[float, float]:
            return timed(lambda: page.evaluate(script), lambda: of_browser(processor))

        taken, spent = run(f"window.live?.close(); {OPEN}.then((model) => {{ window.live = model; }})")
        yield line(
            "a file beside the page, until it is ready",
            "at most 2 s",
            f"{shown(taken)} s",
            spent,
            python["load"],
        )
        page.evaluate(f"window.ids = {ids}")
        taken, spent = run(f"{WRITE}(1)")
        what = f"a prompt of {len(ids)} tokens to its first word"
        yield line(what, "at most 1 s", f"{shown(taken)} s", spent, python["first"])
        more, each = run(f"{WRITE}({WORDS + 1})")
        each, rate = (each - spent) / WORDS, WORDS / (more - taken)
        what = "a further word, greedy, with its rollout and attention"
        yield line(what, "at least 15 a second", f"{shown(rate)} a second", each, python["word"])
        page.evaluate("window.asked = 0; window.further = 0;")
        other = "ids[0] = 1000 + asked++"  # a new text, so that nothing is cached
        taken, spent = run(f"{other}; live.blankOut([...ids, 504], ids.length).then(() => null)")
        what = f"blank-out of {len(ids)} tokens for a word, two workers"
        yield line(what, "at most 8 s", f"{shown(taken)} s", spent, python["blank"])
        more = "[...ids, 504, 505, 506, 507], ids.length + ++further"
        taken, spent = run(f"live.blankOut({more}).then(() => null)")
        yield line("blank-out for each further word", "–", f"{shown(taken)} s", spent, python["blank"])
        held = of_browser(memory) - empty
        yield line("memory above the empty page, after all this", "at most 600 MB", f"{held / 1e6:.0f} MB")


def in_python(ids: torch.Tensor) -> dict[str, float]:
    """Processor seconds of the same work in PyTorch."""

    def spent(work: Callable[[], object]) -> float:
        return timed(work, time.process_time)[1]

    found = {"load": spent(lambda: load_language_model(device="cpu"))}
    model, _ = load_language_model(device="cpu")
    found["first"] = spent(lambda: generate_with_rollout(model, ids, 1, do_sample=False))
    many = spent(
        lambda: generate_with_rollout(model, ids, WORDS + 1, do_sample=False, min_new_tokens=WORDS + 1)
    )
    found["word"] = (many - found["first"]) / WORDS
    found["blank"] = spent(lambda: blank_out(model, ids, target=torch.tensor([504])))
    return found


def main() -> None:
    """Print the targets and the measured values."""
    options = common_options(__doc__).parse_args()
    torch.set_num_threads(1)
    gguf_of_default(fetch=True)
    _, tokenizer = load_language_model(device="cpu")
    ids = encode(EXAMPLES["a long passage with a question"], tokenizer)[:, :TOKENS]
    python = in_python(ids)
    with tempfile.TemporaryDirectory() as folder:
        lines = [*engine(Path(folder), ids[0].tolist(), python), *whole_file(Path(folder))]
    report("live", lines, options.record)


if __name__ == "__main__":
    main()

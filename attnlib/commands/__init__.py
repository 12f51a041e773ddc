"""The command line: `attnlib look` and `attnlib benchmark`, also as `python -m attnlib`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import transformers

from attnlib.checks import check_text
from attnlib.commands import benchmarking
from attnlib.commands.living import look_live
from attnlib.commands.looking import NEW_TOKENS, ONE_PROMPT, check_place, look
from attnlib.files import CheckpointError
from attnlib.models.pretrained import DEFAULT, ModelUnavailable

__all__ = ["main"]

LONGEST_LINE = 2000
"""The most characters of an error message that are printed, since it may quote a long name or prompt."""

REFUSALS = (ValueError, ModelUnavailable, CheckpointError, OSError)
"""Errors whose message is printed for the user; any other error is a bug and shows its traceback."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; progress and errors go to stderr, scores and the path of a written file to stdout.

    Args:
        arguments: the command line without the program's name; by default the shell's.

    Returns:
        The exit status: 0, 1 for an error in `REFUSALS`, or 130 after an interrupt. An invalid command line
        exits with status 2.
    """
    given = parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("attnlib").setLevel(logging.INFO)  # shows the progress of a model's download
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        check_text(**{name: str(value) for name, value in vars(given).items()})
        print(benchmarking.run(given) if given.command == "benchmark" else _look(given))
    except REFUSALS as error:
        say(f"attnlib {given.command}: {' '.join(str(error).split())[:LONGEST_LINE]}")
        return 1
    except KeyboardInterrupt:
        say(f"attnlib {given.command}: stopped; nothing was written.")
        return 130
    return 0


def _look(given: argparse.Namespace) -> Path:
    """Write the page of `attnlib look`; returns its path."""
    place = check_place(given.output, given.model)
    how = {"chat": given.chat, "continuation": given.continuation, "say": say}
    if given.live:
        if given.method or given.new_tokens is not None or given.span is not None:
            raise ValueError("--method, --new-tokens and --span are asked in a live page, not before it")
        seen = look_live(given.model, given.prompt, **how)
    else:
        seen = look(given.model, given.prompt, given.method, given.new_tokens, span=given.span, **how)
    return seen.save(place)


def say(line: str) -> None:
    """Prints a line of progress to stderr without buffering."""
    print(line, file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    top = argparse.ArgumentParser(prog="attnlib", description="Where attention looks, from a shell.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "look",
        help="write one page that shows which tokens a model's words depend on",
        description="Writes one self-contained page: the prompt, what the model writes, and what each word "
        "is attributed to. It opens from disk, with no network, and can be sent.",
        epilog=f"Methods: {'; '.join(ONE_PROMPT)}.",
    )
    command.add_argument(
        "model",
        help=f"a folder with a Hugging Face model, a name on its hub (owner/model), {DEFAULT}, a model that "
        "is stored with the book (rasp_languages/sort), a checkpoint of an attnlib Transformer "
        "(best.safetensors), or, with --live, a GGUF file",
    )
    command.add_argument("prompt", help="the text that the model is given; of a checkpoint, token ids")
    command.add_argument(
        "--method",
        metavar="NAME",
        help="an attribution method; unless named, AttnLRP beside rollout, which takes about a pass "
        "of the model for each written word (rollout alone takes one for all)",
    )
    command.add_argument(
        "--new-tokens",
        type=int,
        metavar="N",
        help=f"how many tokens to write at most; {NEW_TOKENS} unless named",
    )
    command.add_argument(
        "--continuation",
        metavar="TEXT",
        help="follow this text in place of what the model writes; where a word begins, with a blank",
    )
    command.add_argument(
        "--span",
        metavar="TEXT",
        help="ask about this part of what is written as a whole, too: what it is attributed to, directly and "
        "through what was written before it",
    )
    command.add_argument(
        "--live",
        action="store_true",
        help="put the model itself into the page, for whoever opens it to type to, with rollout, occlusion "
        f"and switches: Llama's shape, up to 150 million weights, a folder or a GGUF file. {DEFAULT} makes a "
        "page of 124 MB in a quarter of a minute, which opens in about 5 seconds, takes .6 GB of memory, and "
        "writes 15 words a second or more",
    )
    command.add_argument("--chat", action="store_true", help="put the prompt into the model's chat template")
    command.add_argument("-o", "--output", type=Path, default=Path("look.html"), help="the page; look.html")
    benchmarking.add_parser(commands)
    return top

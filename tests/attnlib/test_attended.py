"""Who looks on is told by the front end: a person's can be asked for input, a program's cannot."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from attnlib.attended import bar, is_attended
from attnlib.widgets.choice import VIEW

SHOWS = """\
import torch
from attnlib.attended import bar
from attnlib.widgets import AttentionExplorer
for _ in bar(range(3), desc="models"):
    pass
explorer = AttentionExplorer(["a", "b"], torch.full((1, 1, 2, 2), 0.5), title="seen")
explorer.item = 0
display(explorer)
"""
CHOOSES = """\
import numpy as np
from attnlib import plots
from attnlib.widgets import Choice
mixed = np.full((2, 2, 2), 0.5)
display(Choice(lambda n: plots.paths(mixed, ["a", "b"], n), [("one", 0), ("two", 1)], 1, "n"))
"""


@pytest.fixture(scope="module")
def client() -> Iterator[BlockingKernelClient]:
    manager, client = start_new_kernel(extra_arguments=["--log-level=ERROR"])
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def answers(client: BlockingKernelClient, code: str, person: bool) -> dict[str, list[Any]]:
    """What a kernel sends while it executes a cell, by kind."""
    found = defaultdict[str, list[Any]](list)
    reply = client.execute_interactive(
        code,
        allow_stdin=person,
        timeout=120,
        output_hook=lambda message: found[message["msg_type"]].append(message["content"]),
    )
    assert reply["content"]["status"] == "ok", found["error"]
    return found


@pytest.mark.parametrize("code", [SHOWS, CHOOSES], ids=["explorer", "choice"])
def test_a_program_that_executes_a_notebook_gets_what_any_page_shows(client, code: str) -> None:
    theirs, ours = (answers(client, code, person) for person in (False, True))
    (page,), (live,) = (found["display_data"] for found in (theirs, ours))
    assert VIEW in live["data"] and VIEW not in page["data"]
    assert len(ours["comm_open"]) >= 1 and not theirs["comm_open"]
    assert page["data"]["text/html"] == live["data"]["text/html"]
    assert not theirs["stream"]


def test_a_bar_moves_for_a_person(client) -> None:
    lines = [each["text"] for each in answers(client, SHOWS, person=True)["stream"]]
    assert any("models: 100%" in line for line in lines)


def test_without_a_kernel_a_bar_is_drawn_in_a_terminal_alone(capsys, monkeypatch) -> None:
    assert is_attended()
    assert list(bar(range(3))) == [0, 1, 2] and capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert list(bar(range(3))) == [0, 1, 2] and "3/3" in capsys.readouterr().err
    assert list(bar(range(3), shown=False)) == [0, 1, 2] and capsys.readouterr().err == ""

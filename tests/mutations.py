"""What may happen to a file: bits flip, a copy ends early, another file is moved there, a hand edits it."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

Mutation = Callable[[Path], None]


def mutations(data: bytes, other: bytes, seed: int, n: int) -> Iterator[tuple[str, Mutation]]:
    """A name and a function for each of about `n` mutations of a file that holds `data`.

    Args:
        data: what it holds.
        other: what a file of the same kind holds, that of another run, say.
        seed: of the places that are hit.
        n: how many are drawn at random, beside those that are made once.
    """
    random = Random(seed)
    yield from once(other)
    if told := _json(data):
        yield from edits(told, random)
    while n > 0:
        place = random.randrange(len(data))
        end = place + random.randrange(1, 60)
        flipped = bytes([data[place] ^ 1 << random.randrange(8)])
        changed = {
            "bit flipped": data[:place] + flipped + data[place + 1 :],
            "cut short": data[:place],
            "piece lost": data[:place] + data[end:],
            "piece zeroed": data[:place] + bytes(min(end, len(data)) - place) + data[end:],
            "piece twice": data[:end] + data[place:],
            "noise": data[:place] + random.randbytes(end - place) + data[end:],
        }
        for name, content in changed.items():
            yield f"{name} at {place}", lambda path, content=content: path.write_bytes(content)
        n -= len(changed)


def once(other: bytes) -> Iterator[tuple[str, Mutation]]:
    """Mutations without a place."""
    contents = {
        "empty": b"",
        "another's": other,
        "a web page": b"<!DOCTYPE html><html><body>404</body></html>",
        "zeros": bytes(1000),
        "a list": b"[1, 2, 3]",
        "an object": b"{}",
        "a number": b"1",
    }
    for name, content in contents.items():
        yield name, lambda path, content=content: path.write_bytes(content)
    yield "gone", Path.unlink
    yield "a folder", folder_instead


def edits(told: dict, random: Random) -> Iterator[tuple[str, Mutation]]:
    """Valid JSON that says something else: each entry left out, and each of another value or kind."""
    for key, value in told.items():
        without = {name: each for name, each in told.items() if name != key}
        put = [without | {key: each} for each in (None, 1, "x", [], {}, [value]) if each != value]
        for changed in [without, *random.sample(put, 2)]:
            text = json.dumps(changed, indent=2)
            yield f"{key} edited", lambda path, text=text: path.write_text(text)


def folder_instead(path: Path) -> None:
    """A folder of the same name, with something in it."""
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def restored(path: Path, data: bytes) -> None:
    """Put back what was there."""
    shutil.rmtree(path) if path.is_dir() else None
    path.write_bytes(data)


def _json(data: bytes) -> dict | None:
    try:
        told = json.loads(data)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None

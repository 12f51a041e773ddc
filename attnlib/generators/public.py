"""Files of a public source, read from the web at most once, and never without a checksum."""

from __future__ import annotations

import hashlib
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from attnlib.files import write_atomically


@dataclass(frozen=True)
class PublicFile:
    """A file of a public source.

    Attributes:
        url: where it is, at a fixed revision or version.
        sha256: what it has to be.
    """

    url: str
    sha256: str

    def read(self, folder: Path, instead: str) -> bytes:
        """Its content, which is kept in `folder`.

        Args:
            folder: made if it is not there.
            instead: what a reader without a network may do, for the message.

        Raises:
            ConnectionError: it cannot be reached, or is not the file it was.
        """
        kept = folder / f"{self.sha256[:16]}-{self.url.rsplit('/', 1)[-1]}"
        if kept.is_file() and hashlib.sha256(data := kept.read_bytes()).hexdigest() == self.sha256:
            return data
        try:
            with urllib.request.urlopen(self.url, timeout=30) as answer:
                data = answer.read()
        except OSError as error:
            problem = f"{self.url} could not be read ({type(error).__name__}: {error}). {instead}"
            raise ConnectionError(problem) from error
        if (found := hashlib.sha256(data).hexdigest()) != self.sha256:
            raise ConnectionError(
                f"{self.url} is not the file it was: its SHA-256 is {found}, not {self.sha256}. {instead}"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, data)
        return data

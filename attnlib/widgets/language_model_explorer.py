"""A language model in the page: type a prompt, and see which tokens each generated word depends on.

The page computes the model itself (`attnlib.widgets.live`). The model's file comes from the page itself,
loaded at once except on phones; or, at the reader's request, over http from the folder ``models`` of a built
book, or on a page opened from disk, from a file that the reader chooses. Rollout, attention and blank-out are
those of `attnlib.rollout` and `attnlib.attribution`, up to the rounding of single precision.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import traitlets

from attnlib.models.pretrained import DEFAULT, WHEEL
from attnlib.places import sha256_of
from attnlib.rollout import UNINFORMATIVE, GenerativeRollout
from attnlib.widgets.front_end import front_end
from attnlib.widgets.generation_explorer import GenerationExplorer, Recording, flattest, parts_of
from attnlib.widgets.live import parts
from attnlib.widgets.naming import named

PIECE = 12 * 2**20
"""The most characters of a packed file in one element of a page; browsers read longer elements slowly."""


class ModelFile(NamedTuple):
    """What a page has to know of a file of weights that it loads.

    Attributes:
        name: the model's name.
        file: the file's name in the folder ``models``.
        bytes: the file's size.
        sha256: the hash of the file's contents, which tells it from another file in the browser's cache.
    """

    name: str
    file: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path, name: str = "") -> ModelFile:
        """The description of a file on disk; the model's default name is the file's, up to its first dot."""
        return cls(name or path.name.split(".")[0], path.name, path.stat().st_size, sha256_of(path))


BOOK = ModelFile(DEFAULT, WHEEL.member.rsplit("/", 1)[-1], 98_362_432, WHEEL.member_sha256)
"""The book's language model, in 4 bits."""


@dataclass(frozen=True)
class Trial:
    """A prompt that the page offers.

    Attributes:
        name: what the page calls the prompt.
        text: the prompt.
        continuation: a text that the model is forced to continue with, or "".
        word: the generated or forced word that is chosen at first; "" for the first one.
        chat: whether the prompt is put into the model's chat template.
        note: an explanation, shown when the prompt is chosen.
        source: the part of the prompt that is the only possible source of the word, if known; or "".
    """

    name: str
    text: str
    continuation: str = ""
    word: str = ""
    chat: bool = False
    note: str = ""
    source: str = ""


class LanguageModelExplorer(GenerationExplorer):
    """A language model that runs in the page: what each word that it writes depends on, as it writes.

    The reader types a prompt, plain or as a chat; the model writes the likeliest words, or samples them, or
    follows a text that is forced on it. Every word has its rollout, also with the first token left out and
    over the null model, and the attention of every head. For the chosen word, the page shows AttnLRP, which
    takes as long as reading the text three times; then it computes the word's occlusion (blank-out), if that
    takes at most a minute. Heads can be switched off, given uniform attention or pushed to a token, and
    tokens can be blanked; the text that the changed model writes stands beside that of the unchanged one.
    The picture, with its keys and pointing, is that of `GenerationExplorer`, and shows recorded results, too.

    Args:
        recorded: results of `generate_with_rollout` by name, shown without the model; or none.
        tokenizer: the tokenizer of the recorded results' model; not needed without them.
        file: the file of the model that the page loads.
        inside: the path of that file, to put it into the page itself: 98 MB take 124 MB of the page.
        trials: prompts that the page offers.
        asked: the prompt at first, continued as soon as the model is loaded; the first trial by default.
        ignore: the words and signs that the filter hides; see `GenerativeRollout.informative`.
        title: a line of text above the picture.

    Example:
        >>> LanguageModelExplorer(asked="The sky is", title="Colours")
        LanguageModelExplorer 'Colours': SmolLM2-135M-Instruct, 98 MB, nothing recorded
    """

    _esm, _css = front_end("language_model_explorer.js")

    file = traitlets.Dict(
        help="The model's file, as `ModelFile` has it, and whether it is inside the page."
    ).tag(sync=True)
    parts = traitlets.Dict(help="The engine and the script of its workers.").tag(sync=True)
    trials = traitlets.List(traitlets.Dict(), help="Prompts that are offered, as `Trial` has them.").tag(
        sync=True
    )
    ignore = traitlets.List(traitlets.Unicode(), help="Words and signs that the filter hides.").tag(sync=True)

    def __init__(
        self,
        recorded: Mapping[str, GenerativeRollout] | None = None,
        tokenizer: Any = None,
        *,
        file: ModelFile = BOOK,
        inside: Path | None = None,
        trials: Sequence[Trial] = (),
        asked: str = "",
        ignore: Collection[str] = UNINFORMATIVE,
        title: str = "",
    ) -> None:
        super(GenerationExplorer, self).__init__(
            title=title,
            asked=asked,
            file={**file._asdict(), "inside": inside is not None},
            parts=parts(),
            trials=[asdict(trial) for trial in trials],
            ignore=sorted(ignore),
        )
        self.inside = inside
        if recorded:
            found = {name: parts_of(result, tokenizer, ignore) for name, result in recorded.items()}
            self._show(named(Recording.of, "example", found), flattest(found))

    def _sizes(self) -> str:
        recorded = f"{len(self.items)} recorded" if self.items else "nothing recorded"
        return f"{self.file['name']}, {self.file['bytes'] / 1e6:.0f} MB, {recorded}"

    def to_html(self) -> str:
        """The widget as one piece of HTML, followed by the model's file if the page is to hold it."""
        return "\n".join([super().to_html(), *([] if self.inside is None else packed(self.inside))])

    def _places_within(self) -> dict[str, tuple[int, str]]:
        return {}  # a typed text can have more tokens, and the page's model more layers, than any recorded


def packed(path: Path) -> Iterator[str]:
    """A file, compressed by gzip and in base64, as script elements that a page does not show."""
    packer = zlib.compressobj(level=9, wbits=31)
    text = base64.b64encode(packer.compress(path.read_bytes()) + packer.flush()).decode()
    for start in range(0, len(text), PIECE):
        yield f'<script type="text/x-attnlib-model">{text[start : start + PIECE]}</script>'

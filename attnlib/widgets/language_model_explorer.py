"""A language model in the page: type a prompt, and see what every word drew on that the model writes there.

The page computes the model itself (`attnlib.widgets.live`), from its file, which it takes from one of three
places: the page itself; over http, the folder ``models`` of a built book; or, where a page was opened from
disk, the reader's choice. It begins with that only when asked. Rollout, attention and blank-out are those of
`attnlib.rollout` and `attnlib.attribution`, up to the rounding of single precision.
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
"""Characters of a packed file in one element of a page: a browser reads elements of more, but slowly."""


class ModelFile(NamedTuple):
    """A file of weights that a page can compute, as the page has to know it.

    Attributes:
        name: of the model.
        file: its own name, in the folder ``models``.
        bytes: its size.
        sha256: of what is in it, so that what a browser keeps of another one is not taken for it.
    """

    name: str
    file: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path, name: str = "") -> ModelFile:
        """A file on disk; the model has the file's name, up to its first dot, unless another is given."""
        return cls(name or path.name.split(".")[0], path.name, path.stat().st_size, sha256_of(path))


BOOK = ModelFile(DEFAULT, WHEEL.member.rsplit("/", 1)[-1], 98_362_432, WHEEL.member_sha256)
"""The book's language model, in 4 bits."""


@dataclass(frozen=True)
class Trial:
    """A prompt that is offered.

    Attributes:
        name: what the page calls it.
        text: the prompt.
        continuation: words to force behind it, or "".
        word: the word that is chosen at first, of those that are written or forced; "": the first.
        chat: whether it is put into the model's chat template.
        note: what there is to see, shown when it is chosen.
        source: the part of the prompt that the word can only come from, where that is known; or "".
    """

    name: str
    text: str
    continuation: str = ""
    word: str = ""
    chat: bool = False
    note: str = ""
    source: str = ""


class LanguageModelExplorer(GenerationExplorer):
    """A language model that runs in the page: what each word that it writes drew on, as it writes.

    The reader types a prompt, plain or as a chat; the model writes the likeliest words, or draws them, or
    follows a text that is forced on it. Every word has its rollout, also with the first token left out and
    over the null model, and the attention of every head. Of the word that is chosen the page shows AttnLRP,
    which takes as long as reading the text three times; then it computes the word's occlusion (blank-out),
    if that takes at most a minute. Heads can be
    switched off, made even or pushed to a token, and tokens blanked; what the model writes then stands
    beside what it writes as it is. With the keyboard and by pointing, the picture is that of a
    `GenerationExplorer`, which shows what was recorded, too.

    Args:
        recorded: results of `generate_with_rollout` by name, to see without a model; or none.
        tokenizer: of their model; not needed without them.
        file: of the model that the page loads.
        inside: the path of that file, to put it into the page itself: of 98 MB, 124 in the page.
        trials: prompts that are offered.
        asked: a prompt to begin with, continued as soon as the model is there; the first trial by default.
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
        """The widget as one piece of HTML, with the model's file behind it where it is to be inside."""
        return "\n".join([super().to_html(), *([] if self.inside is None else packed(self.inside))])

    def _places_within(self) -> dict[str, tuple[int, str]]:
        return {}  # a reader's text can have more words, and the page's model more layers, than any recorded


def packed(path: Path) -> Iterator[str]:
    """A file by gzip and in base64, as elements that a page does not show."""
    packer = zlib.compressobj(level=9, wbits=31)
    text = base64.b64encode(packer.compress(path.read_bytes()) + packer.flush()).decode()
    for start in range(0, len(text), PIECE):
        yield f'<script type="text/x-attnlib-model">{text[start : start + PIECE]}</script>'

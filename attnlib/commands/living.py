"""`attnlib look --live`: one page that contains the model, in which a reader can type prompts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from attnlib.commands.looking import Say, Seen, is_stored, short
from attnlib.models.pretrained import check_model_folder
from attnlib.widgets import LanguageModelExplorer
from attnlib.widgets.language_model_explorer import ModelFile, Trial
from attnlib.widgets.live.checking import knows_chat
from attnlib.widgets.live.packing import model_file

PACKED = 1.26
"""The size of a page over that of a file with 4-bit weights, after gzip and base64."""


def look_live(
    name: str, prompt: str, *, chat: bool = False, continuation: str | None = None, say: Say = print
) -> Seen:
    """A page that contains a model and computes it, at first on `prompt`; a reader can type other prompts.

    `name` is as in `attnlib.widgets.live.packing.model_file`; the model is forced to continue the first
    prompt with `continuation`, if given. Raises a ValueError for a model that a page cannot compute.
    """
    if not prompt.strip():
        raise ValueError("the prompt is empty; give the text that the model is to continue")
    if is_stored(name):
        raise ValueError(f"{name} came with the book, and every page of it computes it: leave out --live")
    if not name.endswith(".gguf"):
        check_model_folder(name)
    say(f"Loading {name} ...")
    folder = tempfile.TemporaryDirectory(prefix="attnlib-live-")
    path, licence = model_file(name, Path(folder.name))
    if chat and not knows_chat(path):
        raise ValueError(
            "this model has no chat template that a page knows (ChatML): leave out --chat, or ask without "
            "--live"
        )
    shown = Path(name).stem if name.endswith(".gguf") else short(name)
    file = ModelFile.of(path, shown)
    say(f"Packing {file.bytes / 1e6:.0f} MB into a page of about {PACKED * file.bytes / 1e6:.0f} MB ...")
    asked = Trial("the prompt", prompt, continuation or "", chat=chat)
    explorer = LanguageModelExplorer(file=file, inside=path, trials=[asked], title=shown)
    note = (
        "The model is in this page and runs in it: nothing is sent anywhere. It writes the likeliest token "
        "each time unless a temperature is chosen; its own settings for writing are not used. "
        f"Licence of {shown}: {licence}."
    )
    return Seen(explorer, f"{shown}, live", note, folder)

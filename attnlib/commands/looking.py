"""From a model's name and a prompt to an explorer of what the model's words drew on.

Three kinds of picture, by what is asked: for rollout and its variants, the matrix of generative rollout,
layer by layer (`GenerationExplorer`); for any other measure of `METHODS`, one question for each written
token, with the plainer measures to hold it against (`MeasureExplorer`); for a model that came with the book,
the model itself, which the page computes (`ModelExplorer`).
"""

from __future__ import annotations

import html
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from attnlib.attribution import METHODS, attributions, span_attributions
from attnlib.files import write_atomically
from attnlib.generators.prompts import continued, encode
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.causal import reads_ahead
from attnlib.models.pretrained import load_language_model, refuse_missing_folder
from attnlib.models.stored import STORED, stored_model
from attnlib.naming import hint
from attnlib.places import expanded
from attnlib.rollout import GenerativeRollout, generate_with_rollout
from attnlib.rollout.generative import check_generation, generate
from attnlib.widgets import GenerationExplorer, MeasureExplorer, ModelExplorer
from attnlib.widgets.explorer import Explorer
from attnlib.widgets.generation_explorer import pieces
from attnlib.widgets.static import whole_page

NEW_TOKENS = 20
"""How many tokens a model writes at most, unless told."""

ROLLOUTS = {
    "rollout": (None, False),
    "sink-free rollout": ([0], False),
    "rollout over null": (None, True),
    "sink-free over null": ([0], True),
}
"""The measures that the matrix of generative rollout shows: its sink, and whether over the null model."""

COMPARING = ("attribution patching", "activation patching")
"""The measures that compare with another prompt, for which a command line has no place."""

ONE_PROMPT = [name for name in METHODS if name not in COMPARING]
"""The measures that may be asked for."""

BESIDE = ("rollout", "mean attention", "raw attention, last layer")
"""What other measures are held against: these share one pass."""

Say = Callable[[str], None]

Following = int | Int[Tensor, " given"]
"""What comes behind the prompt: how many tokens that the model writes, or given ones."""


@dataclass(frozen=True)
class Seen:
    """What `look` shows: in a notebook by itself, and as a page with `save`.

    Attributes:
        explorer: of it.
        title: of the page.
        note: a line below: of which model this is, and how it was asked.
        folder: where files lie that `save` puts into the page, as long as this is there.
    """

    explorer: Explorer
    title: str
    note: str
    folder: tempfile.TemporaryDirectory[str] | None = None

    def save(self, path: str | Path) -> Path:
        """Writes the page; an older one of the same name is replaced once all of this one is there.

        Returns:
            The path.

        Raises:
            ValueError: as `checked_place`.
            CheckpointError: it could not be written; an older one is as it was.
        """
        place = checked_place(Path(path))
        note = f"{html.escape(self.note)} Made by attnlib {version('attnlib')}."
        body = f'{self.explorer.to_html()}\n<p style="font-size: 0.8rem">{note}</p>'
        page = whole_page(self.title, body)
        write_atomically(place.resolve(), page.encode())
        return place

    def _repr_mimebundle_(self, **how: Any) -> Any:
        """The explorer, where a cell of a notebook ends with it."""
        return self.explorer._repr_mimebundle_(**how)


def look(
    name: str,
    prompt: str,
    method: str | None = None,
    new_tokens: int | None = None,
    *,
    chat: bool = False,
    continuation: str | None = None,
    span: str | None = None,
    say: Say = print,
) -> Seen:
    """What the words of a model drew on, on one prompt.

    Args:
        name: of a language model, as `load_language_model` takes it; or `chapter/name` of a model that came
            with the book (`attnlib.models.stored.stored_model`).
        prompt: the text it is given.
        method: a name of `ONE_PROMPT`; rollout by default.
        new_tokens: at most how many tokens it writes, always the likeliest; `NEW_TOKENS` by default.
        chat: whether the prompt is put into the model's chat template.
        continuation: a text to follow in place of what the model would write.
        span: a part of what is written, asked about as a whole before its tokens are: what it drew on, and
            what it drew on through all that was written before it (see `attnlib.attribution.spans`).
        say: told in a line what is done next.

    Raises:
        ValueError: there is no such method or folder; the prompt is empty, too long, or not in the alphabet;
            the continuation is empty, or comes with a number of tokens; nothing of the span was written; or
            the model cannot be asked so, with the reason.
        ModelUnavailable: the model is nowhere to be had.
    """
    if not isinstance(name, str):
        raise ValueError(
            f"name should be a text, of a language model or its folder; got a {type(name).__name__}. A model "
            "that is loaded already is shown by GenerationExplorer (attnlib.widgets)"
        )
    if not prompt.strip():
        raise ValueError("the prompt is empty; give the text that the model is to continue")
    if is_stored(name):
        if any(given is not None for given in (method, new_tokens, continuation, span)) or chat:
            raise ValueError(
                f"{name} came with the book and shows every head in the page itself; --method, --new-tokens, "
                "--chat, --continuation and --span are for language models"
            )
        return _stored(name, prompt, say)
    if continuation is not None and new_tokens is not None:
        raise ValueError("--continuation says itself how many tokens there are: leave out --new-tokens")
    method = _known("rollout" if method is None else method)
    new_tokens = NEW_TOKENS if new_tokens is None else new_tokens
    if new_tokens < 1:
        raise ValueError(f"a model writes at least one token here (--new-tokens 1); got {new_tokens}")
    refuse_missing_folder(name)
    say(f"Loading {name} ...")
    model, tokenizer = load_language_model(name)
    ids, forced = encode(prompt, tokenizer, chat).to(model.device), None
    if continuation is not None:
        forced = continued(prompt, continuation, tokenizer, chat)[1].to(model.device)
        new_tokens = len(forced)
    check_generation(model, ids, None, new_tokens, {})
    refuse_bidirectional(model, ids)
    doing = f"Writing up to {new_tokens}" if forced is None else f"Given: {new_tokens} more"
    say(f"Read: {ids.shape[1]} tokens. {doing}, and following them by {method} ...")
    shown = short(name)
    title = f"{shown}: {method}"
    asked = (model, tokenizer, ids, method, new_tokens if forced is None else forced, title)
    explorer = _rolled(*asked) if method in ROLLOUTS and span is None else _measured(*asked, span)
    say(f"Done: {explorer.summary()}.")
    origin = "a folder" if expanded(name).is_dir() else model.loaded_from
    wrote = "it wrote the likeliest token each time" if forced is None else "its continuation was given"
    return Seen(explorer, title, f"{shown}, from {origin}; {wrote}.")


def refuse_bidirectional(model: Any, input_ids: Int[Tensor, "1 prompt"]) -> None:
    """Raise a `ValueError` for a model whose first token sees the second: it does not write one by one.

    Encoders such as BERT load as causal language models and give numbers without meaning. A model that gives
    none, since a weight is none, is refused too.
    """
    two = input_ids.repeat(1, 2)[:, :2]
    with torch.no_grad(), evaluating(model):
        finite = logits_of(model, two).isfinite().all()
        ahead = reads_ahead(lambda given: logits_of(model, given), two)
    if not finite:
        raise ValueError(f"this {type(model).__name__} computes what is no number: a weight of it is none")
    if ahead:
        raise ValueError(
            f"{type(model).__name__} looks at what comes later, too: it is an encoder, which fills gaps and "
            "does not generate. Give a causal language model; an encoder's attention is shown by "
            "AttentionExplorer, in a notebook"
        )


def _rolled(
    model: Any, tokenizer: Any, ids: Int[Tensor, "1 prompt"], method: str, following: Following, title: str
) -> GenerationExplorer:
    sink, _ = ROLLOUTS[method]
    asked: dict[str, Any] = {"continuation": following}
    if isinstance(following, int):
        asked = {"max_new_tokens": following, "do_sample": False}
    result = _on_cpu(generate_with_rollout(model, ids, tokenizer=tokenizer, sink=sink, **asked))
    ways = {
        name: result.over_null() if null else result for name, (of, null) in ROLLOUTS.items() if of == sink
    }
    return GenerationExplorer.of(ways, tokenizer, title=title, item=[*ways].index(method))


def _on_cpu(result: GenerativeRollout) -> GenerativeRollout:
    moved = {name: getattr(result, name).cpu() for name in ("tokens", "prompt", "matrix")}
    return replace(result, **moved)


def _measured(
    model: Any,
    tokenizer: Any,
    ids: Int[Tensor, "1 prompt"],
    method: str,
    following: Following,
    title: str,
    span: str | None,
) -> MeasureExplorer:
    """A question for each token behind the prompt: what did it draw on, of all that stands before it?

    Before them, two about a span: what it drew on, and what it drew on through what was written before it.
    """
    if isinstance(following, int):
        every = generate(model, ids, following, {"do_sample": False})[0]
    else:
        every = torch.cat([ids[0], following])
    words, start = pieces(every.tolist(), tokenizer), ids.shape[1]
    beside, missing = _possible(model, every[:start], [name for name in BESIDE if name != method])
    questions = dict[str, Any]()

    def ask(label: str, scores: dict[str, Tensor], predicted: str) -> None:
        moved = {name: score.detach().float().cpu() for name, score in scores.items()}
        among = torch.stack([*moved.values()]).isfinite().all(0)  # some measures leave out what predicts
        n = len(among)
        asked = {"tokens": words[:n], "query": n - 1, "predicted": predicted, "missing": missing}
        questions[label] = asked | {"scores": moved, "candidates": among}

    measures = [method, *beside]
    if span is not None:
        place = tokens_of(span, words[start:], start)
        ask(f"{span!r}, as a whole", span_attributions(model, every, place, measures), span)
        through = span_attributions(model, every, place, measures, written=start)
        ask(f"{span!r}, through what was written before it", through, span)
    for at in tqdm(range(start, len(every)), desc="tokens", leave=False):
        scores = attributions(model, every[:at], measures, target=int(every[at]))
        ask(f"{at - start + 1}: {words[at]!r}", scores, words[at])
    return MeasureExplorer(questions, title=title, first=method)


def tokens_of(span: str, words: list[str], start: int = 0) -> tuple[int, int]:
    """The first of the tokens that hold a part of a text, and the one after the last.

    Args:
        span: the part; its first occurrence counts.
        words: what each token adds to the text.
        start: the place of the first of these.

    Raises:
        ValueError: the text does not have it.
    """
    text = "".join(words)
    begin = text.find(span)
    if begin < 0 or not span.strip():
        raise ValueError(f"--span should be a part of what was written, {text!r}; got {span!r}")
    ends = list(accumulate(map(len, words)))
    first = bisect_right(ends, begin)
    return start + first, start + bisect_left(ends, begin + len(span)) + 1


def _possible(
    model: Any, prompt: Int[Tensor, " prompt"], methods: list[str]
) -> tuple[list[str], dict[str, str]]:
    """Which of these a model can give; and of the others, why not."""
    missing = {}
    for name in methods:
        try:
            METHODS[name](model, prompt[None, :1])
        except ValueError as error:
            missing[name] = str(error)
    return [name for name in methods if name not in missing], missing


def _stored(name: str, prompt: str, say: Say) -> Seen:
    chapter, _, own = name.partition("/")
    say(f"Loading {name} ...")
    kept = stored_model(chapter, own)
    shown = {"model": kept.model, "task": kept.task, "texts": [prompt], "note": kept.note}
    explorer = ModelExplorer({kept.name: shown}, title=name)
    say("Done: the page computes the model itself; other texts can be typed in it.")
    return Seen(explorer, f"{name}: {prompt}", f"The model {kept.name!r} of the chapter {chapter}.")


def is_stored(name: str) -> bool:
    """Whether the name begins with a chapter that has stored models, and no folder of that name lies here."""
    chapters = {path.parent.name for path in STORED.glob("*/*.safetensors")}
    return name.partition("/")[0] in chapters and not expanded(name).is_dir()


def _known(method: str) -> str:
    if method in COMPARING:
        raise ValueError(
            f"{method} compares with another prompt, for which this command has no place: "
            f"attribute(model, input_ids, method={method!r}, counterfactual=...) does that"
        )
    if method not in METHODS:
        meant = hint(method, ONE_PROMPT) or "."
        raise ValueError(f"there is no method {method!r}{meant} There are {'; '.join(ONE_PROMPT)}")
    return method


def short(name: str) -> str:
    """A folder's own name, without the way to it; any other name as it is."""
    folder = expanded(name)
    return folder.resolve().name if folder.is_dir() else name


def checked_place(path: Path) -> Path:
    """The path, if a page can be written there: asked before the minutes that it takes to make one.

    Raises:
        ValueError: its folder does not exist or cannot be written to, or it is something else than a file.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it: -o {path / 'look.html'}")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into; make it first")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file that a page could replace; name one: -o look.html")
    try:
        tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise ValueError(f"{path.name} cannot be written into {path.parent}: {error.strerror}") from error
    return path

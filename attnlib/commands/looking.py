"""From a model's name and a prompt to an explorer of the tokens that the model's words depend on.

There are four kinds of picture. By default, and for most of `METHODS`, each generated token has its scores by
the chosen method, beside rollout and plainer methods (`MeasureExplorer`). Rollout and its variants show the
matrix of generative rollout, layer by layer (`GenerationExplorer`). A model that came with the book is
computed by the page itself (`ModelExplorer`). A checkpoint shows the attention of its heads
(`AttentionExplorer`).
"""

from __future__ import annotations

import html
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from attnlib.attribution import METHODS, span_attributions
from attnlib.attribution.spans import token_attributions
from attnlib.attribution.stream import embedding_of
from attnlib.checks import hint
from attnlib.files import write_atomically
from attnlib.generators.prompts import continued, encode
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import check_prompt, logits_of
from attnlib.models.causal import NO_NUMBER, reads_ahead
from attnlib.models.greedy import write_greedily
from attnlib.models.pretrained import BUILT_IN, check_model_folder, load_language_model
from attnlib.models.stored import STORED, file_name, stored_model
from attnlib.models.transformer import Transformer
from attnlib.pieces import pieces, tokens_of
from attnlib.places import expanded
from attnlib.rollout import GenerativeRollout, generate_with_rollout
from attnlib.rollout.generative import check_generation, generate
from attnlib.widgets import AttentionExplorer, GenerationExplorer, MeasureExplorer, ModelExplorer
from attnlib.widgets.explorer import Explorer
from attnlib.widgets.static import whole_page

NEW_TOKENS = 20
"""The default of the largest number of tokens that a model writes."""

ROLLOUTS = {
    "rollout": (None, False),
    "sink-free rollout": ([0], False),
    "rollout over null": (None, True),
    "sink-free over null": ([0], True),
}
"""Methods shown by the matrix of generative rollout: its sink, and whether it is over the null model."""

COMPARING = ("attribution patching", "activation patching")
"""Methods that need a second prompt, which the command line does not take."""

ONE_PROMPT = [name for name in METHODS if name not in COMPARING]
"""The methods that the command line accepts."""

BESIDE = ("rollout", "mean attention", "raw attention, last layer")
"""Methods shown beside the chosen one; they share one forward pass."""

FIRST = {
    "AttnLRP": "AttnLRP propagates the prediction of a word back through the model to the words before it",
    "gradient x embedding": "Gradient x embedding estimates how far the prediction of a word would fall "
    "without a word before it",
    "gradient norm": "Gradient norm is how fast the prediction of a word changes with a word before it",
}
"""The default methods, of which the first that a model supports is used, and what each of them does."""

LONGEST = 1_500
"""The longest prompt, in tokens, for which a gradient method is the default; its graph takes gigabytes."""

ROLLOUT = (
    "rollout multiplies the attention of all layers, and in this book's tests of language models it does not "
    "find the source of an answer (chapter “Attention rollout for generated text”)"
)
"""The remark on rollout wherever it is shown."""

NAMED, LEAST = 3, 0.01
"""The most sources named in a line, and the least score of a named one, as a share of the largest."""

Say = Callable[[str], None]

Following = int | Int[Tensor, " given"]
"""What follows the prompt: a number of tokens for the model to write, or the ids of given tokens."""


@dataclass(frozen=True)
class Seen:
    """The result of `look`: a notebook shows it, and `save` writes it as a page.

    Attributes:
        note: a line below the picture: the model, and how its text was generated.
        folder: the temporary folder of files that `save` puts into the page; kept as long as this object.
        lead: a line above the picture: what the methods do.
    """

    explorer: Explorer
    title: str
    note: str
    folder: tempfile.TemporaryDirectory[str] | None = None
    lead: str = ""

    def save(self, path: str | Path) -> Path:
        """Writes the page atomically, replacing an older file, and returns its path."""
        place = check_place(Path(path))
        note = f"{html.escape(self.note)} Made by attnlib {version('attnlib')}."
        lead = f"<p>{html.escape(self.lead, quote=False)}</p>\n" if self.lead else ""
        body = f'{lead}{self.explorer.to_html()}\n<p style="font-size: 0.8rem">{note}</p>'
        page = whole_page(self.title, body)
        write_atomically(place.resolve(), page.encode())
        return place

    def _repr_mimebundle_(self, **how: Any) -> Any:
        """The explorer's output, for a notebook cell that ends with this object."""
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
    """Show which tokens the words of a model depend on, for one prompt.

    Args:
        name: a language model, as in `load_language_model`; `chapter/name`, a model that came with the book
            (`attnlib.models.stored.stored_model`); or a checkpoint of an attnlib `Transformer`, as its file
            or its training folder.
        prompt: the prompt's text; for a checkpoint, which has no tokenizer, its token ids ("3 1 4").
        method: a name of `ONE_PROMPT`; by default AttnLRP beside rollout, or where the model does not allow
            AttnLRP, the next of `FIRST`; for a prompt of more than `LONGEST` tokens, rollout alone.
        new_tokens: the most tokens that the model writes; `NEW_TOKENS` by default. Decoding is greedy,
            whatever the model's own generation settings are (`write_greedily`).
        chat: whether the prompt is put into the model's chat template.
        continuation: a text to follow in place of what the model would write.
        span: a part of the written text, which gets two pictures as a whole before those of single tokens:
            its direct sources, and its sources through all that was written before it (see
            `attnlib.attribution.spans`).
        say: a function that is called with lines of progress.

    Raises:
        ValueError: there is no such method or folder; the prompt is empty, too long, or not in the alphabet;
            the continuation is empty, or comes with a number of tokens; the span is not in the written text;
            or the model does not support the arguments, with the reason.
        ModelUnavailable: the model can be neither found nor downloaded.
    """
    if not isinstance(name, str):
        raise ValueError(
            f"name must be a text, of a language model or its folder; got a {type(name).__name__}. A model "
            "that is loaded already is shown by GenerationExplorer (attnlib.widgets)"
        )
    if not prompt.strip():
        raise ValueError("the prompt is empty; give the text that the model is to continue")
    checkpoint = checkpoint_of(name)
    if is_stored(name) or checkpoint:
        if any(given is not None for given in (method, new_tokens, continuation, span)) or chat:
            raise ValueError(
                f"{name} is shown by the attention of every head; --method, --new-tokens, --chat, "
                "--continuation and --span are for language models"
            )
        return _stored(name, prompt, say) if checkpoint is None else _drawn(checkpoint, prompt, say)
    if continuation is not None and new_tokens is not None:
        raise ValueError("--continuation says itself how many tokens there are: leave out --new-tokens")
    if method is not None:
        _known(method)
    new_tokens = NEW_TOKENS if new_tokens is None else new_tokens
    if new_tokens < 1:
        raise ValueError(f"a model writes at least one token here (--new-tokens 1); got {new_tokens}")
    check_model_folder(name)
    say(f"Loading {name} ...")
    model, tokenizer = load_language_model(name)
    unused = write_greedily(model, tokenizer)
    ids, forced = encode(prompt, tokenizer, chat).to(model.device), None
    if continuation is not None:
        forced = continued(prompt, continuation, tokenizer, chat)[1].to(model.device)
        new_tokens = len(forced)
    check_generation(model, ids, None, new_tokens, {})
    check_one_way(model, ids)
    refused = ""
    if method is None:
        method, refused = _first(model, ids[0])
    doing = f"Writing up to {new_tokens}" if forced is None else f"Given: {new_tokens} more"
    rolled = method in ROLLOUTS and span is None
    measures = method if method in ROLLOUTS else f"{method} and rollout"
    say(f"Read: {ids.shape[1]} tokens. {doing}, and following them by {measures} ...")
    shown = short(name)
    title = f"{shown}: {measures}"
    asked = (model, tokenizer, ids, method, new_tokens if forced is None else forced, title)
    explorer, found = (_rolled(*asked), "") if rolled else _measured(*asked, span)
    say(f"Done: {explorer.summary()}.")
    about = "; ".join([*([FIRST[method]] if method in FIRST else []), ROLLOUT])
    lead = " ".join([*([refused] if refused else []), f"{about[0].upper()}{about[1:]}."])
    for line in filter(None, (found, lead)):
        say(line)
    origin = "a folder" if expanded(name).is_dir() and name not in BUILT_IN else model.loaded_from
    wrote = _greedy(unused) if forced is None else "its continuation was given"
    return Seen(explorer, title, f"{shown}, from {origin}; {wrote}.", lead=lead)


def _first(model: Any, prompt: Int[Tensor, " prompt"]) -> tuple[str, str]:
    """The first method of `FIRST` that a model supports, or rollout; and why it is not AttnLRP, or ""."""
    METHODS["rollout"](model, prompt[None, :1])
    if len(prompt) > LONGEST:
        return "rollout", (
            f"The prompt has {len(prompt):,} tokens; beyond {LONGEST:,}, gradients take gigabytes of memory, "
            "and rollout stands alone. Ask for another method by --method AttnLRP."
        )
    refused = ""
    for name, instead in pairwise([*FIRST, "rollout"]):
        _, missing = _possible(model, prompt, [name])
        if not missing:
            return name, refused
        refused = f"{name} is not given, and {instead} stands in its place: {missing[name].rstrip('.')}."
    return "rollout", refused


def _greedy(unused: list[str]) -> str:
    """A clause that says that decoding was greedy, and names the model's settings that were not used."""
    wrote = "it wrote the likeliest token each time"
    return f"{wrote}; its own settings for writing were not used ({', '.join(unused)})" if unused else wrote


def check_one_way(model: Any, input_ids: Int[Tensor, "1 prompt"]) -> None:
    """Raise a ValueError if logits at the first token depend on the second, or are not finite.

    Encoders such as BERT can be loaded as causal language models, and then give meaningless logits.
    """
    two = input_ids.repeat(1, 2)[:, :2]
    with torch.no_grad(), evaluating(model):
        finite = logits_of(model, two).isfinite().all()
        ahead = reads_ahead(lambda given: logits_of(model, given), two, embedding_of(model))
    if not finite:
        raise ValueError(f"this {type(model).__name__} {NO_NUMBER}")
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
) -> tuple[MeasureExplorer, str]:
    """An explorer with a question for each token after the prompt, and a line of text on the main sources.

    A question has the scores of the tokens before its own. If a span is given, two questions about it come
    first: its sources directly, and through what was written before it. For a single token, the token that
    predicts it is no candidate, since every prediction depends on it. The text names the largest sources of
    the span as a whole, or of the first token with a letter or digit.
    """
    if isinstance(following, int):
        every = generate(model, ids, following, {"do_sample": False})[0]
    else:
        every = torch.cat([ids[0], following])
    words, start = pieces(every.tolist(), tokenizer), ids.shape[1]
    beside, missing = _possible(model, every[:start], [name for name in BESIDE if name != method])
    questions = dict[str, Any]()

    def ask(label: str, scores: dict[str, Tensor], predicted: str, alone: bool = False) -> None:
        moved = {name: score.detach().float().cpu() for name, score in scores.items()}
        among = torch.stack([*moved.values()]).isfinite().all(0)  # NaN: the token that predicts
        n = len(among)
        if alone and n > 1:
            among[-1] = False
        asked = {"tokens": words[:n], "query": n - 1, "predicted": predicted, "missing": missing}
        questions[label] = asked | {"scores": moved, "candidates": among}

    measures = [method, *beside]
    if span is not None:
        place = _place(span, every, start, tokenizer)
        ask(f"{span!r}, as a whole", span_attributions(model, every, place, measures), span)
        through = span_attributions(model, every, place, measures, written=start)
        ask(f"{span!r}, through what was written before it", through, span)
    wholes = len(questions)
    rows = token_attributions(model, every, (start, len(every)), measures)
    for at in range(start, len(every)):
        scores = {name: each[at - start, :at] for name, each in rows.items()}
        ask(f"{at - start + 1}: {words[at]!r}", scores, words[at], alone=True)
    written = [""] * wholes + words[start:]
    first_word = next((i for i, word in enumerate(written) if any(map(str.isalnum, word))), wholes)
    item = first_word if span is None else 0
    found = _sources([*questions.values()][item], [method, *beside[:1]])
    return MeasureExplorer(questions, title=title, first=method, written=written, item=item), found


def _sources(question: dict[str, Any], measures: list[str]) -> str:
    """A line with the tokens that have the largest scores by each of some methods."""
    found = []
    for name in measures:
        scores = question["scores"][name].where(question["candidates"], 0.0)
        most, places = scores.topk(min(NAMED, len(scores)))
        named = [
            f"{question['tokens'][at].strip() or repr(question['tokens'][at])} {score:.2g}"
            for score, at in zip(most.tolist(), places.tolist(), strict=True)
            if score > LEAST * max(float(most[0]), 0.0)
        ]
        found.append(f"by {name}: {', '.join(named) or 'nothing'}")
    return f"{question['predicted'].strip()!r} {'; '.join(found)}."


def _place(span: str, every: Int[Tensor, " token"], start: int, tokenizer: Any) -> tuple[int, int]:
    """The first token of a span in the text written from `start` on, and the one after its last token."""
    try:
        first, stop = tokens_of(span, every[start:].tolist(), tokenizer)
    except ValueError as error:
        raise ValueError(f"--span {error}") from error
    return start + first, start + stop


def _possible(
    model: Any, prompt: Int[Tensor, " prompt"], methods: list[str]
) -> tuple[list[str], dict[str, str]]:
    """The methods that a model supports, and by name the reasons why it does not support the others."""
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


def _drawn(file: Path, prompt: str, say: Say) -> Seen:
    """The attention of every head of a checkpoint, on a prompt of token ids."""
    say(f"Loading {file} ...")
    model, ids = Transformer.load(file), _numbers(prompt)
    check_prompt(model, ids, None, name="the prompt")
    with torch.no_grad():
        attentions = model(ids, output_attentions=True).attentions[0]
    shown = file.stem if file.stem != "best" else file.resolve().parent.name
    explorer = AttentionExplorer(prompt.split(), attentions, title=shown)
    say(f"Done: {explorer.summary()}.")
    return Seen(
        explorer, f"{shown}: attention", f"The checkpoint {file.name} of {shown}; tokens by their ids."
    )


def _numbers(prompt: str) -> Int[Tensor, "1 token"]:
    """The token ids in a prompt of numbers; raises a ValueError for any other text."""
    words = prompt.split()
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise ValueError(
            "a checkpoint of an attnlib Transformer knows no words: the prompt should be the ids of its "
            f'tokens with blanks between them, such as "3 1 4"; got {prompt!r:.80}. In Python, the task that '
            "it was trained on gives the ids of a text"
        )
    return torch.tensor([[int(word) for word in words]])


def checkpoint_of(name: str) -> Path | None:
    """The checkpoint file of an attnlib `Transformer` that a path or training folder names, or None."""
    path = expanded(name)
    if path.suffix == ".safetensors" and path.is_file() and not path.with_name("config.json").exists():
        return path
    best = path / "best.safetensors"
    return best if best.is_file() and not (path / "config.json").exists() and not is_stored(name) else None


def files_of(name: str) -> list[Path]:
    """The files that are read for a model of this name, except copies in a cache."""
    path = expanded(name)
    if is_stored(name):
        chapter, _, own = name.partition("/")
        path = STORED / chapter / f"{file_name(own)}.safetensors"
    found = path.iterdir() if path.is_dir() else [path]
    return [each for each in found if each.is_file() and each.suffix != ".html"]  # without earlier pages


def is_stored(name: str) -> bool:
    """Whether the name begins with a chapter that has stored models, and is not an existing folder."""
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
    """A folder's own name, without its path; any other name unchanged."""
    folder = expanded(name)
    return folder.resolve().name if folder.is_dir() else name


def check_place(path: Path, model: str = "") -> Path:
    """The path; raises a ValueError unless a page can be written there, before minutes are spent on it."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it: -o {path / 'look.html'}")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into; make it first")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file that a page could replace; name one: -o look.html")
    if path.exists() and any(path.samefile(each) for each in files_of(model) if model):
        raise ValueError(f"{path} is a file of the model itself; name another one: -o look.html")
    try:
        tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise ValueError(f"{path.name} cannot be written into {path.parent}: {error.strerror}") from error
    return path

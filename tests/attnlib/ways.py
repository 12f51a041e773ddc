"""Every way of asking a model what attnlib can say of it, and the outcome of each:

equal       as by other means (`tests.attnlib.references`), to rounding
refused     attnlib said in words why not
raw         an error that attnlib did not mean to give
wrong       an answer, and another one than by other means
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import attnlib
from attnlib.attribution import attributions
from attnlib.attribution.perturbation import activation_patching, attention_knockout, blank_out
from attnlib.rollout import generate_with_rollout, rollout_of, stream_with_rollout
from attnlib.rollout.core import rollout_by_definition, rows_of_generation
from tests.attnlib.references import (
    LENGTH,
    NEW,
    PROMPT,
    QUERY,
    Linear,
    SoftmaxChanged,
    Subject,
)

HOME = str(Path(attnlib.__file__).parent)
MISSING = 3
"""How many tokens are padding."""

ROUNDING, HALF = 5e-4, 0.03
"""How far two computations of the same number may be apart, relative to the largest; in bfloat16."""

COARSE = ("mobilebert",)
"""Model types without norms, whose numbers grow: some processors round them twice as coarsely."""

ADD_CONSTANTS = ("ctrl", "gpt_oss", "minimax_m3_vl_text")
"""Model types that add what is no parameter (positions as sines, 1 to a gate): it has a share of a logit."""

Found = tuple[Tensor, Tensor]
"""What attnlib says, and what it should."""

WAYS: dict[str, Callable[[Subject], Found]] = {}


class Wrong(Exception):
    """An answer that cannot be."""


class NotAsked(Exception):
    """What the model itself cannot do."""


def way(name: str) -> Callable[[Callable[[Subject], Found]], Callable[[Subject], Found]]:
    """Enter a way of asking by its name."""

    def entered(function: Callable[[Subject], Found]) -> Callable[[Subject], Found]:
        WAYS[name] = function
        return function

    return entered


def outcome(subject: Subject, name: str) -> tuple[str, str]:
    """What comes of a way of asking, and what there is to say of it."""
    try:
        found, expected = (each.detach().double() for each in WAYS[name](subject))
    except NotAsked:
        return "", "the model itself cannot do it"
    except Wrong as error:
        return "wrong", str(error)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        if isinstance(error, ValueError | TypeError | NotImplementedError) and where.startswith(HOME):
            return "refused", str(error)
        return "raw", f"{type(error).__name__}: {error} ({where.split('site-packages/')[-1]})"
    if found.shape != expected.shape:
        return "wrong", f"shape {tuple(found.shape)} in place of {tuple(expected.shape)}"
    size, apart = float(expected.abs().max()), float((found - expected).abs().max())
    allowed = HALF if "bfloat16" in name else ROUNDING * max(1.0, size)
    allowed *= 2 if subject.model_type in COARSE else 1
    return "equal" if apart <= allowed else "wrong", f"{apart:.2g} apart, of {size:.2g}"


@way("rollout")
def plainly(subject: Subject) -> Found:
    found = rollout_of(subject.model, subject.ids)

    def itself(scores: Tensor) -> Tensor:
        alone = torch.eye(*scores.shape[-2:], dtype=torch.bool)
        return torch.zeros_like(scores).masked_fill(~alone, torch.finfo(scores.dtype).min)

    changed = torch.cat([subject.other[:, :-1], subject.ids[:, -1:]], 1)
    with SoftmaxChanged(itself) as block:
        first, second = (subject.logits(ids, eager=True)[:, -1] for ids in (subject.ids, changed))
    assert block.calls, "no softmax of attention was seen"
    if not torch.allclose(first, second, atol=1e-4):
        raise Wrong("with attention of each token on itself, other tokens still move what the last one says")
    return found, subject.rollout


@way("rollout of some keys")
def keys(subject: Subject) -> Found:
    chosen = [0, 4, LENGTH - 1]
    return rollout_of(subject.model, subject.ids, keys=chosen), subject.rollout[:, :, chosen]


@way("rollout of some rows")
def rows(subject: Subject) -> Found:
    return rollout_of(subject.model, subject.ids, rows=[3, -1]), subject.rollout[:, [3, LENGTH - 1]]


@way("rollout with padding on the left")
def padded_left(subject: Subject) -> Found:
    return padded(subject, slice(MISSING, None), slice(None, MISSING))


@way("rollout with padding on the right")
def padded_right(subject: Subject) -> Found:
    return padded(subject, slice(None, -MISSING), slice(-MISSING, None))


def padded(subject: Subject, real: slice, padding: slice) -> Found:
    """Of two prompts, one of them shorter: each as it is alone, where the model can be told positions."""
    mask = torch.ones_like(subject.ids)
    mask[0, padding] = 0
    ids = subject.ids.masked_fill(mask == 0, subject.pad)
    found = rollout_of(subject.model, ids, mask)
    if subject.takes("position_ids"):
        attentions = subject.attentions(subject.one[:, real])
    else:
        attentions = [each[:1, :, real, real] for each in subject.attentions(ids, attention_mask=mask)]
    asked = found[0, real, real], found[1]
    alone = rollout_by_definition(attentions)[0, -1], subject.rollout[1]
    return tuple(torch.cat([each.flatten() for each in both]) for both in (asked, alone))


@way("rollout of 160 tokens")
def of_many(subject: Subject) -> Found:
    found = rollout_of(subject.model, subject.long)
    return found, rollout_by_definition(subject.attentions(subject.long))[:, -1]


@way("rollout in bfloat16")
def half(subject: Subject) -> Found:
    model, eager = (copy.deepcopy(each).bfloat16() for each in (subject.model, subject.eager))
    try:
        found = rollout_of(model, subject.ids)
    except (RuntimeError, ValueError) as error:
        try:
            model(input_ids=subject.ids)
        except RuntimeError:  # some operation knows no bfloat16
            raise NotAsked from error
        except (TypeError, ValueError):  # it wants more than one input: what attnlib said of it stands
            pass
        raise
    return found, rollout_by_definition(subject.attentions(subject.ids, eager))[:, -1]


@way("rollout of what it writes")
def generation(subject: Subject) -> Found:
    result = generate_with_rollout(subject.model, subject.one[:, :PROMPT], NEW, do_sample=False)
    tokens, expected = subject.generated()
    if not torch.equal(result.tokens, tokens):
        raise Wrong("other tokens are written")
    return result.matrix, expected


@way("rollout while it writes")
def streaming(subject: Subject) -> Found:
    stream = [*stream_with_rollout(subject.model, subject.one[:, :PROMPT], NEW, do_sample=False)]
    tokens, expected = subject.generated()
    if [each.token for each in stream] != tokens.tolist():
        raise Wrong("other tokens are written")
    return torch.stack([each.row for each in stream]), expected


@way("rollout of a given continuation")
def continuation(subject: Subject) -> Found:
    forced = subject.one[0, PROMPT:]
    found = generate_with_rollout(subject.model, subject.one[:, :PROMPT], continuation=forced)
    # RoBERTa's kin count positions otherwise where they write, and Moshi's window is lost with a cache
    rolled = rollout_by_definition(subject.attentions(subject.one[:, :-1]))
    written, read = subject.generated(forced)[1], rows_of_generation(rolled, PROMPT)
    return found.matrix, min(written, read, key=lambda each: float((each - found.matrix).abs().max()))


@way("gradient x embedding")
def gradient(subject: Subject) -> Found:
    found, target = asked(subject, "gradient x embedding"), subject.target
    share = torch.zeros(LENGTH, requires_grad=True)

    def scaled(module: Any, given: Any, output: Any) -> Any:
        more = 1 + share[:, None]
        return (output[0] * more, *output[1:]) if isinstance(output, tuple) else output * more

    with hooked(subject.model.get_input_embeddings(), scaled):
        logits = subject.called(subject.model, subject.one).logits
        score = logits[0, QUERY].double().log_softmax(-1)[target]
        (expected,) = torch.autograd.grad(score, share)
    return found, expected


@way("blank-out")
def left_out(subject: Subject) -> Found:
    found = blank_out(subject.model, subject.one, query=QUERY, batch_size=3)
    takes_places = subject.takes("position_ids")
    first, expected = subject.first_place() if takes_places else 0, list[Tensor]()
    for token in range(LENGTH - 1):
        kept = torch.arange(LENGTH) != token
        ids, places = subject.one[:, kept], first + kept.nonzero().mT
        inputs = {"position_ids": places} if takes_places else {}
        logits = subject.logits(ids, attention_mask=torch.ones_like(ids), **inputs)
        expected.append(subject.falls(nn.functional.pad(logits, (0, 0, 1, 0))))
    return found[0, :-1], torch.cat(expected)


@way("blank-out with a replacement")
def replaced(subject: Subject) -> Found:
    found = blank_out(subject.model, subject.one, query=QUERY, replacement=11, batch_size=3)
    ids = subject.copies().fill_diagonal_(11)
    return found[0], subject.falls(torch.cat([subject.logits(each[None]) for each in ids]))


@way("attention knockout")
def knockout(subject: Subject) -> Found:
    found = attention_knockout(subject.model, subject.one, query=QUERY)

    def hidden(scores: Tensor) -> Tensor:
        scores, token = scores.clone(), torch.arange(LENGTH)
        scores[token, :, QUERY, token] = torch.finfo(scores.dtype).min
        return scores

    with SoftmaxChanged(hidden) as block:
        logits = subject.logits(subject.copies(), eager=True)
    assert block.calls, "no softmax of attention was seen"
    return found[0], subject.falls(logits)


@way("activation patching of embeddings")
def patched_embeddings(subject: Subject) -> Found:
    return patched(subject, 0, lambda: subject.model.get_input_embeddings())


@way("activation patching of layer 1")
def patched_layer(subject: Subject) -> Found:
    return patched(subject, 1, lambda: subject.layers()[0])


def patched(subject: Subject, layer: int, place: Callable[[], nn.Module]) -> Found:
    """Each token's stream at a place as it is in another prompt."""
    found = activation_patching(
        subject.model, subject.one, query=QUERY, counterfactual=subject.other[:1], layer=layer, batch_size=3
    )
    there, token = list[Tensor](), torch.arange(LENGTH)

    def keep(module: Any, given: Any, output: Any) -> None:
        there.append((output if isinstance(output, Tensor) else output[0]).clone())

    def patch(module: Any, given: Any, output: Any) -> Any:
        stream = (output if isinstance(output, Tensor) else output[0]).clone()
        stream[token, token] = there[0][0]
        return stream if isinstance(output, Tensor) else type(output)([stream, *output[1:]])

    with hooked(place(), keep):
        subject.logits(subject.other[:1])
    with hooked(place(), patch):
        logits = subject.logits(subject.copies())
    return found[0], subject.falls(logits)


@way("LRP, attention held constant")
def relevance(subject: Subject) -> Found:
    bare = subject.without_constants()
    found = asked(bare, "LRP, attention held constant")
    logit = float(bare.logits(bare.one)[0, QUERY, bare.target])
    off = abs(float(found.sum()) - logit)
    if off > ROUNDING * max(1.0, float(found.abs().max())) and subject.model_type not in ADD_CONSTANTS:
        raise Wrong(f"scores sum to {float(found.sum()):.3g}, and the logit is {logit:.3g}")
    embedded = list[Tensor]()

    def leaf(module: Any, given: Any, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[0] * 1

    eager = bare.eager.requires_grad_(False)
    with hooked(eager.get_input_embeddings(), leaf):
        with Linear(eager):
            logits = bare.called(eager, bare.one).logits
        (expected,) = torch.autograd.grad(logits[0, QUERY, bare.target], embedded)
    return found, (embedded[0].detach() * expected).sum(-1)[0]


@way("ALTI")
def alti(subject: Subject) -> Found:
    return shares(subject, "ALTI")


@way("value zeroing")
def zeroing(subject: Subject) -> Found:
    return shares(subject, "value zeroing")


def shares(subject: Subject, name: str) -> Found:
    """Numbers that are at least 0 and sum to 1."""
    found = asked(subject, name)
    if bool((found < 0).any()):
        raise Wrong("shares below 0")
    return found.sum(), torch.tensor(1.0)


def asked(subject: Subject, name: str) -> Tensor:
    """What a measure says of the first prompt."""
    return attributions(subject.model, subject.one, name)[name][0]


def hooked(module: nn.Module, hook: Callable[..., Any]) -> Any:
    """A block in which a hook is there."""
    return module.register_forward_hook(hook)

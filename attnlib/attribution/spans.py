r"""What a whole answer depends on: any measure, applied to a span of tokens in place of one token.

With `t_1 ... t_n` the tokens, of which those from `w` on were written, `a_i(k)` a measure's score of token
`k` for the prediction of token `i`, and `S` the span,

    directly        1/|S| sum over i in S of a_i(k)                   k before the span
    through hops    1/|S| sum over i in S of P_i(k)                   k in the prompt

For measures in nats, that explains the log-probability of the whole span, per token. A written token itself
depends on the prompt. Hops pass its share on to it: with the shares `b_i(k) = |a_i(k)| / sum of |a_i|`,

    P_i(k) = b_i(k) + sum over written j before i of b_i(j) P_j(k),

so that an answer's shares of the prompt sum to 1, whatever was written in between, unless a measure gives all
tokens 0 (then to less). With `B` the shares of the prompt and `L` those of the written tokens,
`P = (I - L)^-1 B`: all chains at once.

The token before `i`, at whose position `i` is predicted, is left out of these shares, or counted (`own`). The
residual connection carries it on whole, so that rollout, say, ranks it first whether it matters or not, and
hops then lead from every token to the one before. If it is left out, chains through it are lost: all chains,
in a walk through a table, where each symbol is found by the one before. `blank_out` gives that token NaN,
which hops count as 0; without hops, the last token before a span then has no score.

Source:
    Pan et al. 2026, *Towards Long-Horizon Interpretability* (FlashTrace): spans, and hops, there of the span
    as a whole and a chosen number of them.
"""

from __future__ import annotations

from functools import partial
from operator import index
from types import SimpleNamespace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attended import bar
from attnlib.attribution.attention import one_pass, scores_of, shares_a_pass
from attnlib.attribution.prompts import Method, Prompts
from attnlib.attribution.registry import Methods, named
from attnlib.checks import check, check_between
from attnlib.models.attention.forward import check_prompt
from attnlib.models.causal import is_causal
from attnlib.options import plain_options


def token_attributions(
    model: nn.Module, input_ids: Int[Tensor, " text"], span: tuple[int, int], methods: Methods
) -> dict[str, Float[Tensor, "row token"]]:
    """What each token of a span depends on, by method: `a_i` as a row per token `i`, and 0 from `i` on.

    The span is (first, one after the last), as positions. No method may need a counterfactual.
    """
    first, stop = _check_span(span, input_ids)
    if not is_causal(model):
        raise ValueError(
            f"{type(model).__name__} is not causal, so a span cannot be explained token by token"
        )
    ids, _ = check_prompt(model, input_ids[None, :stop], None)
    return _rows(model, ids, list(range(first, stop)), named(methods))


@plain_options
def span_attributions(
    model: nn.Module,
    input_ids: Int[Tensor, " token"],
    span: tuple[int, int],
    methods: Methods,
    *,
    written: int | None = None,
    own: bool = False,
) -> dict[str, Float[Tensor, " key"]]:
    """What a span of a text depends on, by many methods; those that only watch attention share one pass.

    Args:
        model: causal, as in `attributions`.
        input_ids: the prompt and what was written.
        span: the position of its first token, and the one after its last.
        methods: as in `attributions`, but none that needs a counterfactual.
        written: the position where the written text begins: scores then go through hops, to the prompt; by
            default they are direct, for all tokens before the span.
        own: whether hops also lead through the token before each predicted one.

    Returns:
        A score per token, by method: see the module's docstring.

    Raises:
        ValueError: there is no such span, or nothing before it; the written text begins after the span does;
            the model is not causal; or as in `attributions`.
    """
    start, stop = _check_span(span, input_ids)
    check_between(1, start, written=written)
    rows = token_attributions(model, input_ids, (start if written is None else written, stop), methods)
    if written is None:
        return {name: each[:, :start].mean(0) for name, each in rows.items()}
    hops = {name: through_hops(each, written, own=own) for name, each in rows.items()}
    return {name: each[start - written :].mean(0) for name, each in hops.items()}


def through_hops(
    rows: Float[Tensor, "written token"], written: int, *, own: bool = False
) -> Float[Tensor, "written prompt"]:
    """How each written token depends on the prompt, through all tokens written before: `P_i` in row `i`.

    NaN and infinity in `rows` count as 0.
    """
    shares = rows.cpu().double().nan_to_num(0.0, 0.0, 0.0).abs().tril(written - 2 + own)
    shares = shares / shares.sum(1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    chains = torch.eye(len(shares), dtype=shares.dtype) - shares[:, written:].tril(-1)
    return torch.linalg.solve_triangular(chains, shares[:, :written], upper=False).to(rows)


def _check_span(span: tuple[int, int], input_ids: Int[Tensor, " text"]) -> tuple[int, int]:
    """The span as two positions; a `ValueError` for no single text, or a span with no token before it."""
    one = isinstance(input_ids, Tensor) and input_ids.ndim == 1
    check(one, "input_ids must be one text, a tensor [token]", getattr(input_ids, "shape", input_ids))
    n = len(input_ids)
    try:
        first, stop = map(index, span)
    except (TypeError, ValueError):
        first = stop = 0
    check(0 < first < stop <= n, f"span must be (first, one after the last), from 1 to {n}", span)
    return first, stop


def _rows(
    model: nn.Module, ids: Int[Tensor, "1 token"], predicted: list[int], methods: dict[str, Method]
) -> dict[str, Float[Tensor, "row token"]]:
    """The scores of the tokens before each predicted one, and 0 from it on, in as few passes as possible."""
    n = ids.shape[1]
    together = {
        name: SimpleNamespace(of_attention=partial(_of_rows, method, predicted))
        for name, method in methods.items()
        if shares_a_pass(method)
    }
    found = one_pass(model, Prompts(ids[:, :-1], n - 2), together)[0] if together else {}
    asked = [Prompts(ids[:, :at], at - 1, ids[:, at]) for at in predicted]
    for name, method in methods.items():
        if hasattr(method, "of_text"):
            rows = torch.cat(method.of_text(model, ids[:, :-1], asked))
            before = (
                torch.arange(n, device=rows.device) < torch.tensor(predicted, device=rows.device)[:, None]
            )
            found[name] = nn.functional.pad(rows, (0, 1)).where(before, 0.0)
    alone = {name: method for name, method in methods.items() if name not in found}
    each: dict[str, list[Tensor]] = {name: [] for name in alone}
    for prompts in bar(asked, desc="tokens", leave=False) if alone else ():
        for name, scores in scores_of(model, prompts, alone).items():
            each[name].append(nn.functional.pad(scores[0], (0, n - prompts.ids.shape[1])))
    found |= {name: torch.stack(rows) for name, rows in each.items()}
    return {name: found[name].detach() for name in methods}


def _of_rows(
    method: Method, predicted: list[int], attention: Float[Tensor, "1 layer query key"], query: int
) -> Float[Tensor, "row token"]:
    """The scores that a method of attention alone gives each prediction, from one pass over the text."""
    n = attention.shape[-1] + 1
    parts = [method.of_attention(attention[:, :, :at, :at], at - 1)[0] for at in predicted]  # type: ignore[attr-defined]
    return torch.stack([nn.functional.pad(part, (0, n - len(part))) for part in parts])

"""Every measure of attribution by name, and one function to evaluate any of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.attribution import attention, decomposition, gradients, lrp, perturbation, reagent, surrogate
from attnlib.attribution.attention import ask, from_attention
from attnlib.attribution.prompts import Counterfactual, Mask, Method, Target
from attnlib.checks import check, check_one_of
from attnlib.options import plain_options

METHODS: dict[str, Method] = {
    "raw attention, last layer": from_attention(attention.last_layer),
    "mean attention": from_attention(attention.mean_attention),
    "rollout": from_attention(attention.rolled),
    "sink-free rollout": from_attention(attention.rolled, sink=[0]),
    "rollout over null": from_attention(attention.over_null),
    "sink-free over null": from_attention(attention.over_null, sink=[0]),
    "flow": from_attention(attention.flow),
    "value-weighted attention": decomposition.value_weighted,
    "mean value-weighted attention": decomposition.mean_value_weighted,
    "rollout of value-weighted attention": decomposition.value_weighted_rollout,
    "ALTI": decomposition.alti,
    "ALTI-Logit": decomposition.alti_logit,
    "information flow routes": decomposition.information_flow_routes,
    "value zeroing": decomposition.value_zeroing,
    "gradient x embedding": gradients.gradient_x_embedding,
    "gradient norm": gradients.gradient_norm,
    "integrated gradients": gradients.integrated_gradients,
    "AttnLRP": lrp.attn_lrp,
    "LRP, attention held constant": lrp.attention_constant_lrp,
    "blank-out": perturbation.blank_out,
    "AtMan": perturbation.atman,
    "attention knockout": perturbation.attention_knockout,
    "attribution patching": perturbation.attribution_patching,
    "activation patching": perturbation.activation_patching,
    "ContextCite": surrogate.context_cite,
    "KernelSHAP": surrogate.kernel_shap,
    "ReAGent": reagent.reagent,
}
"""The measures by name, with the signature of `attnlib.attribution.prompts`; variants after the plain one."""

SIGNED = (
    "ALTI-Logit",
    "gradient x embedding",
    "integrated gradients",
    "AttnLRP",
    "LRP, attention held constant",
    "blank-out",
    "AtMan",
    "attention knockout",
    "attribution patching",
    "activation patching",
    "ContextCite",
    "KernelSHAP",
)
"""The methods whose scores may be below 0, for tokens that speak against the target. Scores of all others
have no sign: to compare the two kinds, take the absolute value of these."""

Methods = str | Method | Iterable[str | Method] | Mapping[str, str | Method]
"""Names of `METHODS`, your own functions of the same signature, or both; a mapping gives new names."""


def named(methods: Methods) -> dict[str, Method]:
    """The methods by name; a function goes by its `__name__`."""
    demand = "methods must be names of METHODS, or functions, each by a name of its own"
    check(isinstance(methods, str | Iterable) or callable(methods), demand, methods)
    if isinstance(methods, Mapping):
        names, given = [*methods], [*methods.values()]
    else:
        given = [methods] if isinstance(methods, str) or callable(methods) else [*methods]
        names = [each if isinstance(each, str) else getattr(each, "__name__", str(each)) for each in given]
    for each in given:
        if not callable(each):
            check_one_of(METHODS, methods=each)
    check(given and len(set(names)) == len(names), demand, names)
    return {
        name: METHODS[each] if isinstance(each, str) else each
        for name, each in zip(names, given, strict=True)
    }


@plain_options
def attributions(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"] | Int[Tensor, " token"],
    methods: Methods,
    attention_mask: Mask | Int[Tensor, " token"] | Bool[Tensor, " token"] = None,
    query: int = -1,
    target: Target = None,
    foil: Target = None,
    counterfactual: Counterfactual = None,
) -> dict[str, Float[Tensor, "batch key"] | Float[Tensor, " key"]]:
    """What one prediction depends on, by many methods; those that only watch attention share one pass.

    Args:
        model: an attnlib `Transformer`, or a model of Hugging Face's.
        input_ids: a batch; or one prompt, and then scores have no batch dimension, either.
        methods: names of `METHODS`, or functions of your own, `f(model, input_ids, attention_mask=None,
            query=-1, target=None, foil=None)`, which get prompts of one length without padding. Those that
            also take `counterfactual=None` are given it, too, if there is one.
        attention_mask: 1 for tokens, 0 for padding, on either side; of the shape of `input_ids`.
        query: the position that predicts, among an example's own tokens; negative ones from their end.
        target: the predicted token (one for all, or one each); the model's own prediction by default.
        foil: explain the target's score minus that of this token.
        counterfactual: what might have stood in `input_ids`' place, token by token; see
            `attnlib.attribution.prompts`. Patching raises a `ValueError` without it.

    Returns:
        A score per token, by method. A higher score means that the prediction drew more on the token; below
        0 (methods in `SIGNED`), the token speaks against the target. NaN: no score (blank-out at the query).

    Raises:
        ValueError: there is no such method; the model does not allow it; or tokens, positions or, for methods
            that use it, a target are out of range.
    """
    chosen, one = named(methods), getattr(input_ids, "ndim", 2) == 1
    ids = input_ids[None] if one else input_ids
    mask, other = (
        given[None] if one and isinstance(given, Tensor) and given.ndim == 1 else given
        for given in (attention_mask, counterfactual)
    )
    found = ask(model, ids, chosen, mask, query, target, foil, other)
    return {name: scores[0] for name, scores in found.items()} if one else found

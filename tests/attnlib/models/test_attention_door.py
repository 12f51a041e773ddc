"""One door to attention: what is changed and watched there, in any order, on any kernel, in any thread."""

import ast
import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from pathlib import Path

import pytest
import torch
import transformers as hf
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask
from transformers.models.llama.modeling_llama import repeat_kv

from attnlib.attribution import attributions
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import Wanted, heads_ablated, interface, reinforced, watching
from attnlib.models.attention.call import Affine
from attnlib.rollout import generate_with_rollout, rollout, rollout_of, stream_with_rollout
from tests.attnlib.rollout.test_rollout_value_slot import WAYS, N, defined, eager_attentions, take
from tests.attnlib.small_models import GROUPED, build, padding, tokens

KINDS = ("own", "llama", "llama, eager", "gpt2", "gemma2")
KEYS = (None, [3], [0, 5, -1])


def make(kind):
    if kind == "own":
        torch.manual_seed(0)
        config = TransformerConfig(vocabulary=97, n_layers=3, n_heads=4, width=32, causal=True, dropout=0.3)
        model = Transformer(config).eval()
        for layer in model.layers:
            layer.attention.qkv.weight.data.mul_(3)
        return model
    name, _, implementation = kind.partition(", ")
    model = build(name)
    if implementation:
        model.set_attn_implementation(implementation)
    return model


def reference(seed=0, batch=2, n=N):
    """Some keys of most queries, the future included: a push may go anywhere."""
    return torch.rand(batch, n, n, generator=torch.Generator().manual_seed(seed)) < 0.15


def attentions_of(model, ids):
    """What the model returns, as the blocks that are open make it."""
    if isinstance(model, Transformer):
        with torch.no_grad():
            return model(ids, output_attentions=True).attentions
    return torch.stack(eager_attentions(model, ids), 1)


def pushed(attention, heads, keys, strength, as_published=False):
    """`reinforced`, on attention matrices."""
    counts = keys.sum(-1, keepdim=True)
    onto = keys.float() if as_published else keys / counts.clamp(min=1)
    changed = attention.clone()
    for head in heads:
        kept = attention[:, head] if as_published else (1 - strength) * attention[:, head]
        changed[:, head] = torch.where(counts > 0, kept + strength * onto, attention[:, head])
    return changed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ablated_first", [True, False])
@pytest.mark.parametrize("instead", ["zero", "uniform"])
def test_changes_act_in_the_order_in_which_they_are_entered(kind, ablated_first, instead):
    model, ids, keys = make(kind), tokens(), reference()
    before = attentions_of(model, ids)[:, 0]
    push, ablate = reinforced(model, [(0, 1), (0, 2)], keys, 0.6), heads_ablated(model, [(0, 2)], instead)
    first, second = (ablate, push) if ablated_first else (push, ablate)
    with first, second:
        found = attentions_of(model, ids)[:, 0]
    expected = before.clone()
    for step in ("ablate", "push") if ablated_first else ("push", "ablate"):
        if step == "push":
            expected = pushed(expected, [1, 2], keys, 0.6)
        else:
            seen = torch.ones(N, N).tril()
            if kind == "gemma2":
                seen = seen.triu(-5)  # its first layer's window
            even = seen / seen.sum(-1, keepdim=True)
            expected[:, 2] = even if instead == "uniform" else 0.0
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_a_change_mixes_every_heads_own_values_where_heads_share_them():
    """`A' V` from `A V`, with the values of grouped heads laid out as transformers does."""
    drawn = torch.Generator().manual_seed(0)
    attention, onto = torch.rand(2, 2, 4, 5, 5, generator=drawn).softmax(-1)
    values = torch.rand(2, 2, 5, 8, generator=drawn)
    of_heads = repeat_kv(values, 2)
    expected = (0.4 * attention + 0.6 * onto) @ of_heads
    torch.testing.assert_close(Affine(0.4, 0.6, onto).of(attention @ of_heads, values), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["published", "uniform", "push all, then zero"])
def test_rollout_follows_the_attention_as_it_was_changed(kind, change, monkeypatch):
    model, ids, keys = make(kind), tokens(), reference()
    changes = {
        "published": [reinforced(model, None, keys, 2.5, as_published=True)],
        "uniform": [heads_ablated(model, [(1, 0), (2, 1)], "uniform")],
        "push all, then zero": [reinforced(model, None, keys, 0.75), heads_ablated(model, [(1, 1)])],
    }[change]
    plain = rollout_of(model, ids)
    with ExitStack() as blocks:
        for block in changes:
            blocks.enter_context(block)
        attentions = attentions_of(model, ids).unbind(1)
        for options in ({"sink": [0]}, {}):
            expected = defined(attentions, **options)
            for way, columns in zip(WAYS, KEYS, strict=True):
                take(way, monkeypatch)
                got = rollout_of(model, ids, keys=columns, **options)
                part = expected if columns is None else expected[..., columns]
                torch.testing.assert_close(got, part, atol=1e-5, rtol=0)
            got = rollout_of(model, ids, rows=[4, -1], **options)
            torch.testing.assert_close(got, expected[:, [4, -1]], atol=1e-5, rtol=0)
    take("auto", monkeypatch)
    assert torch.equal(rollout_of(model, ids), plain) and (plain - expected).abs().max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_watchers_see_the_same_pass(kind):
    model, ids, found = make(kind), tokens(), []

    def watch(call):
        mean, total = yield Wanted()
        found.append((mean, total))

    expected = attentions_of(model, ids).mean(2)
    calls = []
    original = interface.EagerCall.rows
    interface.EagerCall.rows = lambda self, *block: calls.append(block) or original(self, *block)
    try:
        with torch.no_grad(), watching(model, watch, watch), watching(model, watch):
            model(ids)
    finally:
        interface.EagerCall.rows = original
    assert len(found) == 9
    assert len(calls) == (3 if kind in ("llama, eager", "gemma2") else 0), "formed once per layer"
    for place, (mean, _) in enumerate(found):
        torch.testing.assert_close(mean, expected[:, place // 3], atol=1e-6, rtol=0)
    assert not interface._led_here.users and interface._open.get() == ()


@pytest.mark.parametrize("kind", ["gemma2", "gpt_oss"])
@pytest.mark.filterwarnings("ignore:Attention rows")
def test_everything_of_one_pass_on_an_eager_model(kind):
    model, ids = build(kind), tokens()
    attentions = torch.stack(eager_attentions(model, ids), 1)
    expected = {
        "mean attention": attentions.mean((1, 2))[:, -1],
        "rollout": rollout(attentions, rows=[-1])[:, 0],
        "sink-free rollout": rollout(attentions, rows=[-1], sink=[0])[:, 0],
    }
    for name, scores in attributions(model, ids, [*expected]).items():
        torch.testing.assert_close(scores, expected[name], atol=1e-5, rtol=0)


def registered(name, function, mask=sdpa_mask):
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, mask)


@pytest.fixture
def names():
    """Names registered by a test are taken out again."""
    before = dict(AttentionInterface._global_mapping), dict(AttentionMaskInterface._global_mapping)
    yield
    AttentionInterface._global_mapping, AttentionMaskInterface._global_mapping = before


@pytest.mark.parametrize("options", [{}, {"keys": [0, 3]}, {"sink": [2]}, {"rows": [-1]}], ids=str)
@pytest.mark.filterwarnings("ignore:Attention rows")
def test_a_kernel_of_some_name_whose_softmax_has_sinks(names, options):
    model, ids = build("gpt_oss"), tokens()
    function = hf.models.gpt_oss.modeling_gpt_oss.eager_attention_forward
    attentions = eager_attentions(model, ids)
    assert attentions[0].sum(-1).mean() < 0.97
    registered(
        "kernel with sinks",
        lambda *call, **how: (function(*call, **how)[0], None),
        hf.masking_utils.eager_mask,
    )
    model.set_attn_implementation("kernel with sinks")
    dense = {name: value for name, value in options.items() if name != "keys"}
    expected = rollout(attentions, **dense)[..., options.get("keys", slice(None))]
    torch.testing.assert_close(rollout_of(model, ids, **options), expected, atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="known to this"), heads_ablated(model, [(0, 0)], "uniform"):
        model(ids)


def test_a_kernel_whose_mask_is_no_tensor(names):
    """As flex_attention's."""
    model, ids = build("llama"), tokens()
    sdpa = AttentionInterface._global_mapping["sdpa"]

    def kernel(module, query, key, value, attention_mask, **how):
        return sdpa(module, query, key, value, attention_mask["blocks"], **how)

    registered("blocked", kernel, lambda *given, **how: {"blocks": sdpa_mask(*given, **how)})
    expected = rollout_of(model, ids)
    model.set_attn_implementation("blocked")
    torch.testing.assert_close(rollout_of(model, ids), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("options", [{}, {"rows": [-1]}, {"keys": [5]}, {"sink": [6]}], ids=str)
@pytest.mark.parametrize(("kind", "side"), [("llama", "left"), ("bert", "left"), ("bert", "right")])
def test_a_kernel_that_looks_at_padding_is_refused(names, kind, side, options):
    """Without a mask of its own, a kernel is given none."""
    model, ids = build(kind), tokens()
    sdpa, plain = AttentionInterface._global_mapping["sdpa"], rollout_of(model, ids, **options)
    AttentionInterface.register("without a mask", lambda *call, **how: sdpa(*call, **how))
    model.set_attn_implementation("without a mask")
    torch.testing.assert_close(rollout_of(model, ids, **options), plain, atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="kernel does not leave out padding: a token gives it up to 0"):
        rollout_of(model, ids, padding(side), **options)


@pytest.mark.parametrize("options", [{}, {"rows": [-1]}, {"keys": [5]}, {"sink": [6]}], ids=str)
@pytest.mark.parametrize(
    ("kind", "side"), [("llama", "left"), ("gpt2", "left"), ("bert", "left"), ("bert", "right")]
)
def test_a_formula_of_a_model_s_own_that_looks_at_padding_is_refused(monkeypatch, kind, side, options):
    model, ids, mask = build(kind), tokens(), padding(side)
    model.set_attn_implementation("eager")
    file = getattr(hf.models, kind)
    file = getattr(file, f"modeling_{kind}")
    formula, expected = file.eager_attention_forward, rollout_of(model, ids, mask, **options)

    def careless(module, query, key, value, attention_mask, **how):
        if attention_mask is not None and len(attention_mask) == 2:  # the second text has no padding
            attention_mask = attention_mask[1:].expand_as(attention_mask)
        return formula(module, query, key, value, attention_mask, **how)

    monkeypatch.setattr(file, "eager_attention_forward", careless)
    with pytest.raises(ValueError, match="kernel does not leave out padding: a token gives it up to 0"):
        rollout_of(model, ids, mask, **options)
    monkeypatch.setattr(file, "eager_attention_forward", formula)
    torch.testing.assert_close(rollout_of(model, ids, mask, **options), expected)


def test_padding_that_a_kernel_cannot_see_is_no_matter(names):
    model, ids, mask = build("llama"), tokens(), padding("right")
    sdpa, plain = AttentionInterface._global_mapping["sdpa"], rollout_of(model, ids, mask, sink=[0])
    AttentionInterface.register("without a mask", lambda *call, **how: sdpa(*call, **how))
    model.set_attn_implementation("without a mask")
    torch.testing.assert_close(rollout_of(model, ids, mask, sink=[0]), plain, atol=1e-5, rtol=0)


def test_attention_beside_recurrence_is_refused():
    sizes = {"mamba_d_ssm": 32, "mamba_n_heads": 4}
    sizes |= {"mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8}
    model = hf.FalconH1ForCausalLM(hf.FalconH1Config(**GROUPED | sizes)).eval()
    with pytest.raises(ValueError, match="FalconH1ForCausalLM mixes tokens by more than the attention"):
        rollout_of(model, tokens())


def test_padding_on_the_left_shifts_no_positions():
    model, ids = build("gpt2"), tokens(1, 9)
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.long), ids], 1)
    mask = (torch.arange(13) >= 4).long()[None]
    expected = rollout_of(model, ids)
    torch.testing.assert_close(rollout_of(model, padded, mask)[:, 4:, 4:], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["own", "gpt2"])
def test_a_model_in_training_mode_is_changed_and_left_in_it(kind):
    model, ids, keys = make(kind).train(), tokens(), reference()
    with reinforced(model, None, keys, 1.0):
        model(ids).logits.sum().backward()
        rolled = rollout_of(model, ids)
        assert all(module.training for module in model.modules())
    weights = (
        model.layers[0].attention.qkv.weight if kind == "own" else model.transformer.h[0].attn.c_attn.weight
    )
    assert weights.grad is not None
    uniform = torch.where(keys.any(-1, keepdim=True), keys / keys.sum(-1, keepdim=True).clamp(min=1), 0)
    row = int(keys[0].any(-1).nonzero()[0])
    with reinforced(model.eval(), None, keys, 1.0):
        torch.testing.assert_close(attentions_of(model, ids)[0, 0, 0, row], uniform[0, row])
        torch.testing.assert_close(rollout_of(model, ids), rolled, atol=1e-6, rtol=0)


def test_copies_and_pickles_made_inside_a_block_are_of_the_plain_model():
    model, ids = make("own"), tokens()
    before, plain = model(ids).logits, model.layers[0].attention.attend
    with heads_ablated(model, [(0, 0)]), watching(model):
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    expected = attributions(model, ids, "attention knockout")["attention knockout"]
    for each in copies:
        assert all(layer.attention.attend is plain for layer in each.layers)
        assert torch.equal(each(ids).logits, before)
        with heads_ablated(each, [(0, 0)]):
            assert not torch.equal(each(ids).logits, before)
        assert torch.equal(attributions(each, ids, "attention knockout")["attention knockout"], expected)


@pytest.mark.parametrize("kind", ["own", "llama", "llama, eager"])
def test_a_thread_has_what_its_context_has(kind):
    model, ids = make(kind), tokens()
    plain = rollout_of(model, ids)
    with reinforced(model, None, reference(), 0.8), ThreadPoolExecutor(3) as threads:
        changed = rollout_of(model, ids)
        bare = [threads.submit(rollout_of, model, ids) for _ in range(6)]
        copied = [threads.submit(copy_context().run, rollout_of, model, ids) for _ in range(3)]
        for found, expected in ((bare, plain), (copied, changed)):
            for each in found:
                torch.testing.assert_close(each.result(), expected, atol=1e-6, rtol=0)
    assert not torch.allclose(plain, changed, atol=1e-2)


def test_generation_is_followed_and_streamed_as_it_was_changed():
    model, prompt = build("llama"), tokens(1, 9)
    keys = reference(batch=1, n=20).tril()
    plain = generate_with_rollout(model, prompt, 6, do_sample=False)
    with reinforced(model, None, keys, 0.7):
        result = generate_with_rollout(model, prompt, 6, do_sample=False)
        streamed = list(stream_with_rollout(model, prompt, 6, do_sample=False))
        whole = torch.cat([prompt, result.tokens[None]], 1)[:, :-1]
        expected = rollout(attentions_of(model, whole), cumulative=True)[0, :, 8:, :9].permute(1, 2, 0)
    torch.testing.assert_close(result.matrix, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.stack([item.row for item in streamed]), expected, atol=1e-5, rtol=0)
    assert not torch.equal(result.matrix[0], plain.matrix[0])


def test_generation_is_without_dropout_also_in_two_threads():
    model, prompt = build("gpt2", resid_pdrop=0.5, embd_pdrop=0.5), tokens(1, 9)
    expected = generate_with_rollout(model, prompt, 8, do_sample=False, eos_token_id=None).tokens.tolist()
    model.train()

    def work(length):
        result = generate_with_rollout(model, prompt, length, do_sample=False, eos_token_id=None)
        return result.tokens.tolist()

    with ThreadPoolExecutor(2) as threads:
        texts = list(threads.map(work, [3, 8] * 3))
    assert texts == [expected[:3], expected] * 3
    assert all(module.training for module in model.modules())


def test_a_model_that_is_watched_may_learn():
    model, ids = make("llama, eager"), tokens()
    model(ids).logits.sum().backward()
    expected = model.model.layers[0].self_attn.q_proj.weight.grad.clone()
    model.zero_grad()

    def watch(call):
        yield Wanted()

    with watching(model, watch):
        model(ids).logits.sum().backward()
    assert torch.equal(model.model.layers[0].self_attn.q_proj.weight.grad, expected)


def test_who_looks_at_rows_of_a_models_own_formula_leaves_its_output_alone():
    model, ids = make("llama, eager"), tokens()
    expected, seen = model(ids).logits, list[int]()

    def peek(call):
        n = call.query.shape[2]
        for part in (slice(n // 2, n), slice(0, n // 2), slice(0, 1)):
            seen.append(call.changed_rows(part).shape[2])

    def watch(call):
        peek(call)
        yield Wanted()

    with torch.no_grad(), watching(model, peek, watch):
        found = model(ids).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert seen


def test_one_file_names_the_registry_and_our_own_layers():
    package, files = Path(interface.__file__).parents[2], set()
    for path in package.rglob("*.py"):
        if "attend" in (text := path.read_text()) or "AttentionInterface" in text:
            nodes = [*ast.walk(ast.parse(text))]
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            if "AttentionInterface" in names or "attend" in attributes:
                files.add(path.relative_to(package).as_posix())
    assert files == {"models/attention/interface.py", "models/transformer.py"}

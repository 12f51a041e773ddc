"""Generative rollout: every row where it belongs, whatever way it is computed."""

import gc
import itertools
import threading
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import transformers as hf

from attnlib.models import Transformer, TransformerConfig
from attnlib.rollout import (
    UNINFORMATIVE,
    GenerativeRollout,
    generate_with_rollout,
    raw_attention,
    stream_with_rollout,
)
from attnlib.rollout.core import rollout_by_definition, rows_of_generation
from tests.attnlib import small_models

MODELS = ("llama", "mistral", "gemma2", "gpt2")
PROMPT = torch.tensor([[5, 17, 3, 60, 44, 8, 23, 9, 71]])


build = partial(small_models.build, eos_token_id=None)


def naively(model, prompt, tokens, **options):
    """Run the model again for every generated token, and look at the last row of its dense rollout."""
    own = model.config._attn_implementation
    model.set_attn_implementation("eager")
    length, rows = prompt.shape[1], []
    for g in range(len(tokens)):
        ids = torch.cat([prompt, tokens[None, :g]], 1)
        with torch.no_grad():
            attentions = model(ids, output_attentions=True).attentions
        rolled = rollout_by_definition(attentions, **options)
        rows.append(rows_of_generation(rolled, length)[-1].float())
    model.set_attn_implementation(own)
    return torch.stack(rows)


def assert_streamed(model, new, tokens, rows, **options):
    """A stream gives these tokens, and these rows."""
    streamed = list(stream_with_rollout(model, PROMPT, new, **options))
    assert [item.token for item in streamed] == tokens.tolist()
    torch.testing.assert_close(torch.stack([item.row for item in streamed]), rows, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [{}, {"sink": [0]}], ids=str)
def test_rows_are_those_of_the_naive_way(name, options):
    model = build(name)
    result = generate_with_rollout(model, PROMPT, 7, do_sample=False, **options)
    plain = model.generate(PROMPT, max_new_tokens=7, do_sample=False, attention_mask=torch.ones_like(PROMPT))
    assert torch.equal(result.tokens, plain[0, 9:])
    assert torch.equal(result.prompt, PROMPT[0])
    assert result.matrix.shape == (7, 9, 3)
    expected = naively(model, PROMPT, result.tokens, **options)
    torch.testing.assert_close(result.matrix, expected, atol=1e-5, rtol=0)
    assert_streamed(model, 7, result.tokens, expected, do_sample=False, **options)


def test_first_row_is_the_last_token_of_the_prompt():
    model = build("llama")
    result = generate_with_rollout(model, PROMPT, 3, do_sample=False)
    torch.testing.assert_close(result.matrix[0].sum(0), torch.ones(3))  # it has seen nothing but the prompt
    assert (result.matrix[1:].sum(1) < 1).all()
    assert generate_with_rollout(model, PROMPT[:, :1], 1).matrix.tolist() == [[[1.0] * 3]]


def test_padding_is_dropped():
    model = build("gpt2")
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.long), PROMPT], 1)
    mask = (torch.arange(13) >= 4).long()[None]
    expected = generate_with_rollout(model, PROMPT, 4, do_sample=False)
    for form in (mask, mask.bool()):
        result = generate_with_rollout(model, padded, 4, attention_mask=form, do_sample=False)
        assert torch.equal(result.tokens, expected.tokens)
        torch.testing.assert_close(result.matrix, expected.matrix)
    forced = generate_with_rollout(model, padded, continuation=result.tokens, attention_mask=mask).matrix
    reference = naively(model, PROMPT, result.tokens)
    for matrix in (result.matrix, forced):
        torch.testing.assert_close(matrix, reference, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "strategy",
    [
        {"do_sample": True, "temperature": 0.7, "top_p": 0.9},
        {"do_sample": True, "top_k": 5, "repetition_penalty": 1.3},
        {"do_sample": False, "no_repeat_ngram_size": 2, "return_dict_in_generate": True},
        {"prompt_lookup_num_tokens": 3, "do_sample": False},
        {"prefill_chunk_size": 2, "do_sample": False},
        {"generation_config": hf.GenerationConfig(do_sample=False, min_new_tokens=2)},
    ],
    ids=str,
)
def test_any_decoding_strategy_but_beams(strategy):
    model = build("llama")
    torch.manual_seed(3)
    result = generate_with_rollout(model, PROMPT, 6, **strategy)
    expected = naively(model, PROMPT, result.tokens)
    torch.testing.assert_close(result.matrix, expected, atol=1e-5, rtol=0)
    if alone := {"prompt_lookup_num_tokens", "prefill_chunk_size"} & {*strategy}:
        with pytest.raises(ValueError, match=f"{alone.pop()} must be None"):
            stream_with_rollout(model, PROMPT, 6, **strategy)
        return
    torch.manual_seed(3)
    assert_streamed(model, 6, result.tokens, expected, **strategy)


def test_generation_may_end_early():
    model = build("llama")
    first = generate_with_rollout(model, PROMPT, 5, do_sample=False).tokens
    result = generate_with_rollout(model, PROMPT, 5, do_sample=False, eos_token_id=int(first[2]))
    ends = first.tolist().index(int(first[2])) + 1
    assert len(result.tokens) == ends < 5
    assert len(result.matrix) == ends


def test_leaving_the_stream_stops_generation():
    model = build("llama")
    seen = []
    model.model.register_forward_hook(lambda *args: seen.append(1))
    rows = stream_with_rollout(model, PROMPT, 50, do_sample=False)
    list(itertools.islice(rows, 2))
    rows.close()
    assert len(seen) < 50
    assert not [t for t in threading.enumerate() if t.name == "stream_with_rollout"]
    assert "eager" not in hf.AttentionInterface._global_mapping


@pytest.mark.slow
def test_a_stream_keeps_nothing_of_the_tokens_behind_it():
    """A window of 6 tokens, and rows that are taken as they come: what lives is as much after every token."""
    model, taken, alive = build("mistral"), threading.Semaphore(0), list[tuple[int, int]]()

    def count(input_ids, scores, **_):
        taken.acquire()  # the last row is out
        tensors = [each for each in gc.get_objects() if isinstance(each, torch.Tensor)]
        parts = [each.untyped_storage() for each in tensors if each.is_floating_point()]
        held = {part.data_ptr(): part.nbytes() for part in parts}
        alive.append((len(parts), sum(held.values())))
        return torch.zeros(len(input_ids), dtype=torch.bool)

    gc.collect()
    for _ in stream_with_rollout(model, PROMPT, 40, do_sample=False, stopping_criteria=[count]):
        taken.release()
    assert len(alive) == 40 and len(set(alive[3:])) == 1, alive


def test_what_happens_in_the_thread_is_told():
    model = build("llama")
    handle = model.model.layers[1].register_forward_pre_hook(lambda module, given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(stream_with_rollout(model, PROMPT, 3))
    handle.remove()
    model.model.layers[1].self_attn.forward = lambda hidden_states, **kwargs: (hidden_states, None)
    with pytest.raises(ValueError, match="has 3 layers, but 2 attention calls"):
        list(stream_with_rollout(model, PROMPT, 3))


def by_hand():
    matrix = torch.tensor(
        [[[0.1, 0.3], [0.4, 0.2], [0.3, 0.1], [0.2, 0.4]], [[0.0, 0.2], [0.1, 0.1], [0.5, 0.3], [0.1, 0.2]]]
    )
    words, special = ("<s>", " The", "fox", "..."), (True, False, False, False)
    return GenerativeRollout(torch.tensor([8, 9]), torch.tensor([1, 2, 3, 4]), matrix, words, special)


def test_slices_and_means():
    result = by_hand()
    assert torch.equal(result.of(1), result.matrix[1])
    assert torch.equal(result.of(slice(1)), result.matrix[:1])
    torch.testing.assert_close(result.mean_over_layers()[0], torch.tensor([0.2, 0.3, 0.2, 0.3]))


def test_top_tokens_and_the_filter():
    result = by_hand()
    assert [(t.position, t.token, t.text) for t in result.top(3)] == [(2, 3, "fox")]
    assert result.top(1)[0].mass == pytest.approx(0.3)
    everything = [t.position for t in result.top(9, ignore=())]
    assert everything == [2, 3, 1, 0]
    assert [t.position for t in result.top(9, ignore=(), generated=0)] == [1, 3, 0, 2]
    assert [t.position for t in result.top(2, ignore=(), generated=0, layer=1)] == [3, 0]
    assert [t.position for t in result.top(9, ignore=UNINFORMATIVE | {"fox"})] == []
    assert [t.position for t in result.top(9, ignore={"fox"}, generated=slice(0, 1))] == [1, 3]
    assert [t.text for t in result.top(9, ignore=lambda text: "o" in text)] == ["...", " The", "<s>"]
    assert result.informative().tolist() == [False, False, True, False]
    bare = GenerativeRollout(result.tokens, result.prompt, result.matrix)
    assert bare.top(1, ignore=())[0] == (2, 3, "", pytest.approx(0.3))
    with pytest.raises(ValueError, match="tokenizer must"):
        bare.top(3)


@pytest.mark.parametrize("sink", [None, [0], [-1], [2, -3]])
def test_even_attention_is_1_over_null_whatever_the_sink(sink):
    model = build("llama")
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.zero_()
    result = generate_with_rollout(model, PROMPT, 4, do_sample=False, sink=sink)
    assert_streamed(model, 4, result.tokens, result.matrix, do_sample=False, sink=sink)
    # a live view says what was asked for, as it was asked for
    made = GenerativeRollout(result.tokens, result.prompt, result.matrix, sink=sink)
    expected = (result.matrix > 0).float()
    assert expected.mean() > 0.5 and made.sink == (None if sink is None else tuple(p % 9 for p in sink))
    for over in (made.over_null(), result.over_null()):
        torch.testing.assert_close(over.matrix, expected, atol=1e-4, rtol=0)


def test_text_of_the_prompt():
    def decode(ids, **_):
        return "".join(f"w{i}" for i in ids)

    tokenizer = SimpleNamespace(all_special_ids=[5], decode=decode)
    result = generate_with_rollout(build("llama"), PROMPT, 2, tokenizer=tokenizer)
    assert result.words[:3] == ("w5", "w17", "w3")
    assert result.special == (True,) + (False,) * 8


@pytest.mark.parametrize("function", [generate_with_rollout, stream_with_rollout])
@pytest.mark.parametrize(
    ("prompt", "new", "options", "message"),
    [
        (PROMPT[:, :0], 3, {}, "empty prompt"),
        (torch.ones(1, 65, dtype=torch.long), 3, {}, "65 tokens are more than the model's context of 64"),
        (PROMPT, 56, {}, "9 tokens and 56 new ones are more than .* 64 tokens. Shorten .*, or ask for fewer"),
        (PROMPT, 0, {}, "max_new_tokens must"),
        (PROMPT, 3, {"inputs_embeds": torch.zeros(1, 4, 32)}, "inputs_embeds must"),
        (PROMPT, 3, {"num_beams": 4}, "num_beams must be 1"),
        (PROMPT, 3, {"generation_config": hf.GenerationConfig(num_beams=2)}, "num_beams must be 1"),
        ([[1, 2]], 3, {}, "input_ids must"),
        (PROMPT, 2.5, {}, "max_new_tokens must"),
        (PROMPT, 3, {"num_return_sequences": 2, "do_sample": True}, "num_return_sequences must be 1"),
        (PROMPT, 3, {"sink": [9]}, "sink must be positions"),
    ],
)
@pytest.mark.usefixtures("without_type_checks")
def test_refuses(function, prompt, new, options, message):
    with pytest.raises(ValueError, match=message):
        function(build("llama"), prompt, new, **options)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Transformer(TransformerConfig(vocabulary=97, causal=True)), "Transformer cannot generate"),
        (
            hf.BertModel(hf.BertConfig(vocab_size=97, hidden_size=16, num_attention_heads=2)),
            "cannot generate",
        ),
        (
            hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=97, d_model=8, num_layers=1, num_heads=1)),
            "encoder-decoder",
        ),
    ],
)
def test_models_that_cannot_be_followed(model, message):
    with pytest.raises(ValueError, match=message):
        generate_with_rollout(model, PROMPT, 3)


def test_torch_reads_it_as_its_matrix():
    made = GenerativeRollout(torch.tensor([1]), torch.tensor([2, 3]), torch.rand(1, 2, 4))
    assert torch.equal(torch.as_tensor(made), made.matrix)
    assert torch.equal(torch.as_tensor(made.over_null()), made.over_null().matrix)


@pytest.mark.parametrize("name", MODELS)
def test_a_given_continuation_takes_the_place_of_the_models_words(name):
    model, forced = build(name), torch.tensor([60, 2, 2, 11])
    result = generate_with_rollout(model, PROMPT, continuation=forced, sink=[0])
    assert result.tokens.tolist() == forced.tolist() and result.prompt.equal(PROMPT[0])
    expected = naively(model, PROMPT, forced, sink=[0])
    torch.testing.assert_close(result.matrix, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(result.over_null().matrix.isfinite().all(), torch.tensor(True))
    own = generate_with_rollout(model, PROMPT, 4, do_sample=False)
    again = generate_with_rollout(model, PROMPT, continuation=own.tokens[None])
    torch.testing.assert_close(again.matrix, own.matrix, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "exactly one of max_new_tokens"),
        ({"continuation": torch.tensor([1]), "max_new_tokens": 3}, "exactly one of max_new_tokens"),
        ({"continuation": torch.tensor([1]), "do_sample": False}, "options of generate"),
        ({"continuation": torch.ones(0, dtype=torch.long)}, "continuation"),
        ({"continuation": torch.tensor([5, 97])}, "continuation"),
        ({"continuation": "sunny"}, "continuation"),
        ({"continuation": torch.ones(2, 3, dtype=torch.long)}, "continuation"),
        ({"continuation": torch.ones(56, dtype=torch.long)}, ".*9 tokens and 56 new ones are more than"),
    ],
)
@pytest.mark.usefixtures("without_type_checks")
def test_a_wrong_continuation_is_refused(options, name):
    with pytest.raises(ValueError, match=rf"^{name}"):
        generate_with_rollout(build("llama"), PROMPT, **options)


@pytest.mark.parametrize("name", MODELS)
def test_raw_attention_has_the_same_rows(name):
    model = build(name)
    result = generate_with_rollout(model, PROMPT, continuation=torch.tensor([60, 2, 11]))
    raw = raw_attention(model, result)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        layers = model(torch.cat([PROMPT[0], result.tokens])[None], output_attentions=True).attentions
    expected = torch.stack([layer[0].mean(0)[8:11, :9] for layer in layers], -1)
    torch.testing.assert_close(raw.matrix, expected, atol=1e-6, rtol=1e-5)
    assert raw.matrix.shape == result.matrix.shape and raw.words == result.words


def test_raw_attention_has_a_null_of_its_own_whatever_rollout_left_out():
    model = build("llama")
    with torch.no_grad():
        for layer in model.model.layers:  # even attention
            layer.self_attn.q_proj.weight.zero_()
    result = generate_with_rollout(model, PROMPT, 3, sink=[0])
    raw = raw_attention(model, result)
    torch.testing.assert_close(raw.over_null().matrix, torch.ones(3, 9, 3))


@pytest.mark.parametrize("ignore", [{"Of"}, {"of"}])
def test_words_to_leave_out_are_compared_without_case(ignore):
    nothing = torch.zeros(0, dtype=torch.long), torch.arange(2), torch.zeros(0, 2, 0)
    result = GenerativeRollout(*nothing, words=(" Of", " oil"), special=(False, False))
    assert result.informative(ignore).tolist() == [False, True]


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"k": 0}, "k"),
        ({"layer": 3}, "layer"),
        ({"generated": 4}, "generated"),
        ({"generated": slice(4, 4)}, "generated"),
        ({"ignore": "of"}, "ignore"),
    ],
)
def test_what_cannot_be_listed_is_refused(asked, name):
    something = torch.zeros(4, dtype=torch.long), torch.arange(2), torch.zeros(4, 2, 3)
    result = GenerativeRollout(*something, words=(" of", " oil"), special=(False, False))
    with pytest.raises(ValueError, match=rf"^{name} must"):
        result.top(**asked)


def test_a_stream_without_a_cache_is_refused_before_anything_is_generated():
    with pytest.raises(ValueError, match=r"^use_cache must"):
        stream_with_rollout(build("llama"), PROMPT, 3, use_cache=False)

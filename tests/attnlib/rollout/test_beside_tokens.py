"""What a model is given beside tokens: followed, and the same in a pass of generation as in a second one."""

import pytest
import torch
import transformers as hf

from attnlib.models.attention import Wanted, heads_ablated, watching
from attnlib.rollout import generate_with_rollout, raw_attention, rollout_of, stream_with_rollout
from attnlib.rollout.core import rollout_by_definition, rows_of_generation
from tests.attnlib.small_models import SEEING, SIZE, TEXT, VISION, build, seeing, sharpened

PROMPT = torch.tensor([[5, 17, 3, 60, 44, 8, 23, 9, 71]])
KINDS = torch.tensor([[50] * 5 + [90] * 4])
PLACES = torch.tensor([[0, 1, 2, 3, 10, 11, 12, 13, 20]])
CACHES = [{}, {"use_cache": False}, {"cache_implementation": "static"}]


def kinds(ids):
    """Written tokens are of the last one's kind."""
    return torch.cat([KINDS, KINDS[:, -1:].expand(1, ids.shape[1] - 9)], 1)


def places(ids):
    """Written tokens stand behind the last one."""
    return torch.cat([PLACES, torch.arange(21, 21 + ids.shape[1] - 9)[None]], 1)


def eager_attentions(model, ids, given):
    own = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(input_ids=ids, output_attentions=True, **given).attentions
    model.set_attn_implementation(own)
    return attentions


def assert_right(model, prompt, given, given_at_all):
    """Every way to the matrix gives that of eager attention, of the model with all that it was given.

    `given_at_all` says what it is given with a text of prompt and written tokens.
    """
    n, matrices = prompt.shape[1], []
    for cache in CACHES:
        result = generate_with_rollout(model, prompt, 5, do_sample=False, **given, **cache)
        text = torch.cat([prompt, result.tokens[None, :-1]], 1)
        as_generated = cache if "use_cache" in cache else {"attention_mask": torch.ones_like(text)}
        attentions = eager_attentions(model, text, given_at_all(text) | as_generated)
        expected = rows_of_generation(rollout_by_definition(attentions), n).float()
        torch.testing.assert_close(result.matrix, expected, atol=1e-5, rtol=0)
        raw = torch.stack([layer[0].mean(0)[n - 1 :, :n] for layer in attentions], -1)
        torch.testing.assert_close(raw_attention(model, result).matrix, raw, atol=1e-5, rtol=0)
        matrices.append(result.matrix)
    again = generate_with_rollout(model, prompt, continuation=result.tokens, **given)
    torch.testing.assert_close(again.matrix, expected, atol=1e-5, rtol=0)
    streamed = list(stream_with_rollout(model, prompt, 5, do_sample=False, **given))
    torch.testing.assert_close(torch.stack([item.row for item in streamed]), expected, atol=1e-5, rtol=0)
    return expected


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("gpt2", {"token_type_ids": kinds}),
        ("gpt2", {"token_type_ids": kinds, "position_ids": places}),
        ("llama", {"position_ids": places}),
        ("mistral", {"position_ids": places}),
        ("gemma2", {"position_ids": places}),  # always takes a second pass
    ],
)
def test_what_is_of_each_token_reaches_every_pass(name, reads):
    model = build(name, eos_token_id=None)
    expected = assert_right(
        model,
        PROMPT,
        {each: of(PROMPT) for each, of in reads.items()},
        lambda text: {each: of(text) for each, of in reads.items()},
    )
    plain = generate_with_rollout(model, PROMPT, 1)
    assert (plain.matrix[0] - expected[0]).abs().max() > 0.01


@pytest.mark.parametrize("cache", CACHES, ids=str)
@pytest.mark.parametrize("name", ["gpt2", "llama", "roberta"])
@pytest.mark.parametrize("jump", [False, True])
def test_a_matrix_is_of_what_every_step_attended_to(name, cache, jump):
    """Positions that jump begin another text where there is no cache; RoBERTa's are counted from 0."""
    if name == "roberta":
        config = hf.RobertaConfig(**SIZE, pad_token_id=1, is_decoder=True, eos_token_id=None)
        torch.manual_seed(0)
        model = sharpened(hf.RobertaForCausalLM(config).eval(), 10)
    else:
        model = build(name, eos_token_id=None)
    beside, means = {"position_ids": PLACES} if jump else {}, []

    def last_query(call):
        mean, _ = yield Wanted()
        means.append(mean[0, -1, :9])

    options = {"do_sample": False, **beside, **cache}
    with torch.no_grad(), watching(model, last_query):
        model.generate(PROMPT, attention_mask=torch.ones_like(PROMPT), max_new_tokens=4, **options)
    steps = torch.stack(means).unflatten(0, (4, 3)).mT  # 4 tokens, 3 layers
    result = generate_with_rollout(model, PROMPT, 4, **options)
    torch.testing.assert_close(raw_attention(model, result).matrix, steps, atol=1e-5, rtol=0)
    torch.testing.assert_close(result.matrix[..., 0], with_residual(steps)[..., 0], atol=1e-5, rtol=0)


def with_residual(steps):
    """Rollout of a first layer: half of it is the query's own, which is the prompt's in the first row."""
    own = torch.zeros_like(steps)
    own[0, -1] = 1
    return (steps + own) / 2


def test_what_padding_is_given_is_dropped_with_it():
    model = build("gpt2", eos_token_id=None)
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.long), PROMPT], 1)
    mask = (torch.arange(13) >= 4).long()[None]
    beside = {"token_type_ids": torch.cat([torch.zeros(1, 4, dtype=torch.long), KINDS], 1)}
    expected = generate_with_rollout(model, PROMPT, 4, do_sample=False, token_type_ids=KINDS)
    for cache in CACHES:
        options = {"attention_mask": mask, "do_sample": False, **beside, **cache}
        result = generate_with_rollout(model, padded, 4, **options)
        assert torch.equal(result.tokens, expected.tokens)
        torch.testing.assert_close(result.matrix, expected.matrix, atol=1e-5, rtol=0)
    streamed = list(stream_with_rollout(model, padded, 4, do_sample=False, attention_mask=mask, **beside))
    rows = torch.stack([item.row for item in streamed])
    torch.testing.assert_close(rows, expected.matrix, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", SEEING)
def test_a_model_that_sees_is_followed_in_its_language_model(name):
    model, ids, given = seeing(name)
    expected = rollout_by_definition(eager_attentions(model, ids, given))[:, -1].float()
    torch.testing.assert_close(rollout_of(model, ids, **given), expected, atol=1e-5, rtol=0)
    dark = given | {"pixel_values": torch.zeros_like(given["pixel_values"])}
    assert (rollout_of(model, ids, **dark) - expected).abs().max() > 0.001
    with heads_ablated(model, [(1, 0), (1, 1)], "uniform"):
        changed = rollout_of(model, ids, **given)
    assert (changed - expected).abs().max() > 0.001


@pytest.mark.parametrize("name", SEEING)
def test_a_picture_reaches_every_pass(name):
    model, ids, given = seeing(name)

    def at_all(text):
        """Written tokens are text, of kind 0."""
        more = torch.zeros(1, text.shape[1] - ids.shape[1], dtype=torch.long)
        return {
            each: torch.cat([value, more], 1) if "type_ids" in each else value
            for each, value in given.items()
        }

    assert_right(model, ids, given, at_all)


@pytest.mark.parametrize("name", ["Blip2", "InstructBlip"])
def test_a_picture_that_is_what_generate_reads_first_reaches_every_pass(name):
    """These call a language model from a `generate` of their own, and give no attentions."""
    vision = hf.Blip2VisionConfig(**VISION, image_size=16, patch_size=8).to_dict()
    reading = VISION | {"vocab_size": 97, "encoder_hidden_size": 32}
    text = {"model_type": "opt", "vocab_size": 97, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 3}
    text |= {"num_attention_heads": 4, "word_embed_proj_dim": 32, "eos_token_id": None}
    sizes = {"vision_config": vision, "qformer_config": reading, "text_config": text}
    config = getattr(hf, f"{name}Config")(**sizes, num_query_tokens=4, image_token_index=90)
    torch.manual_seed(0)
    model = getattr(hf, f"{name}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) / 4 if weight.ndim > 1 else weight)
    inner = model.language_model
    inner.generation_config.suppress_tokens = [90]  # it writes no picture
    ids = torch.tensor([[1, 5, 17, 90, 90, 90, 90, 3, 60, 44, 8]])
    given = {"pixel_values": torch.randn(1, 3, 16, 16)}
    given |= {"qformer_input_ids": torch.tensor([[1, 5, 7]])} if name == "InstructBlip" else {}
    for cache in CACHES:
        result = generate_with_rollout(model, ids, 4, do_sample=False, **given, **cache)
        text, seen = torch.cat([ids, result.tokens[None, :-1]], 1), []
        keep = inner.register_forward_pre_hook(
            lambda _, args, named, seen=seen: seen.append(named), with_kwargs=True
        )
        with keep, torch.no_grad():
            model(input_ids=text, attention_mask=torch.ones_like(text), **given)
        (read,) = (each["inputs_embeds"] for each in seen)
        inner.set_attn_implementation("eager")
        with torch.no_grad():
            attentions = inner(inputs_embeds=read, output_attentions=True).attentions
        inner.set_attn_implementation("sdpa")
        expected = rows_of_generation(rollout_by_definition(attentions), ids.shape[1]).float()
        again = generate_with_rollout(model, ids, continuation=result.tokens, **given)
        streamed = stream_with_rollout(model, ids, 4, do_sample=False, **given)
        for matrix in (result.matrix, again.matrix, torch.stack([item.row for item in streamed])):
            torch.testing.assert_close(matrix, expected, atol=1e-5, rtol=0)
    dark = given | {"pixel_values": torch.zeros(1, 3, 16, 16)}
    other = generate_with_rollout(model, ids, continuation=result.tokens, **dark)
    assert (other.matrix - expected).abs().max() > 0.001
    with pytest.raises(ValueError, match=f"{name}ForConditionalGeneration cannot be called with input_ids"):
        generate_with_rollout(model, ids, 2)


@pytest.mark.parametrize("function", [generate_with_rollout, stream_with_rollout])
@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"token_type_ids": KINDS[:, :4]}, "token_type_ids must"),
        ({"position_ids": [[0, 1, 2]]}, "position_ids must"),
        ({"encoder_attention_mask": torch.ones_like(PROMPT)}, "encoder_attention_mask must"),
    ],
)
def test_what_is_not_of_these_tokens_is_refused_by_name(function, beside, message):
    with pytest.raises(ValueError, match=message):
        function(build("gpt2"), PROMPT, 3, **beside)


def test_a_prompt_that_is_read_in_both_directions_has_no_second_pass():
    """PaliGemma's is, where tokens are of no kinds: what is written would be seen before it is there."""
    vision = hf.SiglipVisionConfig(**VISION, image_size=16, patch_size=8)
    text = hf.GemmaConfig(**TEXT, head_dim=8)
    torch.manual_seed(0)
    config = hf.PaliGemmaConfig(vision_config=vision, text_config=text, image_token_id=90, projection_dim=32)
    model, ids = sharpened(hf.PaliGemmaForConditionalGeneration(config).eval(), 10), PROMPT
    written = generate_with_rollout(model, ids, 4, do_sample=False)
    for ask in (
        lambda: generate_with_rollout(model, ids, 4, do_sample=False, use_cache=False),
        lambda: generate_with_rollout(model, ids, continuation=written.tokens),
        lambda: raw_attention(model, written),
    ):
        with pytest.raises(ValueError, match=r"look at later ones.*hand these over"):
            ask()
    prefix = torch.zeros_like(ids)  # 1 is of what is written
    assert_right(
        model,
        ids,
        {"token_type_ids": prefix},
        lambda given: {"token_type_ids": (torch.arange(given.shape[1]) >= 9).long()[None]},
    )

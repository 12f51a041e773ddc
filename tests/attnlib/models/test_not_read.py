"""What is no model, and models that read something else than tokens alone: one sentence each, never raw."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers as hf

from attnlib.attribution import METHODS, attribute
from attnlib.rollout import generate_with_rollout, rollout, rollout_of, stream_with_rollout
from attnlib.rollout.core import rollout_by_definition

ROOT = Path(__file__).parents[3]
IDS = torch.tensor([[3, 17, 5, 41, 22, 9]])
OTHER = torch.tensor([3, 17, 6, 40, 22, 9])
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TEXT = {"vocab_size": 48, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT |= {"intermediate_size": 24, "max_position_embeddings": 32}
DEEP = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
SIGHT = DEEP | {"image_size": 8, "patch_size": 4}
SOUND = DEEP | {"conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3)}
SOUND |= {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
OF_WHISPER = {"d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 24}
OF_WHISPER |= {"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 24, "vocab_size": 48}
OF_WHISPER |= {"num_mel_bins": 8, "max_source_positions": 10, "decoder_start_token_id": 1} | ENDS
OF_AST = {"max_length": 16, "num_mel_bins": 16, "patch_size": 8, "frequency_stride": 8, "time_stride": 8}
OF_PERCEIVER = {"vocab_size": 48, "d_model": 16, "d_latents": 16, "num_latents": 4, "num_blocks": 1}
OF_PERCEIVER |= {"num_self_attends_per_block": 2, "num_self_attention_heads": 2}
OF_PERCEIVER |= {"num_cross_attention_heads": 2, "max_position_embeddings": 20}
EAGER = {"attn_implementation": "eager"}

READ = {
    "ViT": (lambda: hf.ViTModel(hf.ViTConfig(**SIGHT, **EAGER)), "pixel_values", (1, 3, 8, 8)),
    "CLIP's eyes": (
        lambda: hf.CLIPVisionModel(hf.CLIPVisionConfig(**SIGHT, **EAGER)),
        "pixel_values",
        (1, 3, 8, 8),
    ),
    "wav2vec2": (lambda: hf.Wav2Vec2Model(hf.Wav2Vec2Config(**SOUND, **EAGER)), "input_values", (1, 200)),
    "HuBERT": (lambda: hf.HubertModel(hf.HubertConfig(**SOUND, **EAGER)), "input_values", (1, 200)),
    "AST": (lambda: hf.ASTModel(hf.ASTConfig(**DEEP, **OF_AST, **EAGER)), "input_values", (1, 16, 16)),
    "Whisper's ears": (
        lambda: hf.WhisperModel(hf.WhisperConfig(**OF_WHISPER, **EAGER)).get_encoder(),
        "input_features",
        (1, 8, 20),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_models_that_see_or_hear_are_sent_to_the_rollout_of_their_attentions(name):
    make, reads, shape = READ[name]
    torch.manual_seed(0)
    model, given = make().eval(), torch.randn(shape)
    said = f"reads {reads}, and what is followed here are tokens"
    for asked in (
        lambda: rollout_of(model, **{reads: given}),
        lambda: rollout_of(model, IDS),
        lambda: generate_with_rollout(model, **{reads: given}),
        lambda: [*stream_with_rollout(model, IDS, 2)],
        lambda: attribute(model, IDS, method="gradient norm"),
    ):
        with pytest.raises(ValueError, match=said) as refusal:
            asked()
        assert "give the attentions to attnlib.rollout.rollout()" in str(refusal.value)
    with torch.no_grad():  # which does what is said
        attentions = model(**{reads: given}, output_attentions=True).attentions
    assert_defined(rollout(attentions), attentions)


def assert_defined(found, attentions):
    expected = rollout_by_definition(attentions)[:, -1]
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-4)


NO_MODELS = """
from types import SimpleNamespace
import torch
from attnlib.attribution import attribute
from attnlib.rollout import generate_with_rollout, rollout_of
ids = torch.tensor([[3, 17, 5]])
for given in ("gpt2", None, str, SimpleNamespace(model=torch.nn.Identity())):
    for verb in (rollout_of, lambda *given: generate_with_rollout(*given, 2), attribute):
        try:
            verb(given, ids)
        except ValueError as error:
            print(error)
"""


def test_what_is_no_model_is_refused_and_a_pipeline_told_of_the_model_inside_it():
    """In a process of its own, where nothing checks the types of arguments."""
    command = [sys.executable, "-c", NO_MODELS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    kinds = ["str", "NoneType", "type", "SimpleNamespace. Give the model inside it: pipeline.model"]
    expected = [f"model must be a PyTorch model; got a {kind}" for kind in kinds for _ in range(3)]
    assert done.stdout.splitlines() == expected


def test_a_traced_model_is_refused_and_the_one_that_was_traced_asked_for():
    traced = torch.jit.trace(torch.nn.Embedding(48, 16), IDS)
    for method in METHODS:
        with pytest.raises(ValueError, match=r"TorchScript.* Give the model that was traced"):
            attribute(traced, IDS[0], method=method, counterfactual=OTHER)
    for verb in (rollout_of, lambda *given: generate_with_rollout(*given, 2)):
        with pytest.raises(ValueError, match=r"TorchScript.* Give the model that was traced"):
            verb(traced, IDS)


def test_tokens_that_are_left_out_are_asked_for():
    model = hf.BertModel(hf.BertConfig(**TEXT)).eval()
    with pytest.raises(ValueError, match=r"input_ids must be a tensor \[batch token\]"):
        rollout_of(model, token_type_ids=IDS)


CHOOSING = {
    "BERT": (hf.BertForMultipleChoice, {}),
    "RoBERTa": (hf.RobertaForMultipleChoice, {"pad_token_id": 0}),
    "ALBERT": (hf.AlbertForMultipleChoice, {"embedding_size": 16}),
    "DeBERTa": (hf.DebertaV2ForMultipleChoice, {}),
}
SEEING = {
    "CLIP": lambda: hf.CLIPModel(hf.CLIPConfig(text_config=TEXT, vision_config=SIGHT)),
    "SigLIP": lambda: hf.SiglipModel(hf.SiglipConfig(text_config=TEXT, vision_config=SIGHT)),
    "BLIP": lambda: hf.BlipForQuestionAnswering(
        hf.BlipConfig(text_config=TEXT | ENDS | {"encoder_hidden_size": 16}, vision_config=SIGHT)
    ),
    "ViLT": lambda: hf.ViltForQuestionAnswering(hf.ViltConfig(**TEXT, image_size=8, patch_size=4)),
    "Perceiver": lambda: hf.PerceiverForMaskedLM(hf.PerceiverConfig(**OF_PERCEIVER)),
    "Perceiver of classes": lambda: hf.PerceiverForSequenceClassification(hf.PerceiverConfig(**OF_PERCEIVER)),
    "Perceiver alone": lambda: hf.PerceiverModel(hf.PerceiverConfig(**OF_PERCEIVER)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", CHOOSING)
def test_heads_that_choose_between_texts_are_answered_or_refused_in_words(family, method):
    kind, more = CHOOSING[family]
    model = kind(kind.config_class(**TEXT | more)).eval()
    try:
        assert attribute(model, IDS, method=method, counterfactual=OTHER).isfinite().any()
    except ValueError as error:
        assert method not in ("rollout", "mean attention") or family == "DeBERTa", error
        if method in ("blank-out", "gradient norm", "ReAGent"):
            assert f"{kind.__name__} cannot be called with input_ids" in str(error)
            assert "AutoModelForCausalLM" in str(error)


@pytest.mark.parametrize("family", [each for each in CHOOSING if each != "DeBERTa"])
def test_rollout_of_a_head_that_chooses_is_that_of_its_encoder(family):
    kind, more = CHOOSING[family]
    torch.manual_seed(0)
    model = kind(kind.config_class(**TEXT | more, **EAGER)).eval()
    with torch.no_grad():
        attentions = model.base_model(IDS, output_attentions=True).attentions
    assert_defined(rollout_of(model, IDS), attentions)


@pytest.mark.parametrize("family", SEEING)
def test_models_that_need_more_than_tokens_are_refused_in_words(family):
    model = SEEING[family]().eval()
    name = type(model).__name__[:4]  # of it, or of what is in it
    for method in METHODS:
        with pytest.raises(ValueError, match=name):
            attribute(model, IDS, method=method, counterfactual=OTHER)
    for verb in (rollout_of, lambda *given: generate_with_rollout(*given, 2)):
        with pytest.raises(ValueError, match=name):
            verb(model, IDS)


def test_an_error_of_what_looks_on_is_no_error_of_the_model(monkeypatch):
    """Only what the model itself raises, also alone, becomes a refusal."""
    model = hf.BertForMaskedLM(hf.BertConfig(**TEXT)).eval()

    def broken(self, call):
        raise RuntimeError("ours")

    monkeypatch.setattr("attnlib.rollout.recursion.Recursion.__call__", broken)
    with pytest.raises(RuntimeError, match="ours"):
        rollout_of(model, IDS)

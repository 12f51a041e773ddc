"""Classifiers of whole texts, explained by every method that does not need a causal model."""

from __future__ import annotations

import pytest
import torch
import transformers as hf

from attnlib.attribution import METHODS, attribute, attributions
from attnlib.attribution.perturbation import blank_out
from book.chapters.flow.text_classifier import TextClassifier

MASK = 1
IDS = torch.randint(4, 90, (2, 19), generator=torch.Generator().manual_seed(1))
OTHER = IDS.clone()
OTHER[:, [2, 7, 11, 16]] = 5
SIZE = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZE |= {"intermediate_size": 48, "max_position_embeddings": 64}


def close(found, expected, atol=1e-5):
    torch.testing.assert_close(found, expected, atol=atol, rtol=1e-4, equal_nan=True)


def scaled(model):
    with torch.no_grad():  # so that attention is far from even
        for weight in model.parameters():
            weight.mul_(8 if weight.ndim > 1 else 1)
    return model.eval()


def distilbert():
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
    config = hf.DistilBertConfig(**sizes, max_position_embeddings=64, num_labels=3)
    return scaled(hf.DistilBertForSequenceClassification(config))


def bert():
    torch.manual_seed(0)
    return scaled(hf.BertForSequenceClassification(hf.BertConfig(**SIZE, num_labels=3)))


@pytest.fixture(params=[distilbert, bert])
def model(request):
    return request.param()


TAKEN_APART = {
    *("value-weighted attention", "mean value-weighted attention", "rollout of value-weighted attention"),
    *("ALTI", "ALTI-Logit", "information flow routes", "value zeroing"),
}


def test_methods_that_take_layers_apart_say_that_these_are_not_known(model):
    for name in TAKEN_APART:
        with pytest.raises(ValueError, match=r"are not understood|cannot be changed from outside"):
            attributions(TextClassifier(model), IDS, name, query=0)


def test_every_other_method_but_those_over_a_causal_null(model):
    names = [name for name in METHODS if "null" not in name and "sink" not in name]  # the sink is what asks
    names = [name for name in names if name not in TAKEN_APART]
    mask = torch.ones_like(IDS)
    mask[0, 12:] = 0
    found = attributions(TextClassifier(model), IDS, names, mask, query=0, target=2, counterfactual=OTHER)
    for name, scores in found.items():
        assert (scores[0, 12:] == 0).all() and (scores[:, 1:12] != 0).any(), name
        assert scores[:, 1:].isfinite().all(), name
        alone = attribute(TextClassifier(model), IDS[0, :12], 0, 2, method=name, counterfactual=OTHER[0, :12])
        close(scores[0, :12], alone, atol=1e-4)


def test_a_text_has_the_logits_that_it_has_without_padding(model):
    mask = torch.ones_like(IDS)
    mask[0, 12:] = 0
    padded = TextClassifier(model)(IDS, mask).logits[:, 0]
    close(padded[:1], TextClassifier(model)(IDS[:1, :12]).logits[:, 0])
    close(padded[1:], TextClassifier(model)(IDS[1:]).logits[:, 0])


def test_attention_is_that_of_the_first_token(model):
    found = attribute(TextClassifier(model), IDS[0], query=0, method="raw attention, last layer")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        close(found, model(IDS[:1], output_attentions=True).attentions[-1][0, :, 0].mean(0))


def test_what_is_explained_is_the_class(model):
    embedded = model.get_input_embeddings()(IDS).detach().requires_grad_()
    score = model(inputs_embeds=embedded).logits.log_softmax(-1)[:, 2].sum()
    (gradient,) = torch.autograd.grad(score, embedded)
    found = attributions(TextClassifier(model), IDS, ["gradient x embedding"], query=0, target=2)
    close(found["gradient x embedding"], (gradient * embedded).sum(-1).detach())


def test_blank_out_with_the_mask_token_or_without_the_token(model):
    replaced = blank_out(TextClassifier(model), IDS[:1], query=0, target=2, replacement=MASK)[0]
    left_out = blank_out(TextClassifier(model), IDS[:1], query=0, target=2)[0]
    with torch.no_grad():
        whole = model(IDS[:1]).logits.log_softmax(-1)[0, 2]
        for token in (1, 7, 18):
            ids, places = IDS[:1].clone(), torch.arange(19)[None]
            ids[0, token] = MASK
            close(replaced[token], whole - model(ids).logits.log_softmax(-1)[0, 2], atol=1e-4)
            kept = places[0] != token
            logits = model(IDS[:1, kept], position_ids=places[:, kept]).logits
            close(left_out[token], whole - logits.log_softmax(-1)[0, 2], atol=1e-4)


def test_where_there_is_no_prediction():
    model = TextClassifier(distilbert())
    with pytest.raises(ValueError, match=r"puts the whole text in one class.*ask with query=0, not 18"):
        attribute(model, IDS[0], method="gradient norm")
    assert model(IDS).logits[:, 1:].isnan().all()
    with pytest.raises(ValueError, match=r"should give a row of logits per text.*needs no TextClassifier"):
        TextClassifier(hf.BertForMaskedLM(hf.BertConfig(**SIZE)))(IDS)

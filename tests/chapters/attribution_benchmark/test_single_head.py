"""Recurrent models asked as language models are: the same numbers, and the same measures."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from attnlib.attribution import attributions
from attnlib.generators.translation.pairs import PairBatch
from attnlib.models.base import without_cudnn
from attnlib.models.classifier import Classifier, ClassifierConfig
from attnlib.models.copier import Copier, CopierConfig
from attnlib.models.seq2seq import Seq2Seq, Seq2SeqConfig
from book.chapters.attribution_benchmark.measures import untrained
from book.chapters.attribution_benchmark.single_head import (
    SINGLE_HEAD,
    ReadCopies,
    ReadDocuments,
    ReadSentences,
)
from book.chapters.translation.measures import gradient_influence

BOS, EOS, UNKNOWN = 1, 2, 3
RAW, GRADIENT, OCCLUSION = SINGLE_HEAD


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.fixture
def documents():
    torch.manual_seed(0)
    return ReadDocuments(Classifier(ClassifierConfig(20, 8, 6, 6))).eval()


@pytest.fixture
def sentences():
    torch.manual_seed(1)
    return ReadSentences(Seq2Seq(Seq2SeqConfig(20, hidden=8, layers=2))).eval()


@pytest.fixture
def copies():
    return Copier(CopierConfig(12, 8, (3, 5))).eval()


def padded(*rows):
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, 0)
    sizes = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(ids.shape[1]) < sizes[:, None], sizes


# ---- the same numbers -------------------------------------------------------------------------------------


def test_a_document_is_a_row_and_two_logits_have_its_probability(documents):
    ids, mask, sizes = padded([BOS, 7, 8, 9, EOS], [BOS, 5, EOS])
    expected, found = documents.model(ids, sizes), documents(ids, mask)
    close(found.logits[:, -1].softmax(-1)[:, 1], expected.logits.sigmoid())
    close(found.attentions[:, 0, 0, 2], expected.alpha)


def test_source_and_what_was_written_are_one_row(sentences):
    sources, targets = [[BOS, 7, 8, EOS], [BOS, 5, EOS]], [[9, 10], [11]]
    rows = [s + sentences.written(torch.tensor(t)).tolist() for s, t in zip(sources, targets, strict=True)]
    ids, mask, _ = padded(*rows)
    found = sentences(ids, mask)
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        n, m = len(source), len(target) + 1
        decoded = sentences.model(torch.tensor([source]), torch.tensor([n]), torch.tensor([[BOS, *target]]))
        close(found.logits[row, n - 1 : n - 1 + m], sentences.model.to_vocabulary(decoded.joined)[0])
        close(found.attentions[row, 0, 0, n - 1 : n - 1 + m, :n], decoded.alpha[0])
        assert not found.attentions[row, 0, 0, :, n:].any()


@pytest.mark.parametrize("seed", [3, 5])
def test_one_of_the_copiers_side_by_side_is_asked(copies, seed):
    source, written = [4, 0, 7, 10], [4, 0]
    one = ReadCopies(copies, seed)
    found = one(torch.cat([torch.tensor(source), one.written(torch.tensor(written))])[None])
    both = torch.tensor([[source]] * 2), torch.tensor([[[11, *written]]] * 2)
    expected, at = copies(*both), (3, 5).index(seed)
    close(found.logits[0, 3:], expected.logits[at, 0])
    close(found.attentions[0, 0, 0, 3:, :4], expected.alpha[at, 0, 0])


def test_sources_of_several_lengths_may_be_in_rows_of_one(copies):
    one = ReadCopies(copies, 3)
    rows = [[4, 0, 7, 10, 12 + 1 + 4], [4, 0, 10, 12 + 1 + 4, 12 + 1]]
    together = one(torch.tensor(rows))
    for row, ids in enumerate(rows):
        alone = one(torch.tensor([ids]))
        close(together.logits[row], alone.logits[0])
        close(together.attentions[row], alone.attentions[0])


def test_a_copier_of_no_such_seed_or_of_two_vocabularies_is_refused(copies):
    with pytest.raises(ValueError, match=r"seed should be one of \(3, 5\).*got 4"):
        ReadCopies(copies, 4)
    with pytest.raises(ValueError, match="shared=False"):
        ReadCopies(Copier(CopierConfig(12, 8, shared=False)), 0)


# ---- the same measures ------------------------------------------------------------------------------------


def test_a_token_out_of_the_middle_leaves_the_unknown_word_and_padding_nothing(documents):
    ids, mask, _ = padded([BOS, 7, 8, 9, EOS], [BOS, 5, 6, EOS])
    mask[0, 2] = False
    other = ids.clone()
    other[0, 2], other[1, 4] = UNKNOWN, 15
    close(documents(ids, mask).logits, documents(other, mask | (other == UNKNOWN)).logits)


def test_raw_attention_is_that_of_the_head_at_the_query(documents):
    ids, mask, sizes = padded([BOS, 7, 8, 9, EOS], [BOS, 5, EOS])
    found = attributions(documents, ids, SINGLE_HEAD, mask)
    close(found[RAW], documents.model(ids, sizes).alpha.detach())


def test_blank_out_puts_the_unknown_word_into_each_place(documents, sentences):
    for model, ids in ((documents, [BOS, 7, 8, EOS]), (sentences, [BOS, 7, 8, EOS, 20 + 9])):
        ids = torch.tensor(ids)
        found = attributions(model, ids, {OCCLUSION: SINGLE_HEAD[OCCLUSION]}, target=1, foil=0)[OCCLUSION]
        for place in range(len(ids)):
            blanked = ids.clone()
            blanked[place] = UNKNOWN
            logits = model(torch.stack([ids, blanked])).logits[:, -1].log_softmax(-1)
            score = logits[:, 1] - logits[:, 0]
            close(found[place], (score[0] - score[1]).detach())


def test_a_zero_vector_says_nothing_to_a_copier(copies):
    one = ReadCopies(copies, 3)
    assert one.unknown == 12 and not one.embedding.weight[12].any()
    ids = torch.tensor([4, 0, 7, 10])
    found = attributions(one, ids, {OCCLUSION: SINGLE_HEAD[OCCLUSION]}, target=4)[OCCLUSION]
    other = ids.clone()
    other[1] = 12
    scores = one(torch.stack([ids, other])).logits[:, -1].log_softmax(-1)[:, 4]
    close(found[1], (scores[0] - scores[1]).detach())


def test_gradient_x_embedding_is_the_studys_gradient_influence(documents, sentences):
    ids, mask, sizes = padded([BOS, 7, 8, 9, EOS], [BOS, 5, EOS])
    labels = torch.tensor([1, 0])
    scale = torch.ones(ids.shape, requires_grad=True)
    logits = documents.model(ids, sizes, scale).logits
    (delta,) = torch.autograd.grad(F.logsigmoid(logits * (2 * labels - 1)).sum(), scale)
    found = attributions(documents, ids, {GRADIENT: SINGLE_HEAD[GRADIENT]}, mask, target=labels)[GRADIENT]
    close(found, delta)

    source, target = torch.tensor([[BOS, 7, 8, EOS]]), torch.tensor([[BOS, 9, 10, EOS]])
    lengths, rows = torch.tensor([4]), torch.tensor([0])
    influence = gradient_influence(sentences.model, PairBatch(source, lengths, target, lengths, rows))[0]
    for place in range(3):
        row = torch.cat([source[0], sentences.written(target[0, 1 : place + 1])])
        method = {GRADIENT: SINGLE_HEAD[GRADIENT]}
        found = attributions(sentences, row, method, target=int(target[0, place + 1]))[GRADIENT]
        close(found[:4], influence[place])


def test_gradient_x_embedding_of_a_copier_is_the_slope_of_its_vectors_lengths(copies):
    one, ids = ReadCopies(copies, 5), torch.tensor([[4, 0, 7, 10, 13 + 4]])
    found = attributions(one, ids, {GRADIENT: SINGLE_HEAD[GRADIENT]}, target=0)[GRADIENT]
    scale = torch.ones(1, 5, 1, requires_grad=True)
    handle = one.embedding.register_forward_hook(lambda module, given, vectors: vectors * scale)
    (slope,) = torch.autograd.grad(one(ids).logits[0, -1].log_softmax(-1)[0], scale)
    handle.remove()
    close(found, slope[..., 0])


# ---- untrained twins --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["documents", "sentences", "copies"])
def test_a_twin_that_learned_nothing_is_asked_in_the_same_way(name, request):
    model = request.getfixturevalue(name)
    model = ReadCopies(model) if name == "copies" else model
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(1)  # it has learned something
    twin, again = untrained(model, 1), untrained(model, 1)
    assert type(twin) is type(model) and not twin.training and twin.unknown == model.unknown
    ids, mask, _ = padded([1, 4, 2, 3], [1, 5, 2])
    learned, found = model(ids, mask), twin(ids, mask)
    assert found.attentions.shape == learned.attentions.shape and found.logits.shape == learned.logits.shape
    assert not torch.allclose(found.attentions, learned.attentions)
    assert torch.equal(found.attentions, again(ids, mask).attentions)


def test_a_copier_is_read_where_it_is(copies):
    one = ReadCopies(Copier(copies.config).to("meta"), 3)
    assert {weight.device.type for weight in one.parameters()} == {"meta"}


@pytest.mark.parametrize("before", [True, False])
def test_cudnn_is_as_it_was_when_the_last_of_overlapping_blocks_ends(before, documents, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "enabled", before)
    seen, scored = [], documents._scored

    def while_another_begins(*given):  # and ends after this one, as another thread's may
        other.__enter__()
        seen.append(torch.backends.cudnn.enabled)
        return scored(*given)

    monkeypatch.setattr(documents, "_scored", while_another_begins)
    other = without_cudnn()
    documents(torch.tensor([[1, 2, 3]]))
    assert seen == [False] and not torch.backends.cudnn.enabled
    other.__exit__(None, None, None)
    assert torch.backends.cudnn.enabled is before

"""The size and the batches of the models that know no order: what a reader asks for is what is trained."""

import pytest

from attnlib.stats.agreement_runs import EMBEDDING
from book.chapters.classification import measures
from book.chapters.translation.translation_dynamics import TranslationRun
from tests.parameters import smallest

ASKED = {"lexical_width": 12, "lexical_batch_size": 8}


@pytest.mark.parametrize(("given", "width", "sentences"), [({}, 32, 64), (ASKED, 12, 8)])
def test_of_translators(given, width, sentences):
    p = smallest("translation_dynamics", **given)
    setup = p.setup(TranslationRun(EMBEDDING, 0))
    assert setup.model.config.width == width  # by default four times hidden
    assert len(setup.batches(0).source) == sentences
    assert setup.plan.steps == p.lexical_epochs * (len(p.bitext.train) // sentences)
    recorded = p.recorded_parameters
    assert not given.keys() - recorded.keys() and ("lexical_width" in recorded) == bool(given)


@pytest.mark.parametrize(("given", "width", "documents"), [({}, 256, 64), (ASKED, 12, 8)])
def test_of_classifiers(given, width, documents, monkeypatch):
    p, found, trained = smallest("classification_dynamics", **given), {}, measures.trained

    def seen(model, batches, *rest, **how):
        found.update(width=model.config.width, documents=len(batches(0).labels))
        return trained(model, batches, *rest, **how)

    monkeypatch.setattr(measures, "trained", seen)
    assert 0 <= p.lexical["embedding"].accuracy <= 1
    assert found == {"width": width, "documents": documents}
    assert ("lexical_width" in p.recorded_parameters) == bool(given)

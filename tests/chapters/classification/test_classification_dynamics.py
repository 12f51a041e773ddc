"""What the chapter on a classifier's attention is made of: parameters, stages, recorded scores, the grid."""

import numpy as np
import pandas as pd
import pytest
import torch

from attnlib import plots, stats
from attnlib.models.classifier import Classifier, ClassifierConfig
from attnlib.training import Event
from attnlib.training.keeping import Snapshots
from attnlib.widgets import DynamicsExplorer
from book.chapters.classification import ClassificationDynamics, figures, measures, tables
from book.chapters.classification.measures import Lexical, relevance
from book.chapters.records import paper_grid
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of, profile

QUICK = defaults_of("classification_dynamics")
PAPER = QUICK | profile("classification_dynamics", "paper")
SMALL = QUICK | profile("classification_dynamics", "smoke")
TABLE = "Approximating How Single Head Attention Learns Table 1"


@pytest.fixture(scope="module")
def corpus():
    return ClassificationDynamics.checked(SMALL).corpus


def test_the_corpus_is_as_the_parameters_say(corpus):
    assert [len(part) for part in (corpus.train, corpus.validation, corpus.test)] == [200, 40, 60]
    seen = ClassificationDynamics.checked(SMALL).looked_at
    assert {name: len(part) for name, part in seen.items()} == {"train": 40, "validation": 40, "test": 60}
    assert set(seen["train"].texts) <= set(corpus.train.texts)
    as_many_as_in_the_notebook = ClassificationDynamics.checked(SMALL | {"train_documents": 0}).corpus.train
    assert len(as_many_as_in_the_notebook) == QUICK["train_documents"]  # of planted documents there is no end
    all_of_one_side = ClassificationDynamics.checked(SMALL | {"difficulty": 0.0}).corpus.test
    assert (all_of_one_side.toward_label(all_of_one_side.relevance) >= 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "plantd"}, "got 'plantd'; did you mean 'planted'"),
        ({"data": "furd"}, "any other name with folder"),
        ({"classes": ["a", "b"], "max_length": 5}, "classes, max_length cannot be given for planted"),
        ({"folder": "my/reviews.csv"}, "my/reviews.csv must hold files named .* there is no such"),
        ({"data": "sst", "confounding": 1.0}, "confounding cannot be given for sst, which is read, not made"),
        ({"classes": ["a"]}, "empty, or two different labels; got .'a'."),
        ({"seeds": [1]}, "seeds: .*at least 2 items"),
    ],
)
def test_what_is_not_allowed_is_told_what_is(change, message):
    with pytest.raises(ParameterError, match=message):
        ClassificationDynamics.checked(QUICK | change)


def test_a_folder_of_ones_own_is_read(tmp_path):
    rows = [f"{n % 2}\tword{n // 25} word{n // 5 % 5} word{n % 5} number {n}" for n in range(200)]
    (tmp_path / "all.tsv").write_text("\n".join(["label\ttext", *rows]))
    mine = {"data": "mine", "folder": str(tmp_path), "max_length": 3, "train_documents": 50}
    p = ClassificationDynamics.checked(QUICK | mine)
    found = p.corpus
    assert p.name == "mine" and len(found.train) == 50 and int(found.train.lengths.max()) == 5
    said = "50 training documents; first 3 words (100 % of the documents are longer); 1,000 steps; 3 seeds"
    assert said in p.setting


# ---- recorded scores ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(corpus, tmp_path_factory):
    """A gold run, another and a uniform one, untrained, kept twice."""
    folder, found = tmp_path_factory.mktemp("runs"), {}
    for seed, name in enumerate(("gold", "other", "uniform")):
        torch.manual_seed(seed)
        model = Classifier(ClassifierConfig(len(corpus.vocabulary), 4, 4, 4, uniform=name == "uniform"))
        found[name] = Snapshots((0, 5))
        found[name].join(folder / name, name, model)
        for step in (0, 3, 5):
            found[name](Event(step, model, None, {}, 0.1))
            with torch.no_grad():
                model.to_beta.weight += 0.1
    return found


def scores_of(recorded, corpus):
    return {
        name: measures.scores_at_checkpoints(snapshots, corpus.test, delta=name == "gold")
        for name, snapshots in recorded.items()
    }


def test_scores_are_those_of_the_models(corpus, recorded):
    found = scores_of(recorded, corpus)["gold"]
    torch.manual_seed(0)
    model = Classifier(ClassifierConfig(len(corpus.vocabulary), 4, 4, 4))
    expected = relevance(model, corpus.test)
    assert found.steps.tolist() == [0, 5]
    for name in ("alpha", "beta", "delta"):
        np.testing.assert_array_equal(getattr(found, name)[0], getattr(expected, name).numpy())
    assert found.accuracy[0] == pytest.approx(expected.accuracy)
    assert scores_of(recorded, corpus)["uniform"].delta is None


def test_scores_are_computed_once_and_made_again_where_the_file_is_not_right(corpus, recorded, caplog):
    first = scores_of(recorded, corpus)["other"]
    (file, *_) = sorted((recorded["other"].home.parent / "tokens").glob("*-0.safetensors"))
    written = file.stat().st_mtime_ns
    scores_of(recorded, corpus)
    assert file.stat().st_mtime_ns == written and not caplog.records
    theirs = recorded["gold"].home.parent / "tokens" / file.name
    file.write_bytes(theirs.read_bytes())  # of the same documents, in another run
    again = scores_of(recorded, corpus)["other"]
    np.testing.assert_array_equal(again.beta, first.beta)
    assert "is of another run" in caplog.text and "made again" in caplog.text


def test_other_documents_train_nothing_and_a_typed_one_is_read_at_each_checkpoint():
    p = ClassificationDynamics.checked(SMALL | {"steps": 10, "every": 5, "device": "cpu"})
    p.train_all()
    other = ClassificationDynamics.checked(p.model_dump() | {"test_documents": 30})
    models, _ = other.train_all()
    for name in models:
        assert other.trained[name].history.folder == p.trained[name].history.folder
    assert [len(each.scores("test")["uniform"].right[0]) for each in (p, other)] == [60, 30]
    steps = list(p.kept("seed 20").load())
    assert steps == list(p.moments)
    typed = measures.text_scores(p.kept("seed 20").load().values(), p.corpus, "superb and dull")
    assert typed["scores"]["α"].shape == (len(steps), 5) and len(typed["predicted"]) == len(steps)
    assert not torch.equal(typed["scores"]["β"][0], typed["scores"]["β"][-1])


def test_scores_are_written_as_they_are_and_further_checkpoints_looked_at(tmp_path):
    p = ClassificationDynamics.checked(SMALL | {"steps": 10, "every": 5, "checkpoints": [3], "device": "cpu"})
    p.train_all()
    p.results.write_scores(tmp_path, p.words)
    found = {split: p.results.scores[split]["seed 20"] for split in p.looked_at}
    assert p.moments == (0, 3, 5, 10)
    for split, run in found.items():
        folder = tmp_path / f"split={split}" / "run=seed 20"
        written = {step: pd.read_parquet(folder / f"step={step}") for step in p.moments}
        for place, table in enumerate(written.values()):
            np.testing.assert_array_equal(table["alpha"], run.alpha[place])
            np.testing.assert_array_equal(table["delta"], run.delta[place])
            assert table.groupby("row")["alpha"].sum().to_numpy() == pytest.approx(1, abs=1e-5)
            assert (table.groupby("row")["token"].max() + 1).tolist() == run.lengths.tolist()
            assert table["word"].groupby(table["row"]).agg(list)[1] == p.looked_at[split].words(1)
    assert "delta" not in pd.read_parquet(tmp_path / "split=test/run=uniform/step=10/scores.parquet")
    every = pd.read_parquet(tmp_path)
    assert set(every["run"]) == set(p.results.here) and set(p.moments) <= set(every["step"])
    with pytest.raises(ParameterError, match=r"checkpoints should be from 0 to steps = 10; got \[11\]"):
        ClassificationDynamics.checked(SMALL | {"steps": 10, "checkpoints": [11]})


def test_lexical_scores_are_weights_towards_the_label(corpus):
    weights = torch.randn(len(corpus.vocabulary))
    run = measures.lexical_scores(Lexical(weights, 1.0, {}), corpus.test)
    sign = 2 * int(corpus.test.labels[0]) - 1
    first = corpus.test.tokens[: int(corpus.test.lengths[0])]
    np.testing.assert_array_equal(run.beta[0, : len(first)], (sign * weights[first]).numpy())


def test_the_embedding_only_model_learns_at_the_rate_that_is_asked_for():
    slow, fast = (
        ClassificationDynamics.checked(SMALL | {"device": "cpu", "lexical_learning_rate": rate})
        for rate in (1e-5, 1e-1)
    )
    first, other = (p.lexical["embedding"] for p in (slow, fast))
    assert float((first.weights - other.weights).abs().max()) > 0.1
    assert torch.equal(slow.lexical["logistic"].weights, fast.lexical["logistic"].weights)


def test_documents_over_training_are_what_the_explorer_takes(corpus, recorded):
    runs = scores_of(recorded, corpus)
    told = measures.documents_over_training(
        corpus.test, corpus.names, range(3), runs["gold"], runs["uniform"]
    )
    assert len(told) == 3
    for row, document in enumerate(told.values()):
        assert document["tokens"] == corpus.test.words(row)
        assert document["gold"] == corpus.names[int(corpus.test.labels[row])]
        right = [text == document["gold"] for text in document["predicted"]]
        assert right == runs["gold"].right[:, row].tolist()
        assert float(document["true_relevance"].max()) > 0
    model = Classifier(ClassifierConfig(len(corpus.vocabulary), 4, 4, 4))
    explorer = DynamicsExplorer(
        told, (0, 5), classify=lambda text: measures.text_scores([model], corpus, text)
    )
    assert "βᵘᶠ" in str(explorer)
    typed = measures.text_scores([model], corpus, "superb and dull")
    assert typed["tokens"] == ["<bos>", "superb", "and", "dull", "<eos>"]
    assert typed["predicted"][0] in corpus.names and typed["scores"]["α"].shape == (1, 5)


# ---- stages ------------------------------------------------------------------------------------------


def test_the_spread_of_attention_is_1_if_even_and_0_if_on_one_token():
    alpha = stats.Ragged(np.array([0.25] * 4 + [0.0, 1.0] + [0.5, 0.5, 0.0]), np.array([4, 2, 3]))
    np.testing.assert_allclose(stats.attention_spread(alpha), [1, 0, np.log(2) / np.log(3)])


def test_stages_agree_with_the_table_at_the_chosen_checkpoint(corpus, recorded):
    runs = scores_of(recorded, corpus)
    settings = stats.AgreementSettings(as_published=True)
    agreements = stats.Agreements.of(runs, settings=settings)
    chosen, table = agreements.chosen, agreements.table().set_index("metric")
    stages = agreements.stages().set_index(["metric", "step"])
    assert chosen["gold"] == int(runs["gold"].accuracy.argmax())
    step = int(runs["gold"].steps[chosen["gold"]])
    row = stages.loc[("A(alpha_t, beta_uf)", step)]
    assert row["value"] == table.loc["A(alpha, beta_uf)", "value"]
    assert row["low"] <= row["value"] <= row["high"] and row["n"] == len(corpus.test)
    beta_uf = runs["uniform"].scores("beta").at(chosen["alpha, beta_uf"])
    own = stats.agreement(runs["gold"].scores("beta").at(0), beta_uf).value
    assert stages.loc[("A(beta_t, beta_uf)", 0), "value"] == own


def test_kinds_of_planted_tokens_and_where_the_largest_falls(corpus):
    documents = corpus.test
    kinds = tables.token_kinds(corpus, documents)
    truth = documents.toward_label(documents.relevance).numpy()
    lengths = documents.lengths.numpy()
    assert ((kinds == 0) == (truth > 0)).all() and ((kinds == 1) == (truth < 0)).all()
    assert (kinds == 4).sum() == 2 * len(documents)
    words = np.array([word for row in range(len(documents)) for word in documents.words(row)])
    confounders = "winter harbour trumpet monday iron wolf summer garden violin friday silver swan"
    assert len(set(words[kinds == 2])) > 0 and set(words[kinds == 2]) <= set(confounders.split())
    scores = {"truth": stats.Ragged(truth, lengths), "flat": stats.Ragged(np.zeros_like(truth), lengths)}
    where = tables.largest_by_kind(scores, kinds, tables.TOKEN_KINDS).set_index(["score", "kind"])["value"]
    assert where["truth", "keyword for the label"] == 1
    assert where["flat", "<bos> or <eos>"] == 1  # of equals the first counts
    assert where.groupby("score").sum().to_numpy() == pytest.approx(1)
    fillers = [(part == 3).mean() for part in np.split(kinds, np.cumsum(lengths)[:-1])]
    assert where["any token", "filler"] == pytest.approx(np.mean(fillers))


# ---- tables ------------------------------------------------------------------------------------------


def test_the_grid_puts_ours_under_theirs():
    rows = [("A(alpha, beta_uf)", 0.5, 0.4, 0.6), ("xi*", 0.9, 0.8, 1.0), ("xi(x)", 0.8, 0.7, np.inf)]
    here = pd.DataFrame(rows, columns=["metric", "value", "low", "high"]).assign(task="IMDB", setting="ours")
    columns = ["A(alpha, beta_uf)", "xi(x)", "xi(alpha, beta_uf)", "xi*"]
    mine = here.assign(task="mine")
    grid = paper_grid(pd.concat([here, mine]), TABLE, columns, ["Yelp"]).set_index(["task", "by"])
    assert not grid.pop("of its scale").any()  # which nothing says of rows without a record
    assert grid.loc[("IMDB", "original"), "A(alpha, beta_uf)"] == "52.55"
    assert grid.loc[("IMDB", "ours"), "A(alpha, beta_uf)"] == "50.0 [40.0, 60.0]"
    assert grid.loc[("IMDB", "ours"), "xi(x)"] == "80.0 [70.0, never]"
    assert grid.loc[("IMDB", "ours"), "xi(alpha, beta_uf)"] == "never"
    assert (grid.loc[("Furd", "ours")] == "not run").all()
    assert (grid.loc[("Yelp", "original")] == "not found").all()
    assert ("mine", "ours") in grid.index and ("mine", "original") not in grid.index
    assert not grid.isna().any().any()


def test_figures_have_a_panel_for_each_table():
    rows = pd.DataFrame({"metric": ["A(alpha_t, beta_uf)"] * 2, "step": [0, 10], "value": [0.1, 0.4]})
    drawn = plots.over_training([rows, rows.assign(low=0.0, high=1.0)], ["share", "agreement"], 0.05)
    left, right = drawn.figure.axes
    assert left.get_ylabel() == "share" and len(right.lines) == 2  # the curve, and chance
    assert "βᵘᶠ" in right.get_legend().get_texts()[0].get_text()
    alpha, beta = np.array([0.2, 0.8]), {"beta": np.array([0.0, 1.0]), "beta_px": np.array([1.0, 0.0])}
    assert len(figures.relevance_scatter(alpha, beta, np.array([0, 1]), ["a", "b"]).figure.axes) == 2
    assert len(figures.relevance_scatter(alpha, beta).figure.axes) == 2

"""The chapter on RASP languages: sizes, recipes, ablations, grids, lengths, and languages from a file."""

import pickle
from pathlib import Path

import pandas as pd
import pytest
import torch

from attnlib.files import cache_folder
from attnlib.generators.rasp import definitions_in
from attnlib.training.objectives import TokenLoss
from attnlib.training.packed import PackedLoss
from book.chapters.rasp import RaspLanguages
from book.chapters.rasp import tables as rasp_tables
from book.chapters.rasp.recipes import RECIPES, Recipe, Size
from book.chapters.rasp.tables import length_rows
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of, profile

QUICK = defaults_of("rasp_languages")


def chapter(**changes):
    return RaspLanguages.checked(QUICK | {"also": []} | changes)


def small(**changes):
    tiny = {"length": 8, "longest": 16, "width": 16, "train_samples": 100, "test_samples": 50, "steps": 2}
    return chapter(**tiny | {"device": "cpu"} | changes)


def test_a_language_is_trained_by_its_own_recipe_unless_the_reader_says_otherwise():
    p = chapter(language="hist2")
    plan = p.plan(p.runs()[0])
    assert (plan.steps, plan.learning_rate) == (RECIPES["hist2"].steps, 0.002)
    assert p.recipe(p.lang("sort")) == Recipe()
    assert chapter(language="hist2", steps=7, learning_rate=0.5).recipe(p.lang()) == Recipe(7, 32, 0.5)


def test_only_long_texts_in_wide_models_are_packed():
    """The paper's own scale is; what is trained by default, and recorded, is not."""
    p = chapter(language="hist2")
    assert [type(p.setup(run).loss) for run in p.runs()] == [TokenLoss, TokenLoss]
    large = chapter(**profile("rasp_languages", "paper") | {"language": "hist2", "device": "cpu"})
    losses = {large.loss(run) for run in large.runs()}
    assert losses == {PackedLoss(weight, as_published=True) for weight in (0.0, 100.0)}
    for smaller in ({"length": 49}, {"width": 64}):
        assert type(large.model_copy(update=smaller).loss(large.runs()[0])) is TokenLoss


def test_the_best_weights_are_taken_back_where_the_reader_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path))
    # Rates so high that nothing is learned: most evaluations bring nothing better.
    wild = {"learning_rate": 1.0, "schedule": "constant", "steps": 30}
    plain, reset = (small(language="hist", **wild, reset_patience=patience) for patience in (0, 1))
    assert plain.setup(plain.runs()[0]).hooks == []
    (hook,) = reset.setup(reset.runs()[0]).hooks
    assert (hook.patience, hook.every) == (1, reset.plan(reset.runs()[0]).evaluate_every)
    assert "reset after 1 evaluations" in reset.run_table()["setting"][0]
    losses = [p.train(p.runs()[0], progress=False).history.table["loss"] for p in (plain, reset)]
    first = next(step for step, pair in enumerate(zip(*losses, strict=True)) if pair[0] != pair[1])
    assert first >= 3, "the best, two that are no better, and then a reset"


def test_precision_is_the_readers_and_named_where_it_is_not_single():
    plain, half = chapter(), chapter(precision="bf16")
    assert [p.plan(p.runs()[0]).precision for p in (plain, half)] == ["float32", "bf16"]
    assert ["bf16" in p.run_table()["setting"][0] for p in (plain, half)] == [False, True]
    before = plain.recorded_parameters
    assert half.recorded_parameters == before | {"precision": "bf16"} and "precision" not in before


def test_ablations_take_from_the_size_the_program_calls_for():
    p = chapter(language="hist2", ablations=["one head fewer", "one layer fewer, twice as wide"])
    runs = p.runs()
    names = ["hist2", "hist2, supervised", "hist2, one head fewer", "hist2, one layer fewer, twice as wide"]
    assert [run.name for run in runs] == names
    sizes = [p.size(run.language, run.ablation) for run in runs]
    assert sizes == [Size(2, 2, 64), Size(2, 2, 64), Size(2, 1, 64), Size(1, 4, 128)]
    model = p.setup(runs[3]).model
    assert (model.config.n_layers, model.config.n_heads, model.config.width) == (1, 4, 128)
    assert model.config.ff_width == 256 and model.config.max_length == p.longest + 1
    assert p.of_full_size(p.lang()) == runs[:2]
    assert list(p.run_table()["width"]) == [64, 64, 64, 128]
    assert list(p.run_table()["ablation"]) == ["", "", *p.ablations]
    assert set(chapter(n_layers=3).run_table()["ablation"]) == {"another size"}


def test_a_grid_is_every_rate_with_every_gamma():
    grid = {"learning_rate": [0.1, 0.01], "gamma": [0.9]}
    falling = {"language": "dyck1_ptf", "schedule": "exponential"}
    runs = chapter(**falling, grid=grid).runs()
    assert [run.name for run in runs] == ["dyck1_ptf, rate 0.1, gamma 0.9", "dyck1_ptf, rate 0.01, gamma 0.9"]
    p = chapter(**falling, grid={"gamma": [0.9, 0.99]}, seeds=[1, 2])
    plans = [p.plan(run) for run in p.runs()]
    wanted = [(0.002, gamma, seed) for gamma in (0.9, 0.99) for seed in (1, 2)]
    assert [(each.learning_rate, each.gamma, each.seed) for each in plans] == wanted


@pytest.mark.parametrize("which", ["seeds", "paper"])
@pytest.mark.parametrize("name", ["hist2", "dyck2_ptf"])
def test_profiles_fit_every_language(which, name):
    p = chapter(**profile("rasp_languages", which) | {"language": name})
    assert {run.language.name for run in p.runs()} == {name}
    assert len(p.runs()) == {"seeds": 3, "paper": 4}[which] * (2 if name == "hist2" else 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ablations": ["one head less"]}, "ablations.0: should be one of one head fewer.*'one head less'"),
        ({"ablations": ["one head fewer"]}, "'one head fewer' takes the only one from sort, .* have 2 x 1"),
        ({"as_published": True, "dropout": 0.1}, "without dropout only .* got dropout 0.1"),
        ({"longest": 29}, "longest should be at least length = 30; got 29"),
        ({"grid": {"gamma": [0.9, 0.99]}}, "onecycle: say -p schedule exponential"),
        ({"grid": {"learning_rate": [0.1, 0.10000001]}}, "got two called 'sort, rate 0.1, gamma 0.98'"),
        ({"length": 1, "longest": 1}, "max_length must be larger"),
        ({"language_file": "nowhere.py"}, "language_file must be a Python file.*nowhere.py"),
    ],
)
def test_wrong_settings_are_told_what_is_allowed(change, message):
    with pytest.raises(ParameterError, match=message):
        chapter(**change)


def test_what_a_smaller_model_lacks_is_said_and_the_rest_is_drawn():
    sample, lacking = chapter(n_layers=1).annotated("cab")
    assert list(sample.target_attention) == [(0, 0)] and lacking == ["L1H0"]
    sample, lacking = chapter().annotated("cab")
    assert list(sample.target_attention) == [(0, 0), (1, 0)] and not lacking


def texts(batches):
    rows = [zip(each.input_ids, each.attention_mask, strict=True) for each in batches]
    return {tuple(ids[mask].tolist()) for pairs in rows for ids, mask in pairs}


def test_every_model_is_tested_beyond_the_length_of_training():
    p = small(language="hist", positions="learned")
    tests = p.tests_by_length(p.lang())
    assert list(tests) == [(1, 5), (6, 10), (11, 15), (16, 16)]
    for (low, high), batches in tests.items():
        lengths = torch.cat([each.attention_mask.sum(1) for each in batches])
        assert low + 1 <= lengths.min() and lengths.max() <= high + 1
    trained = texts(p.lang().in_batches(p.sequences(p.lang(), "train")))
    assert not trained & texts(each for batches in tests.values() for each in batches)
    models, _ = p.train_all()
    rows = length_rows(p, models)
    assert list(rows["metric"])[:4] == [f"accuracy, length {low} to {high}" for low, high in tests]
    assert list(rows["up_to"])[:4] == [5, 10, 15, 16] and set(rows["n"]) == {10}
    assert set(rows["run"]) == {run.name for run in p.runs()} and rows["value"].between(0, 1).all()


# ---- a language of one's own -------------------------------------------------------------------------

SHIFT = """
from attnlib.generators import rasp
from attnlib.generators.rasp import LANGUAGES

known = LANGUAGES["sort"]
looks = rasp.Pattern(lambda s: rasp.select(s.positions, (s.positions - 1).clamp(min=0)))
shift = rasp.Definition(
    "shift",
    "the symbol before",
    lambda s: s.symbols.gather(1, (s.positions - 1).clamp(min=0).expand_as(s.symbols)),
    heads={(0, 0): looks},
)
"""


def test_a_language_comes_from_a_file(tmp_path):
    file = tmp_path / "shift.py"
    file.write_text(SHIFT)
    p = small(language="shift", language_file=str(file), also=["reverse"])
    assert p.lang().outputs("cab") == ["c", "c", "a"]
    assert [run.name for run in p.runs()] == ["shift", "shift, supervised", "reverse"]
    models, _ = p.train_all()
    assert list(models) == ["shift", "shift, supervised", "reverse"] and p.label == "shift"


def test_other_processes_are_sent_languages_by_name(tmp_path):
    (tmp_path / "shift.py").write_text(SHIFT)
    p = small(language="shift", language_file=str(tmp_path / "shift.py"), also=["reverse"])
    for run in p.runs():
        there = pickle.loads(pickle.dumps(run))
        assert (there.name, there.language.outputs("cab")) == (run.name, run.language.outputs("cab"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "must define a rasp.Definition"),
        ("1 / 0", "fails when it is run: ZeroDivisionError"),
        (SHIFT.replace('"shift",', '"sort",'), "anew; got 'sort'"),
        (SHIFT.replace('"shift",', '"../shift",'), "anew; got '../shift'"),
        (SHIFT + "two = rasp.Definition('shift', '', lambda s: s.symbols)", "anew; got 'shift'"),
    ],
)
def test_a_file_that_defines_none_is_told_so(tmp_path, text, message):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ValueError, match=message):
        definitions_in(tmp_path / "mine.py")


# ---- tables over records -----------------------------------------------------------------------------


def recorded(**columns):
    about = {"task": "hist2", "bos": True, "supervised": False, "ablation": "", "alphabet_size": 10}
    about |= {"length": 30, "width": 64, "positions": "sinusoidal", "validated": 0.9, "up_to": float("nan")}
    return about | {"seed": 0, "metric": "accuracy", "value": 0.9, "n": 1000, "record": "a"} | columns


THREE_SEEDS = [recorded(seed=seed, value=value) for seed, value in enumerate([0.90, 0.92, 0.94])]


def test_tables_are_means_over_seeds_with_intervals():
    rows = pd.DataFrame(
        [
            *THREE_SEEDS,
            recorded(value=0.99, supervised=True),
            recorded(task="hist without BOS", bos=False, value=0.5),
            recorded(task="dyck1_ptf", alphabet_size=3),
            recorded(metric="accuracy, compiled", value=1.0),
            recorded(metric="agreement with sort", value=0.1),
            recorded(ablation="another size", value=0.3),
            recorded(task="mine", value=0.7),
        ]
    )
    table = rasp_tables.table_of_languages(rasp_tables.trained_models(rows)).set_index("language")
    assert list(table.index) == ["hist", "hist2", "dyck1_ptf", "mine"]
    assert table.loc["hist2", ["BOS", "BOS, supervised", "paper"]].tolist() == [
        "92.0 [87.0, 97.0]",
        "99.0 [no interval; n = 1]",
        "99.58 (unverified)",
    ]
    assert table.loc["hist", ["no BOS", "BOS"]].tolist() == ["50.0 [no interval; n = 1]", "not run"]
    assert table.loc[["hist2", "hist"], "seeds"].tolist() == ["1 to 3", "1"]
    assert table.loc["dyck1_ptf", "BOS, supervised"] == "no program"
    assert table.loc["mine", "paper"] == "not found"


def test_a_run_of_one_seed_made_here_takes_no_place_among_three_of_another():
    """It was validated better than the record's first seed: another machine rounds otherwise."""
    here = recorded(seed=0, value=0.99, validated=0.95, record="made here")
    too = recorded(seed=3, value=0.96, validated=0.2, record="made here too")
    rows = pd.DataFrame([*THREE_SEEDS, here, too])
    assert sorted(rasp_tables.trained_models(rows)["value"]) == [0.90, 0.92, 0.94, 0.96]
    learned_longer = rows[:3].assign(record="longer", validated=0.95, value=0.97)
    assert rasp_tables.trained_models(pd.concat([rows, learned_longer]))["value"].head(3).eq(0.97).all()


def test_of_a_grid_the_best_on_validation_counts():
    rows = pd.DataFrame([recorded(validated=0.8, value=0.99), recorded(validated=0.9, value=0.7)])
    assert rasp_tables.trained_models(rows)["value"].tolist() == [0.7]


def test_ablations_stand_beside_the_full_size_and_the_papers():
    wide = {"ablation": "one layer fewer, twice as wide", "width": 128, "value": 0.4}
    rows = pd.DataFrame(
        [recorded(), recorded(**wide), recorded(width=256, value=0.1), recorded(task="sort", value=0.8)]
    )
    models = rasp_tables.trained_models(rasp_tables.of_scale(rows, width=64, length=30))
    beside = rasp_tables.beside_table_2(models)
    assert beside[["task", "size", "value", "n"]].to_numpy().tolist() == [
        ["hist2", "full size", 0.9, 1],
        ["hist2", "one layer fewer, twice as wide", 0.4, 1],
    ]


def test_a_size_that_is_neither_full_nor_a_papers_ablation_stands_beside_neither():
    other = [recorded(ablation="another size", value=0.3), recorded(task="sort", ablation="another size")]
    rows = pd.DataFrame([recorded(), recorded(ablation="one head fewer"), *other])
    models = rasp_tables.trained_models(rows)
    beside = rasp_tables.beside_table_2(models)
    assert beside[["task", "size"]].to_numpy().tolist() == [
        ["hist2", "full size"],
        ["hist2", "one head fewer"],
    ]


def test_of_one_alphabet_languages_that_bring_their_own_are_left_in():
    rows = pd.DataFrame(
        [
            recorded(alphabet_size=26),
            recorded(),
            recorded(task="dyck5_ptf without BOS", bos=False, alphabet_size=11),
            recorded(task="dyck1_ptf", alphabet_size=3, width=256),
        ],
        index=[3, 1, 0, 2],
    )
    found = rasp_tables.of_scale(rows, alphabet_size=10, width=64)
    assert found["task"].tolist() == ["hist2", "dyck5_ptf without BOS"]


def test_alphabets_and_lengths_over_records():
    rows = pd.DataFrame(
        [
            recorded(alphabet_size=26, value=0.8),
            recorded(),
            recorded(task="dyck1_ptf", alphabet_size=3),
            *[recorded(seed=seed, metric="accuracy, length 1 to 5", up_to=5, value=1.0) for seed in (0, 1)],
        ]
    )
    models = rasp_tables.trained_models(rows)
    table = rasp_tables.table_of_alphabets(models)
    assert list(table.columns) == ["language", "10 symbols", "26 symbols", "seeds"]
    assert list(table["language"]) == ["hist2"]
    lengths = rasp_tables.accuracy_by_length(models)
    assert lengths[["language", "up_to", "value", "n"]].values.tolist() == [["hist2", 5, 1.0, 2]]


def test_agreement_with_programs_over_records():
    found = {
        "agreement with hist2": (0.6, 0.3),
        "agreement with sort": (0.2, 0.1),
        "agreement with hist": (0.5, 0.1),
        "accuracy": (0.9, None),
        "accuracy, attention of hist2 in its heads": (0.8, None),
        "accuracy, even of hist2 in its heads": (0.1, None),
        "accuracy, even of sort in its heads": (0.7, None),
    }
    rows = [
        recorded(run=f"seed {seed}", record="a", seed=seed, metric=metric, value=value, uniform=even)
        for metric, (value, even) in found.items()
        for seed in (0, 1)
    ]
    rows += [recorded(run="dyck", record="b", task="dyck1_ptf", metric="agreement with sort", uniform=0.1)]
    means = rasp_tables.of_programs(pd.DataFrame(rows))
    assert means["value"].round(9).tolist() == [0.6, 0.35, 0.5, 0.3, 0.9, 0.8, 0.1]
    assert set(means["language"]) == {"hist2"} and set(means["n"]) == {2}
    assert rasp_tables.of_programs(pd.DataFrame(rows[-1:])).empty


def test_training_sequences_are_those_that_the_model_was_trained_on(monkeypatch):
    p, asked = small(train_samples=40, test_samples=40, supervised=[]), []
    scores = rasp_tables.sample_scores

    def seen(model, batches):
        asked.extend(tuple(row.tolist()) for batch in batches for row in batch.input_ids)
        return scores(model, batches)

    monkeypatch.setattr(rasp_tables, "sample_scores", seen)
    models, _ = p.train_all()
    found = rasp_tables.training_rows(p, models)
    run = p.runs()[0]
    pad = run.language.tokenizer.pad_token_id

    def words(rows):
        return {tuple(i for i in row if i != pad) for row in rows}

    trained_on = [row.tolist() for step in range(4) for row in p.setup(run).batches(step).input_ids]
    assert set(found["n"]) == {40} and words(trained_on) <= words(asked)
    unseen = [row.tolist() for batch in p.tests(run.language) for row in batch.input_ids]
    assert not words(unseen) & words(asked)
    assert all(Path(p.files[name]).is_relative_to(cache_folder()) for name in models)
    assert all(Path(p.files[name]).is_file() for name in models)

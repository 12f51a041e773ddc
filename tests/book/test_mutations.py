"""A few hundred mutations of every kind of file that is kept: made again, equal; or one clear line.

Never silently other results, and never the raw error of a library.
"""

import json
import logging
import os
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml

from attnlib.files import CheckpointError
from attnlib.models.gguf import CONVERSION, MANIFEST, _checksums, wrong_with
from attnlib.models.stored import stored_model
from attnlib.training import History
from attnlib.training.keeping import Snapshots, kept
from book.chapters.records import record, records
from book.chapters.records import runs as record_file
from book.chapters.storing import store_model
from book.pipeline.kept import describing, discard_damaged
from book.pipeline.profiles import ProfileError, parameters_of, read_profile
from tests.attnlib.small_runs import LANGUAGE, build, train
from tests.conftest import ROOT
from tests.mutations import mutations, restored

ROWS = pd.DataFrame({"metric": ["accuracy"], "value": [0.9], "low": [0.8], "high": [0.95], "n": [50]})
budgets = pytest.mark.parametrize("n", [24, pytest.param(150, marks=pytest.mark.slow)])
"""How many places are hit: the first of those that `make test-all` hits."""


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(record_file, "RECORDED", tmp_path / "recorded")
    origin = record_file.origin("chapter")
    monkeypatch.setattr(record_file, "origin", lambda _: origin)  # asks git, which takes its time
    caplog.set_level(logging.WARNING)


def one_clear_line(error: Exception | str, path: Path) -> None:
    text = str(error)
    assert path.stem in text and "\n" not in text.strip() and len(text) < 1000, text


def weights(of):
    return {name: value.clone() for name, value in of.state_dict().items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# ---- records


@budgets
@pytest.mark.parametrize("kind", [".json", ".parquet"])
def test_records(kind, n, caplog):
    def made(value=0.9, label="sort"):
        who = {"notebook": "chapter", "label": label, "params": {"of": label}, "device": "CPU"}
        return record(ROWS.assign(value=value), seconds=1.0, **who)

    other = made(0.1, "another")
    path = made().with_suffix(kind)
    data, before = path.read_bytes(), records("chapter").set_index("record").sort_index()
    for name, mutate in mutations(data, other.with_suffix(kind).read_bytes(), seed=0, n=n):
        mutate(path)
        caplog.clear()
        after = records("chapter").set_index("record").sort_index()
        if not after.equals(before):
            if marked := [text for text in after.index if "no checksum" in text]:
                assert "checksum" in name or kind == ".json", name
                after = after.rename(index={text: text.split(" [")[0] for text in marked})
            else:
                one_clear_line(caplog.messages[0], path)
                assert set(after.index) < set(before.index), name
        try:
            made()
            assert records("chapter")["value"].tolist() == [0.1, 0.9], name
        except CheckpointError as error:
            one_clear_line(error, path)
        restored(path, data)
        made()


# ---- stored models


@budgets
def test_stored_models(n, tmp_path):
    def stored(name, seed):
        how = {"chapter": "rasp_languages", "params": {}, "training": History(steps=7, seconds=1.0)}
        held_out = {"n": 4, "split": "test", "max_length": 6}
        return store_model(build(seed).eval(), LANGUAGE, held_out, name=name, folder=tmp_path, **how)

    other, path = stored("another", 1), stored("sort", 0)
    data, before = path.read_bytes(), stored_model("rasp_languages", "sort", tmp_path)
    for name, mutate in mutations(data, other.read_bytes(), seed=1, n=n):
        mutate(path)
        try:
            after = stored_model("rasp_languages", "sort", tmp_path)
            assert equal(weights(after.model), weights(before.model)) and after.note == before.note, name
        except CheckpointError as error:
            one_clear_line(error, path)
        except ValueError as error:
            assert name == "gone" and "has no stored model 'sort'" in str(error)
        restored(path, data)


# ---- trainings


def run(width=8, hooks=()):
    snapshots = Snapshots([0, 5])
    model, history = train(build(width=width), hooks=[snapshots, *hooks], chapter="x")
    return model, history, snapshots


def killed(event):
    if event.step == 7:
        raise MemoryError


@pytest.mark.parametrize("n", [6, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("file", "finished"),
    [
        ("best.safetensors", True),
        ("snapshots/step-00000005.safetensors", True),
        ("history.csv", True),
        ("last.safetensors", False),
    ],
)
def test_trainings(tmp_path, file, finished, n, caplog):
    to_train, history, snapshots = run()
    folder, other = history.folder, tmp_path / "other"
    before, then = weights(to_train), weights(snapshots.at(5))
    table = history.table.drop(columns="seconds")
    if not finished:
        shutil.rmtree(folder.parent)
        for width in (16, 8):
            with pytest.raises(MemoryError):
                run(width, [killed])
    else:
        run(16)
    (another,) = {path for path in folder.parent.iterdir() if path.is_dir()} - {folder}
    shutil.copytree(folder, other)
    data = (folder / file).read_bytes()
    for name, mutate in mutations(data, (another / file).read_bytes(), seed=2, n=n):
        if name == "a folder":
            continue
        mutate(folder / file)
        caplog.clear()
        again, history, snapshots = run()
        assert equal(weights(again), before) and equal(weights(snapshots.at(5)), then), name
        assert history.table.drop(columns="seconds").equals(table), name
        assert not any("\n" in message for message in caplog.messages)
        shutil.rmtree(folder)
        shutil.copytree(other, folder)


@budgets
def test_what_is_computed_of_a_run_and_kept(n, tmp_path, caplog):
    def scores(run="a"):
        whose = {"kind": "relevance", "run": run, "step": 3}
        return kept(
            tmp_path / f"{run}.safetensors", whose, lambda: {"score": torch.arange(9.0) + (run != "a")}
        )

    path, before = tmp_path / "a.safetensors", scores()
    scores("b")
    data = path.read_bytes()
    for name, mutate in mutations(data, (tmp_path / "b.safetensors").read_bytes(), seed=3, n=n):
        mutate(path)
        caplog.clear()
        try:
            assert equal(scores(), before), name
            assert all("\n" not in message for message in caplog.messages)
        except CheckpointError as error:
            one_clear_line(error, path)
        restored(path, data)


# ---- the converted language model


@budgets
@pytest.mark.parametrize("file", [MANIFEST, "model.safetensors", "config.json"])
def test_a_converted_model(n, tmp_path, file):
    for folder, seed in (("a", 0), ("b", 1)):
        (tmp_path / folder).mkdir()
        build(seed, width=8).save(tmp_path / folder / "model.safetensors")
        (tmp_path / folder / "config.json").write_text(json.dumps({"seed": seed}))
        whose = {"source": folder, "conversion": CONVERSION, "files": _checksums(tmp_path / folder)}
        (tmp_path / folder / MANIFEST).write_text(json.dumps(whose, indent=1))
    path = tmp_path / "a" / file
    data = path.read_bytes()
    assert wrong_with(tmp_path / "a", "a") is None
    for name, mutate in mutations(data, (tmp_path / "b" / file).read_bytes(), seed=4, n=n):
        mutate(path)
        wrong = wrong_with(tmp_path / "a", "a")
        if wrong is None:
            assert file == MANIFEST and json.loads(path.read_bytes()) == json.loads(data), name
        else:
            assert "\n" not in wrong
        restored(path, data)


# ---- what the pipeline keeps


@budgets
@pytest.mark.parametrize("file", ["runs/a.json", "notebooks/a.ipynb", "results/a/run.parquet"])
def test_a_build(n, tmp_path, file):
    def built(name):
        text = json.dumps({"cells": [name], "nbformat": 4}, indent=1)
        for part, content in ((f"notebooks/{name}.ipynb", text), (f"results/{name}/run.parquet", name)):
            (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / part).write_text(content)
        (tmp_path / "runs").mkdir(exist_ok=True)
        left = [tmp_path / f"notebooks/{name}.ipynb", tmp_path / f"results/{name}/run.parquet"]
        (tmp_path / f"runs/{name}.json").write_text(describing({"notebook": name, "wall_time_s": 1.5}, left))

    built("a")
    built("b")
    assert discard_damaged(tmp_path) == []
    path, other = tmp_path / file, tmp_path / file.replace("a.", "b.").replace("/a/", "/b/")
    data = path.read_bytes()
    for name, mutate in mutations(data, other.read_bytes(), seed=5, n=n):
        mutate(path)
        said = discard_damaged(tmp_path)
        if said:
            one_clear_line(*said, Path("a"))
            assert "is made again" in said[0]
        elif name != "gone":  # a file that is not there is made by Snakemake
            assert json.loads(path.read_bytes()) == json.loads(data), name
        if said or (name == "gone" and file.startswith("runs")):
            assert not (tmp_path / "runs/a.json").exists()
        assert (tmp_path / "runs/b.json").exists()
        shutil.rmtree(path) if path.is_dir() else None
        built("a")


def test_what_seems_to_be_of_a_time_to_come_is_made_again(tmp_path):
    """The clock was set back: an edit made now would seem older than what it changes."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/a.ipynb").write_text("{}")
    run = tmp_path / "runs/a.json"
    run.write_text(describing({"notebook": "a"}, [tmp_path / "notebooks/a.ipynb"]))
    assert discard_damaged(tmp_path) == []
    os.utime(run, (time.time() + 3600,) * 2)
    (said,) = discard_damaged(tmp_path)
    assert said.startswith("a is made again: ") and "the clock was set back" in said and not run.exists()


# ---- profiles


@budgets
def test_profiles(n, tmp_path):
    notebook = ROOT / "notebooks/rasp_languages.ipynb"
    names = set(parameters_of(notebook))
    data = (ROOT / "notebooks/profiles/rasp_languages/smoke.yaml").read_bytes()
    path = tmp_path / "smoke.yaml"
    path.write_bytes(data)
    assert read_profile(path, notebook) == yaml.safe_load(data)
    for _, mutate in mutations(data, b"model: tiny-random\n", seed=6, n=n):
        mutate(path)
        try:
            assert names >= read_profile(path, notebook).keys()  # its values are for the chapter to judge
        except ProfileError as error:
            one_clear_line(error, path)
        restored(path, data)

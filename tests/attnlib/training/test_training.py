"""fit(): exact after a kill, calm after Ctrl-C, clear about everything else."""

import csv
import errno
import itertools
import logging
import math
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnlib.files import load_tensors, save_tensors
from attnlib.generators.base import IGNORE, Batch
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import (
    CheckpointError,
    Plan,
    also_before,
    fit,
    run,
    token_loss,
    token_scores,
    token_scores_and_loss,
)
from attnlib.training.objectives import attention_error

torch.set_num_threads(1)
VOCABULARY = 6


def batch_at(step: int) -> Batch:
    """Sort up to five symbols; also: attend to the same symbol (head L0H0)."""
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(0, VOCABULARY, (8, 5), generator=generator)
    real = torch.arange(5) < torch.randint(2, 6, (8, 1), generator=generator)
    targets = ids.masked_fill(~real, VOCABULARY).sort(1).values.masked_fill(~real, IGNORE)
    same = (ids[:, :, None] == ids[:, None]) & real[:, None] & real[:, :, None]
    return Batch(ids, targets, real, target_attention={(0, 0): same})


def build(dropout=0.1, seed=0):
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(VOCABULARY, n_layers=1, width=16, dropout=dropout, max_length=5))


def plan(steps=20, **settings):
    return Plan(**{"steps": steps, "evaluate_every": 5, "device": "cpu", "learning_rate": 0.01, **settings})


def evaluate(model):
    return token_scores(model, [batch_at(-1), batch_at(-2)])


def train(model=None, the_plan=None, **settings):
    model = model or build()
    settings = {"evaluate": evaluate, "progress": False, "loss": token_loss(0.5), **settings}
    return model, fit(model, settings.pop("batch_at", batch_at), plan=the_plan or plan(), **settings)


def same_weights(a, b):
    return all(
        torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def killer(at, error=KeyboardInterrupt):
    def hook(event):
        if event.step == at:
            raise error

    return hook


# --- The loop ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_it_is_the_loop_one_would_write(optimizer):
    model, history = train(
        the_plan=plan(12, optimizer=optimizer, weight_decay=0.1, clip=0.5, seed=7), evaluate=None
    )
    ours = build()
    make = torch.optim.AdamW if optimizer == "adamw" else torch.optim.Adam
    steps = make(ours.parameters(), 0.01, weight_decay=0.1, fused=True)
    torch.manual_seed(7)
    losses = []
    for step in range(12):
        loss = token_loss(0.5)(ours, batch_at(step))["loss"]
        steps.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(ours.parameters(), 0.5)
        steps.step()
        losses.append(loss.item())
    assert same_weights(model, ours)
    table = history.table
    assert list(table.step) == [5, 10, 12]
    assert table.loss[0] == pytest.approx(sum(losses[:5]) / 5, rel=1e-4), "a mean since the row before"
    assert table.loss[2] == pytest.approx(sum(losses[10:]) / 2, rel=1e-4)
    assert list(table.columns) == ["step", "loss", "cross_entropy", "attention", "lr", "seconds"]
    assert not model.training


def test_the_callers_random_numbers_are_left_alone():
    torch.manual_seed(5)
    _, expected = build(seed=5), torch.rand(3)
    torch.manual_seed(5)
    train(build(seed=5))
    assert torch.equal(torch.rand(3), expected)


def test_evaluating_does_not_disturb_training():
    def noisy(model):
        assert not model.training
        assert not torch.is_grad_enabled()
        torch.rand(100)
        return {"accuracy": 1.0}

    steps = [plan(7, evaluate_every=every) for every in (7, 1)]
    ends = []
    for each in steps:
        weights = {}
        train(the_plan=each, evaluate=noisy, hooks=[lambda e, w=weights: w.update(copied(e.model))])
        ends.append(weights)
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def same_end(folder, other):
    """Whether two runs stand at the same weights, moments and random state, with the same history.

    Both have to be unfinished: the state of a run that is finished is not kept.
    """
    (mine, header), (theirs, expected) = (load_tensors(f / "last.safetensors") for f in (folder, other))
    for row in header["rows"] + expected["rows"]:
        del row["seconds"]
    equal = mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)
    return equal and header == expected


def copied(model):
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def test_hooks_see_every_step_in_order():
    seen = []

    @also_before
    def first(event):
        seen.append(("first", event.step, event.batch is None))
        if event.step:
            assert torch.equal(event.batch.input_ids, batch_at(event.step - 1).input_ids)
            assert set(event.losses) == {"loss", "cross_entropy", "attention"}
            assert event.lr == 0.01
            assert event.model.classify.weight.grad is not None
            assert event.model.training
        else:
            assert same_weights(event.model, build())

    train(the_plan=plan(3), hooks=[first, lambda event: seen.append(("second", event.step, False))])
    steps = [(name, step, False) for step in (1, 2, 3) for name in ("first", "second")]
    assert seen == [("first", 0, True), *steps]


def rates(**settings):
    seen = []
    scores = iter([0.5, 0.5, 0.5, 0.5, 0.6, 0.6])
    errors = iter([0.5, 0.4, 0.4, 0.4, 0.3, 0.3])
    score = lambda model: {"accuracy": next(scores), "error": next(errors)}  # noqa: E731
    train(the_plan=plan(learning_rate=1.0, **settings), evaluate=score, hooks=[lambda e: seen.append(e.lr)])
    return seen


def test_schedules():
    assert rates(steps=6) == [1.0] * 6
    assert rates(steps=6, warmup=2) == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1])
    assert rates(steps=6, schedule="exponential", gamma=0.5, epoch_steps=2) == [1, 1, 0.5, 0.5, 0.25, 0.25]
    plateau = {"schedule": "plateau", "gamma": 0.5, "plateau_patience": 2, "evaluate_every": 1}
    assert rates(steps=6, **plateau) == [1, 1, 1, 0.5, 0.5, 0.5]
    assert rates(steps=6, plateau_of="error", **plateau) == [1, 1, 1, 1, 0.5, 0.5]
    theirs = torch.optim.Adam([nn.Parameter(torch.zeros(1))])
    cycle = torch.optim.lr_scheduler.OneCycleLR(theirs, 1.0, total_steps=10)
    expected = []
    for _ in range(10):
        expected.append(theirs.param_groups[0]["lr"])
        theirs.step()
        cycle.step()
    assert rates(steps=10, schedule="onecycle") == pytest.approx(expected)
    assert max(range(10), key=rates(steps=10, schedule="onecycle", warmup=6).__getitem__) == 5


@pytest.mark.parametrize("sign", [1, -1])
def test_the_best_model_is_kept_and_loaded(sign, tmp_path):
    scores, kept = iter([0.1, 0.7, 0.7, 0.2]), {}

    def score(model):
        value = next(scores)
        if value == 0.7 and not kept:
            kept.update(copied(model))
        return {"accuracy": sign * value}

    model, history = train(the_plan=plan(higher_is_better=sign > 0), evaluate=score, folder=tmp_path)
    assert (history.best_step, history.best) == (10, sign * 0.7), "the first of equals"
    assert all(torch.equal(kept[name], weight) for name, weight in model.state_dict().items())
    assert same_weights(Transformer.load(tmp_path / "best.safetensors"), model)
    assert list(history.table.step) == [5, 10, 15, 20]


def test_nan_is_never_the_best():
    scores = iter([float("nan"), 0.1, float("nan"), 0.0])
    _, history = train(evaluate=lambda model: {"accuracy": next(scores)})
    assert (history.best_step, history.best) == (10, 0.1)


def test_it_stops_early_only_after_enough_evaluations_in_a_row():
    scores = iter([1.0, 0.9, 1.0, 1.0, 1.0])
    _, history = train(
        the_plan=plan(100, stop_at=1.0, patience=2), evaluate=lambda model: {"accuracy": next(scores)}
    )
    assert list(history.table.step) == [5, 10, 15, 20]
    assert history.ended(plan(100, stop_at=1.0, patience=2))
    losses = iter([0.5, 0.2, 0.1])
    lower = plan(100, metric="error", higher_is_better=False, stop_at=0.2, patience=2)
    _, history = train(the_plan=lower, evaluate=lambda model: {"error": next(losses)})
    assert list(history.table.step) == [5, 10, 15]


def test_bf16_trains_and_differs():
    model, _ = train(the_plan=plan(precision="bf16"))
    assert model.classify.weight.dtype == torch.float32
    assert not same_weights(model, train()[0])


# --- Going on after a kill --------------------------------------------------------------------------------

KILLED_AT_13 = """if True:
    import os, signal, sys
    sys.path.insert(0, sys.argv[1])
    import test_training as t
    kill = lambda event: event.step == 13 and os.kill(os.getpid(), signal.SIGKILL)
    t.train(the_plan=t.plan(schedule="onecycle"), folder=sys.argv[2], hooks=[kill])
"""


def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path):
    command = [sys.executable, "-c", KILLED_AT_13, os.path.dirname(__file__), str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    steps, settings, halt = [], plan(schedule="onecycle"), killer(18)
    train(the_plan=settings, folder=tmp_path, hooks=[lambda e: steps.append(e.step), halt])
    train(the_plan=settings, folder=tmp_path / "whole", hooks=[halt])
    assert steps == list(range(11, 19)), "from the last evaluation, at step 10"
    assert same_end(tmp_path, tmp_path / "whole")
    killed, history = train(the_plan=settings, folder=tmp_path)
    assert same_weights(killed, train(the_plan=settings)[0])
    with open(tmp_path / "history.csv") as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["5", "10", "15", "20"]
    assert history.table.seconds.is_monotonic_increasing
    assert "goes on at step 10" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize("schedule", ["constant", "exponential", "onecycle", "plateau"])
def test_any_number_of_interruptions_changes_nothing(tmp_path, schedule):
    how = {"gamma": 0.5, "plateau_patience": 1} if schedule == "plateau" else {"epoch_steps": 3, "warmup": 2}
    settings = plan(schedule=schedule, evaluate_every=4, **how)
    for stop in (2, 10, 9, 17):
        assert train(the_plan=settings, folder=tmp_path, hooks=[killer(stop), killer(19)])[1].interrupted
    for each in (tmp_path, tmp_path / "whole"):
        train(the_plan=settings, folder=each, hooks=[killer(19)])
    assert same_end(tmp_path, tmp_path / "whole")
    assert same_weights(train(the_plan=settings, folder=tmp_path)[0], train(the_plan=settings)[0])


def test_a_finished_run_returns_at_once_and_its_folder_is_only_read(tmp_path):
    model, history = train(folder=tmp_path)
    before = {
        path: path.stat().st_mtime_ns for path in tmp_path.iterdir() if path.name not in ("log.txt", ".lock")
    }

    def never(*_):
        raise AssertionError("nothing should be computed")

    again, loaded = train(build(seed=9), folder=tmp_path, batch_at=never, loss=never, evaluate=never)
    assert same_weights(model, again)
    assert loaded.rows == history.rows
    assert not again.training
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_clock_that_was_set_back_changes_nothing(tmp_path):
    """What a run has kept is of a time to come when it goes on, and when it is loaded."""

    def are_of_tomorrow():
        for path in (tmp_path, *tmp_path.iterdir()):
            os.utime(path, (time.time() + 86_400,) * 2)

    train(folder=tmp_path, hooks=[killer(13)])
    are_of_tomorrow()
    model, history = train(folder=tmp_path)
    are_of_tomorrow()
    again, loaded = train(build(seed=9), folder=tmp_path, hooks=[killer(1, AssertionError)])
    assert same_weights(model, train()[0]) and same_weights(model, again) and loaded.rows == history.rows


def test_an_early_stopped_run_is_finished(tmp_path):
    settings = plan(100, stop_at=0.0, patience=2)
    train(the_plan=settings, folder=tmp_path)
    _, history = train(the_plan=settings, folder=tmp_path, hooks=[killer(11, AssertionError)])
    assert list(history.table.step) == [5, 10]


def by_signal(event):
    """What the terminal sends, in place of the exception that comes of it."""
    if event.step == 13:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("interrupt", [killer(13), by_signal])
def test_ctrl_c_keeps_the_best_model(tmp_path, interrupt):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # not so in the background
    scores, kept = iter([0.9, 0.1]), {}

    def score(model):
        kept.setdefault("best", copied(model))
        return {"accuracy": next(scores)}

    model, history = train(evaluate=score, hooks=[interrupt], folder=tmp_path)
    signal.signal(signal.SIGINT, before)
    assert history.interrupted and not model.training
    assert "interrupted" in (tmp_path / "log.txt").read_text()
    assert (history.best_step, history.best) == (5, 0.9)
    assert all(torch.equal(kept["best"][name], weight) for name, weight in model.state_dict().items())


def test_ctrl_c_while_an_evaluation_is_saved_finds_its_row_and_its_weights_or_neither(tmp_path, monkeypatch):
    times, on_cpu = itertools.count(1), run.on_cpu

    def interrupted(tensors):
        if next(times) == 4:  # the last of them
            raise KeyboardInterrupt
        return on_cpu(tensors)

    monkeypatch.setattr(run, "on_cpu", interrupted)
    rising = itertools.count()
    model, history = train(evaluate=lambda model: {"accuracy": next(rising)}, folder=tmp_path)
    assert (history.interrupted, history.finished, history.best_step) == (True, False, 15)
    kept = load_tensors(tmp_path / "best.safetensors")[0]
    assert all(torch.equal(kept[name], weight) for name, weight in model.state_dict().items())
    monkeypatch.undo()
    again, history = train(evaluate=lambda model: {"accuracy": next(rising)}, folder=tmp_path)
    assert history.finished and history.best_step == 20 and not same_weights(model, again)


def test_ctrl_c_before_the_first_evaluation():
    model, history = train(hooks=[killer(2)])
    assert (history.interrupted, history.best_step, history.best, len(history.table)) == (True, None, None, 0)
    assert evaluate(model)


@pytest.mark.parametrize("better", [True, False])
def test_killed_while_a_checkpoint_is_written_it_goes_on_from_the_one_before(tmp_path, monkeypatch, better):
    scores = {0: 0.1, 1: 0.2, 2: 0.3 if better else 0.0, 3: 0.15}
    write, calls, asked = save_tensors, [], itertools.count()

    def stop(path, tensors, header):
        calls.append(path.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        write(path, tensors, header)

    def score(model):
        return {"accuracy": scores[next(asked)]}

    with monkeypatch.context() as patched:
        patched.setattr(run, "save_tensors", stop)
        train(evaluate=score, folder=tmp_path)
    (tmp_path / "best.safetensors").unlink()  # that Ctrl-C wrote, and a kill would not have
    asked = itertools.count(2)
    model, history = train(evaluate=score, folder=tmp_path)
    assert history.best_step == (15 if better else 10) and len(history.rows) == 4
    asked = itertools.count()
    assert same_weights(model, train(evaluate=score)[0])


# --- What goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"the_plan": plan(30)}, {"evaluate": None}, {"model": build(dropout=0.2)}],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change):
    train(folder=tmp_path)
    with pytest.raises(CheckpointError, match=f"is of another run.* or delete {tmp_path}"):
        train(folder=tmp_path, **change)


def test_a_damaged_checkpoint_is_said_in_a_line_and_made_again(tmp_path, caplog):
    train(folder=tmp_path, hooks=[killer(12)])
    data = bytearray((tmp_path / "last.safetensors").read_bytes())
    data[-100] ^= 4
    (tmp_path / "last.safetensors").write_bytes(data)
    steps = []
    caplog.clear()
    model, _ = train(folder=tmp_path, hooks=[lambda event: steps.append(event.step)])
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert re.search(r"last\.safetensors cannot be used: .* Training starts again", said)
    assert steps == list(range(1, 21)) and same_weights(model, train()[0])


def test_a_full_disk_stops_the_run_and_keeps_what_there_was(tmp_path, monkeypatch):
    train(folder=tmp_path, hooks=[killer(7)])
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.safetensors")}

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        patched.setattr(run, "write_atomically", lambda *_: None)
        with pytest.raises(CheckpointError, match=r"last\.safetensors could not be written \(No space left"):
            train(folder=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.safetensors")} == before
    assert not list(tmp_path.glob("*.tmp"))
    assert same_weights(train(folder=tmp_path)[0], train()[0]), "and the same call goes on"


def test_leftovers_of_a_killed_run_are_cleared(tmp_path):
    (tmp_path / "last.safetensors.0.tmp").write_bytes(b"half")
    train(folder=tmp_path)
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("log_every", [1, 4, 100])
def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(tmp_path, log_every):
    def loss(model, batch):
        scale = float("nan") if torch.equal(batch.input_ids, batch_at(6).input_ids) else 1.0
        return token_loss()(model, batch)["loss"] * scale

    with pytest.raises(FloatingPointError, match=r"loss is nan at step 7\. .*of step 5, is kept"):
        train(loss=loss, folder=tmp_path, the_plan=plan(log_every=log_every))
    assert load_tensors(tmp_path / "last.safetensors")[1]["step"] == 5
    log = (tmp_path / "log.txt").read_text()
    assert "stopped at step" in log and "loss is nan at step 7" in log


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    def poison(event):
        if event.step == 5:
            event.model.classify.bias.data[0] = float("inf")

    with pytest.raises(FloatingPointError, match="a weight is not finite after step 5"):
        train(folder=tmp_path, hooks=[poison])
    assert not (tmp_path / "last.safetensors").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"betas": (0.9, 1.0)}, "betas must"),
        ({"warmup": 20}, "warmup must"),
        ({"warmup": 2, "schedule": "plateau"}, "warmup must"),
    ],
)
def test_a_wrong_plan_says_what_is_allowed(wrong, message):
    with pytest.raises(ValueError, match=message):
        plan(**wrong)


def test_arguments_that_do_not_fit_each_other(tmp_path, monkeypatch):
    for name, wrong in (
        ("evaluate", {"the_plan": plan(schedule="plateau"), "evaluate": None}),
        ("folder", {"the_plan": plan(tensorboard=True)}),
        ("evaluate", {"evaluate": lambda model: {"f1": 1.0}}),
        ("evaluate", {"the_plan": plan(plateau_of="f1"), "evaluate": lambda model: {"accuracy": 1.0}}),
        ("evaluate", {"evaluate": lambda model: {"accuracy": 1.0, "loss": 1.0}}),
        ("evaluate", {"evaluate": lambda model: 0.5}),
        ("loss", {"loss": lambda *_: {"mse": torch.zeros(())}}),
        ("loss", {"loss": lambda *_: torch.zeros(2)}),
    ):
        with pytest.raises(ValueError, match=f"^{name} must "):
            train(**wrong)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="needs the package tensorboard"):
        train(the_plan=plan(tensorboard=True), folder=tmp_path)


# --- What it leaves ---------------------------------------------------------------------------------------


def test_tensorboard_log_and_console(tmp_path, capsys, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr(logging.Logger, "hasHandlers", lambda self: False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    settings = plan(tensorboard=True, log_every=2)
    train(the_plan=settings, folder=tmp_path, hooks=[killer(13)], progress=True)
    train(the_plan=settings, folder=tmp_path, progress=True)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(2, 21, 2))
    assert [event.step for event in events.Scalars("evaluation/accuracy")] == [5, 10, 15, 20]
    assert {"attention", "cross_entropy", "lr"} <= set(events.Tags()["scalars"])
    console = capsys.readouterr().err
    assert "step 20, accuracy" in console
    assert "20/20" in console
    log = (tmp_path / "log.txt").read_text()
    assert log.count("step 20, accuracy") == 1
    assert "interrupted" in log
    assert not logging.getLogger("attnlib.training").handlers


def test_a_silent_run_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train()
    assert capsys.readouterr() == ("", "")
    assert os.listdir(tmp_path) == []


def test_checkpoints_say_what_they_are_and_the_last_one_goes_when_the_run_is_done(tmp_path):
    train(folder=tmp_path, hooks=[killer(18)])
    for kind in ("last", "best"):
        _, about = load_tensors(tmp_path / f"{kind}.safetensors")
        assert about["plan"]["learning_rate"] == 0.01 and about["kind"] == kind and not about["finished"]
        assert kind == "best" or about["step"] == 15
    train(folder=tmp_path)
    assert not (tmp_path / "last.safetensors").exists()
    _, about = load_tensors(tmp_path / "best.safetensors")
    assert about["finished"] and [row["step"] for row in about["rows"]] == [5, 10, 15, 20]


def test_a_history_says_what_really_happened(tmp_path):
    _, history = train(hooks=[killer(3)], folder=tmp_path)
    assert (history.steps, history.interrupted, history.finished) == (3, True, False)
    assert history.seconds > 0
    _, whole = train(folder=tmp_path)
    assert (whole.steps, whole.interrupted, whole.finished) == (20, False, True)
    _, loaded = train(folder=tmp_path)
    assert (loaded.steps, loaded.seconds, loaded.finished) == (20, whole.seconds, True)
    assert loaded.seconds == loaded.rows[-1]["seconds"] and loaded.folder == tmp_path


def test_the_seconds_of_sessions_add_up(tmp_path, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(run.time, "perf_counter", lambda: next(clock))
    train(hooks=[killer(12)], folder=tmp_path)
    before = load_tensors(tmp_path / "last.safetensors")[1]["rows"][-1]["seconds"]
    assert before == 2  # a tick at each evaluation
    assert train(folder=tmp_path)[1].seconds == before + 2


def test_the_log_begins_with_what_the_run_is(tmp_path):
    train(folder=tmp_path)
    log = (tmp_path / "log.txt").read_text()
    for part in ("model: Transformer {", "parameters: 3,", "data: Batch: input_ids [8, 5]", "device: cpu",
                 f"torch {torch.__version__}", "'learning_rate': 0.01"):  # fmt: skip
        assert part in log.split("step 5, accuracy")[0], part


def test_events_of_a_kept_run_are_written_from_its_history(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(folder=tmp_path)
    for _ in range(2):
        train(the_plan=plan(tensorboard=True), folder=tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    for name in ("evaluation/accuracy", "loss", "lr"):
        assert [event.step for event in events.Scalars(name)] == [5, 10, 15, 20]


def test_a_second_run_waits_for_the_first_and_finds_it_done(tmp_path, caplog):
    here, go_on, steps = Event(), Event(), []

    def pause(event):
        if event.step == 13:
            here.set()
            go_on.wait(60)

    with ThreadPoolExecutor(2) as threads:  # the lock is the folder's: threads and processes wait alike
        first = threads.submit(train, folder=tmp_path, hooks=[pause])
        here.wait(60)
        second = threads.submit(train, folder=tmp_path, hooks=[steps.append])
        while "being trained by another process; waiting" not in caplog.text and not second.done():
            time.sleep(0.01)
        go_on.set()
    assert same_weights(first.result()[0], second.result()[0]) and not steps
    assert (tmp_path / "log.txt").read_text().count("step 20, accuracy") == 1


# --- The objectives ---------------------------------------------------------------------------------------


def plain_attention_error(attentions, targets, real, as_published):
    """Entry by entry, as the definition reads."""
    errors, rows = [], []
    for (layer, head), target in targets.items():
        for sample, n in enumerate(real.sum(1).tolist()):
            keep = real[sample]
            attention = attentions[sample, layer, head][keep][:, keep]
            wanted = target[sample][keep][:, keep] + 1e-8
            squares = (attention - wanted / wanted.sum(1, keepdim=True)) ** 2
            errors.append(squares.sum() / n**2)
            rows += [row.sum() for row in squares]
    return sum(errors) / len(errors) if as_published else sum(rows) / len(rows)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(["left", "right"]))
def test_attention_error_is_its_definition(seed, as_published, side):
    generator = torch.Generator().manual_seed(seed)
    real = torch.arange(6) < torch.randint(1, 7, (3, 1), generator=generator)
    real = real.flip(1) if side == "left" else real
    attentions = torch.rand(3, 2, 2, 6, 6, generator=generator).softmax(-1)
    pairs = real[:, :, None] & real[:, None]
    targets = {head: (torch.rand(3, 6, 6, generator=generator) < 0.3) & pairs for head in [(0, 1), (1, 0)]}
    got = attention_error(attentions, targets, real, as_published=as_published)
    torch.testing.assert_close(got, plain_attention_error(attentions, targets, real, as_published))


def test_token_loss_ignores_what_is_not_predicted():
    model, batch = build(dropout=0.0), batch_at(0)
    losses = token_loss(3.0)(model, batch)
    logits = model(batch.input_ids, batch.attention_mask).logits
    asked = batch.target_ids != IGNORE
    expected = F.cross_entropy(logits[asked], batch.target_ids[asked])
    torch.testing.assert_close(losses["cross_entropy"], expected)
    torch.testing.assert_close(losses["loss"], expected + 3 * losses["attention"])
    assert losses["attention"] > 0
    assert set(token_loss()(model, batch)) == {"loss", "cross_entropy"}


class Fixed(nn.Module):
    """Predicts the input itself."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids, attention_mask=None):
        assert not self.training
        return type("Output", (), {"logits": F.one_hot(input_ids, VOCABULARY).float()})


def test_scores_count_tokens_not_batches():
    def batch(ids, targets):
        ids, targets = torch.tensor(ids), torch.tensor(targets)
        return Batch(ids, targets, torch.ones_like(ids, dtype=torch.bool))

    batches = [
        batch([[1, 2, 3], [1, 1, 1]], [[1, 2, 0], [1, IGNORE, 1]]),  # 4 of 5 tokens, 1 of 2 samples
        batch([[5]], [[4]]),  # 0 of 1
        batch([[5]], [[IGNORE]]),  # nothing asked
    ]
    model = Fixed()
    assert token_scores(model, batches) == pytest.approx({"accuracy": 4 / 6, "exact_match": 1 / 3})
    assert math.isnan(token_scores(model, [])["accuracy"])
    found, lost = token_scores_and_loss(model, batches), math.log(math.e + VOCABULARY - 1)
    assert found.pop("valid_loss") == pytest.approx(lost - 4 / 6) and found == token_scores(model, batches)
    assert model.training, "left in the mode it had"

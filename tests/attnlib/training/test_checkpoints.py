"""Checkpoints: exact, whole or not at all, and never silently wrong."""

import errno
import os
import resource
import subprocess
import sys
from unittest.mock import Mock

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlib import files
from attnlib.files import CheckpointError, load_tensors, save_tensors, write_atomically

TENSORS = {
    "weight": torch.randn(3, 4),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "brain": torch.randn(5).bfloat16(),
    "flags": torch.tensor([True, False]),
    "nothing": torch.zeros(0, 7),
    "column": torch.arange(6).view(2, 3).T,
}
HEADER = {
    "steps": 3,
    "rate": 0.1 + 0.2,
    "infinite": float("inf"),
    "text": "β",
    "list": [1, None, {"a": True}],
}


def test_what_is_saved_comes_back(tmp_path):
    path = tmp_path / "a.safetensors"
    save_tensors(path, TENSORS, HEADER)
    tensors, header = load_tensors(path)
    assert header == {"format": files.FORMAT, **HEADER}
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_saving_copies_nothing(tmp_path):
    """Once, a checkpoint took twice its size in memory beside what it was made from."""
    script = """if True:
        import pathlib, resource, sys, torch
        from attnlib.files import save_tensors
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        path = pathlib.Path(sys.argv[1])
        save_tensors(path, {"small": torch.ones(10)}, {})
        tensors = {name: torch.ones(10**7) for name in "abcdef"}
        before = peak()
        save_tensors(path, tensors, {})
        print((peak() - before) / sum(tensor.nbytes for tensor in tensors.values()))
    """
    command = [sys.executable, "-c", script, str(tmp_path / "a")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.25


def test_parts_of_one_tensor_are_saved_by_themselves(tmp_path):
    whole = torch.arange(10.0)
    parts = {"first": whole[:4], "last": whole[4:], "again": whole, "view": whole.view(2, 5)}
    save_tensors(tmp_path / "a", parts, {})
    found, _ = load_tensors(tmp_path / "a")
    assert all(torch.equal(found[name], part) for name, part in parts.items())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("flips") / "a.safetensors"
    save_tensors(path, TENSORS, HEADER)
    return path, path.read_bytes()


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_flipped_bit_is_found(written, data):
    path, whole = written
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    path.write_bytes(damaged)
    with pytest.raises(CheckpointError, match=r"a\.safetensors cannot be used"):
        load_tensors(path)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_truncation_is_found(written, data):
    path, whole = written
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(CheckpointError, match="cut short"):
        load_tensors(path)


def test_a_file_of_another_program_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(CheckpointError, match="not ours"):
        load_tensors(tmp_path / "foreign.safetensors")


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FORMAT", 99)
    save_tensors(tmp_path / "a", {}, {})
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="format 99, and this version reads 1"):
        load_tensors(tmp_path / "a")


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_tensors(tmp_path / "none")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "a.safetensors"
    write_atomically(path, b"old")
    refuse = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(os, step, refuse)
    message = r"a\.safetensors could not be written \(No space left on device.*intact. Free some space"
    with pytest.raises(CheckpointError, match=message):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_ctrl_c_while_writing_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", b"new")
    assert os.listdir(tmp_path) == []


def test_a_real_write_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    write_atomically(tmp_path / "a", b"x" * 1000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(CheckpointError, match=r"File too large; 5,000 bytes\)\. The previous version is"):
            write_atomically(tmp_path / "a", b"y" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "a").read_bytes() == b"x" * 1000
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"No such file or directory.*Mend that"):
        write_atomically(tmp_path / "none" / "a", b"")

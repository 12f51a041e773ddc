"""Something else stands where a kept file or its folder should: equal results, or one clear line.

Never a raw error of the system, other results without a word, or a wait without end.
"""

import hashlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from attnlib.files import CheckpointError
from attnlib.generators.sources import PublicFile
from attnlib.generators.translation import Subwords
from attnlib.models import Transformer
from attnlib.models.gguf import CONVERSION, MANIFEST, _checksums, wrong_with
from attnlib.models.stored import stored_model
from attnlib.training import History
from attnlib.training.keeping import Snapshots, kept
from book.chapters.records import record, records
from book.chapters.records import runs as record_file
from book.chapters.storing import store_model
from book.pipeline.kept import describing, discard_damaged
from book.pipeline.profiles import ProfileError, read_yaml
from tests.attnlib.small_runs import LANGUAGE, build, train

ROWS = pd.DataFrame({"metric": ["accuracy"], "value": [0.9], "low": [0.8], "high": [0.95], "n": [50]})

# ---- what is kept, and where: each makes its files in an empty folder, and returns what uses them


def weights(model: torch.nn.Module) -> dict[str, list[float]]:
    return {name: value.flatten().tolist() for name, value in model.state_dict().items()}


def a_training(home: Path) -> Callable[[], Any]:
    def use() -> Any:
        model, history = train(hooks=[snapshots := Snapshots([0, 6])])
        return weights(model), weights(snapshots.at(6)), history.table["loss"].tolist()

    use()
    return use


def an_unfinished_training(home: Path) -> Callable[[], Any]:
    use = a_training(home)
    shutil.rmtree(home / "cache")

    def killed(event: Any) -> None:
        if event.step == 7:
            raise MemoryError

    with pytest.raises(MemoryError):
        train(hooks=[Snapshots([0, 6]), killed])
    return use


def computed(home: Path) -> Callable[[], Any]:
    def use() -> Any:
        whose = {"kind": "scores", "run": "a"}
        return kept(home / "scores/a.safetensors", whose, lambda: {"a": torch.arange(4.0)})["a"].tolist()

    use()
    return use


def a_stored_model(home: Path) -> Callable[[], Any]:
    how: dict[str, Any] = {"chapter": "rasp_languages", "params": {}, "name": "sort", "folder": home}
    how["training"] = History(steps=7, seconds=1.0)
    store_model(build().eval(), LANGUAGE, {"n": 4, "split": "test", "max_length": 6}, **how)
    return lambda: weights(stored_model("rasp_languages", "sort", home).model)


def a_saved_model(home: Path) -> Callable[[], Any]:
    build().save(home / "model.safetensors")
    return lambda: weights(Transformer.load(home / "model.safetensors"))


def a_model_saved_again(home: Path) -> Callable[[], Any]:
    build().save(home / "model.safetensors")
    return lambda: build().save(home / "model.safetensors")


def a_record(home: Path) -> Callable[[], Any]:
    def use() -> Any:
        this = record(ROWS, notebook="chapter", label="a", params={}, device="CPU")
        return records("chapter", this)["value"].tolist()

    use()
    return use


def a_vocabulary(home: Path) -> Callable[[], Any]:
    def use() -> Any:
        return Subwords.trained(["a b c"], 9, home / "words").tokenizer.to_str()

    use()
    return use


def a_public_file(home: Path) -> Callable[[], Any]:
    (home.parent / "source.txt").write_bytes(b"abc")
    file = PublicFile((home.parent / "source.txt").as_uri(), hashlib.sha256(b"abc").hexdigest())
    file.read(home / "public", "")
    return lambda: file.read(home / "public", "")


def a_profile(home: Path) -> Callable[[], Any]:
    (home / "smoke.yaml").write_text("steps: 100\n")
    return lambda: read_yaml(home / "smoke.yaml")


def a_converted_model(home: Path) -> Callable[[], Any]:
    (home / "model").mkdir()
    (home / "model/config.json").write_text("{}")
    whose = {"source": "a", "conversion": CONVERSION, "files": _checksums(home / "model")}
    (home / "model" / MANIFEST).write_text(json.dumps(whose))

    def use() -> None:
        if wrong := wrong_with(home / "model", "a"):
            raise ValueError(f"model: {wrong}")

    return use


def a_build(home: Path) -> Callable[[], Any]:
    for part in ("notebooks/a.ipynb", "results/a/run.parquet"):
        (home / part).parent.mkdir(parents=True)
        (home / part).write_text("x")
    (home / "runs").mkdir()
    left = [home / "notebooks/a.ipynb", home / "results/a/run.parquet"]
    (home / "runs/a.json").write_text(describing({"notebook": "a"}, left))

    def use() -> None:
        if said := discard_damaged(home):
            raise ValueError(*said)

    return use


KEPT = [
    *(a_training, an_unfinished_training, computed, a_stored_model, a_saved_model, a_model_saved_again),
    *(a_record, a_vocabulary, a_public_file, a_profile, a_converted_model, a_build),
]

# ---- what else may stand there


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").touch()


def a_link_to_a_folder(path: Path) -> None:
    (path.parent / "elsewhere").mkdir()
    path.symlink_to(path.parent / "elsewhere")


INSTEAD: list[Callable[[Path], Any]] = [
    a_folder,
    a_link_to_a_folder,
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to(path.parent / "nowhere/at all"),
    lambda path: path.symlink_to("/dev/zero"),
    os.mkfifo,
    lambda path: path.write_text("x"),
]
REFUSALS = (CheckpointError, ProfileError, ValueError, ConnectionError)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that nobody may enter as well: pytest's own is its user's alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for name in ("cache", "results"):
        monkeypatch.setenv(f"ATTNLIB_{name.upper()}", str(folder / "home" / name))
    monkeypatch.setattr(record_file, "RECORDED", folder / "recorded")
    origin = record_file.origin()
    monkeypatch.setattr(record_file, "origin", lambda: origin)  # asks git, which takes its time
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def no_wait_is_endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A pipe that is waited for, or a device read to its end, ends here rather than never."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waits"))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def made_anew(home: Path, make: Callable[[Path], Callable[[], Any]]) -> Callable[[], Any]:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    return make(home)


def places(home: Path, make: Callable[[Path], Callable[[], Any]]) -> tuple[Any, list[Path]]:
    """What comes out where nothing is wrong, and every file and folder that is used for it."""
    expected = made_anew(home, make)()
    made_anew(home, make)
    return expected, sorted(path.relative_to(home) for path in home.rglob("*"))


def names(path: Path) -> set[str]:
    """What a message may name it by: of a folder, also what is to be in it."""
    return {each.name.partition(".")[0] for each in (path, *path.rglob("*"))}


def equal_or_said(use: Callable[[], Any], expected: Any, named: set[str], what: str) -> None:
    signal.alarm(60)
    try:
        assert use() == expected, what
    except REFUSALS as error:
        said = str(error)
        assert any(name in said for name in named), f"{what}: {said}"
        assert "\n" not in said and len(said) < 1000, f"{what}: {said}"
    signal.alarm(0)


@pytest.mark.slow
@pytest.mark.parametrize("make", KEPT)
def test_something_else_stands_in_the_place_of_a_file_or_folder(home: Path, make: Any) -> None:
    expected, found = places(home, make)
    for place in found:
        for number, put in enumerate(INSTEAD):
            use, path = made_anew(home, make), home / place
            named = names(path)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            put(path)
            equal_or_said(use, expected, named, f"{place}, {number}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody and be root again")
@pytest.mark.parametrize("make", KEPT)
def test_who_may_not_read_or_write_is_told(home: Path, make: Any) -> None:
    expected, found = places(home, make)  # as root, who may import what is imported late
    for place in found:
        use, path = made_anew(home, make), home / place
        named = names(path)
        for each in home.rglob("*"):
            os.chown(each, 65534, 65534)
        path.chmod(0)
        os.seteuid(65534)
        try:
            equal_or_said(use, expected, named, str(place))
        finally:
            os.seteuid(0)

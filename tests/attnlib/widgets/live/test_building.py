"""The committed engine is what its source compiles to, and the file of the book's model is fetched."""

import pytest

from attnlib.widgets.live import ENGINES, LIVE, build, packing


def test_the_committed_engine_is_rebuilt_bit_for_bit(tmp_path):
    if build.compiler() != build.COMPILER:
        pytest.skip(f"needs its compiler: pip install ziglang=={build.COMPILER}")
    build.build(tmp_path)
    assert set(ENGINES) == {*build.VARIANTS}
    for name in ENGINES:
        assert (tmp_path / name).read_bytes() == (LIVE / name).read_bytes(), "run attnlib.widgets.live.build"


def test_another_compiler_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "compiler", lambda: "0.1")
    with pytest.raises(RuntimeError, match=r"pip install ziglang==.* first; found 0\.1"):
        build.build(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_books_model_is_fetched_where_it_is_not_kept_and_has_its_licence(tmp_path, monkeypatch):
    monkeypatch.setattr(
        packing, "gguf_of_default", lambda fetch=False: tmp_path / "its.gguf" if fetch else None
    )
    assert packing.model_file(packing.DEFAULT, tmp_path) == (tmp_path / "its.gguf", packing.LICENCE)

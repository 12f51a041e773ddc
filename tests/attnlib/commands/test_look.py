"""`attnlib look`: a page of every kind, and one line for everything that cannot be done."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
)

from attnlib.attribution import METHODS, attribute
from attnlib.commands import looking, main
from attnlib.commands.looking import FIRST, ROLLOUT, ROLLOUTS, Seen, look
from attnlib.files import CheckpointError
from attnlib.generators import char_tokenizer
from attnlib.generators.prompts import continued
from attnlib.models.pretrained import load_language_model
from attnlib.models.stored import STORED, stored_model
from attnlib.models.transformer import Transformer, TransformerConfig
from attnlib.pieces import pieces
from attnlib.rollout import generate_with_rollout
from attnlib.widgets import AttentionExplorer, GenerationExplorer, MeasureExplorer, ModelExplorer
from attnlib.widgets.live import packing
from tests.live_page import small_llama, small_tokenizer
from tests.pretrained import trained_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """Folders of tiny random models: one that writes, an encoder, one without attention."""
    folder, tokenizer = tmp_path_factory.mktemp("models"), char_tokenizer()
    size = {"vocab_size": len(tokenizer), "hidden_size": 32}
    deep = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    made = {
        "writer": GPT2LMHeadModel(
            GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=64)
        ),
        "encoder": BertForMaskedLM(BertConfig(**size, **deep)),
        "recurrent": MambaForCausalLM(MambaConfig(**size, num_hidden_layers=2, state_size=4)),
    }
    for name, model in made.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def quiet(line: str) -> None:
    """Progress that nobody reads."""


def refusal(capsys, *arguments: str) -> str:
    """What a command that cannot be done says, in its last line."""
    assert main(["look", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err.strip().splitlines()[-1]


def test_it_writes_one_page_and_says_on_stdout_only_where(models, tmp_path, capsys) -> None:
    page = tmp_path / "page.html"
    assert main(["look", str(models / "writer"), "the cat", "--new-tokens", "3", "-o", str(page)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{page}\n"
    assert "Loading" in err and "Writing up to 3" in err and "Done: MeasureExplorer" in err
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and "writer: AttnLRP and rollout" in text
    assert f"{ROLLOUT}.\n" in err and f"{ROLLOUT}." in text
    assert str(models) not in text, "the page is sent to others: it does not say where the folder lies"


def test_without_a_method_attnlrp_stands_beside_rollout_and_their_sources_are_told(models) -> None:
    said = []
    seen = look(str(models / "writer"), "the cat", new_tokens=3, say=said.append)
    explorer = seen.explorer
    assert isinstance(explorer, MeasureExplorer) and (explorer.first, explorer.second) == (
        "AttnLRP",
        "rollout",
    )
    assert len(explorer.written) == len(explorer.items) == 3
    assert seen.lead == said[-1] and FIRST["AttnLRP"] in seen.lead and ROLLOUT in seen.lead
    model, tokenizer = load_language_model(str(models / "writer"))
    ids = tokenizer("the cat", return_tensors="pt")["input_ids"]
    every = [*ids[0].tolist(), *generate_with_rollout(model, ids, 3, do_sample=False).tokens.tolist()]
    shown, at = explorer.items[explorer.item], ids.shape[1] + explorer.item
    assert any(map(str.isalnum, shown["predicted"])) and shown["candidates"] == list(range(at - 1))
    for name in ("AttnLRP", "rollout"):
        scores = attribute(model, torch.tensor(every[:at]), method=name, target=every[at])[:-1]
        best = pieces(every, tokenizer)[int(scores.argmax())]
        assert f"by {name}: {best.strip() or repr(best)} {float(scores.max()):.2g}" in said[-2]


def test_a_model_that_does_not_allow_attnlrp_is_shown_by_the_next_method(models, monkeypatch) -> None:
    def refusing(*given, **options):
        raise ValueError("not of this model")

    monkeypatch.setitem(METHODS, "AttnLRP", refusing)
    seen = look(str(models / "writer"), "the cat", new_tokens=2, say=quiet)
    assert seen.explorer.names[:2] == ["gradient x embedding", "rollout"]
    assert seen.lead.startswith(
        "AttnLRP is not given, and gradient x embedding stands in its place: not of this model. Gradient"
    )
    for name in FIRST:
        monkeypatch.setitem(METHODS, name, refusing)
    seen = look(str(models / "writer"), "the cat", new_tokens=2, say=quiet)
    assert isinstance(seen.explorer, GenerationExplorer) and "gradient norm is not given" in seen.lead


def test_a_long_prompt_is_shown_by_rollout_alone_unless_asked(models, monkeypatch) -> None:
    monkeypatch.setattr(looking, "LONGEST", 1)
    seen = look(str(models / "writer"), "the cat", new_tokens=2, say=quiet)
    assert isinstance(seen.explorer, GenerationExplorer) and "--method AttnLRP" in seen.lead
    seen = look(str(models / "writer"), "the cat", "AttnLRP", new_tokens=2, say=quiet)
    assert isinstance(seen.explorer, MeasureExplorer)


def test_the_page_has_the_rollout_of_what_the_model_writes(models) -> None:
    seen = look(str(models / "writer"), "the cat", "rollout", new_tokens=4, say=quiet)
    explorer = seen.explorer
    assert isinstance(explorer, GenerationExplorer)
    assert [each["label"] for each in explorer.items] == ["rollout", "rollout over null"]
    model, tokenizer = load_language_model(str(models / "writer"))
    ids = tokenizer("the cat", return_tensors="pt")["input_ids"]
    result = generate_with_rollout(model, ids, 4, tokenizer=tokenizer, do_sample=False)
    direct = GenerationExplorer.of(result, tokenizer)
    assert explorer.items[0] | {"label": ""} == direct.items[0]
    assert explorer.weights.startswith(direct.weights)


@pytest.mark.parametrize("method", ROLLOUTS)
def test_every_variant_of_rollout_is_shown_first_if_asked(models, method: str) -> None:
    explorer = look(str(models / "writer"), "the cat", method, 2, say=quiet).explorer
    assert explorer.items[explorer.item]["label"] == method


def test_another_measure_asks_a_question_per_written_token(models, monkeypatch) -> None:
    asked = []

    def spied(model, input_ids, **options):
        asked.append((input_ids, options["target"]))
        return METHODS["gradient norm"](model, input_ids, **options)

    monkeypatch.setitem(METHODS, "blank-out", spied)
    explorer = look(str(models / "writer"), "the cat", "blank-out", 3, say=quiet).explorer
    assert isinstance(explorer, MeasureExplorer) and explorer.first == "blank-out"
    assert explorer.names == ["blank-out", "rollout", "mean attention", "raw attention, last layer"]
    assert len(explorer.items) == 3 == len(asked)
    model, _ = load_language_model(str(models / "writer"))
    for (ids, target), shown in zip(asked, explorer.items, strict=True):
        assert model(ids).logits[0, -1].argmax() == target, "the likeliest token is what is asked about"
        assert len(shown["tokens"]) == ids.shape[1] and shown["query"] == ids.shape[1] - 1
        assert shown["truth"] is None and shown["missing"] == {}


def test_tokens_that_a_measure_leaves_out_are_no_candidates(models) -> None:
    model, tokenizer = load_language_model(str(models / "writer"))
    ids = tokenizer("the cat", return_tensors="pt")["input_ids"]
    scores = attribute(model, ids, method="blank-out")
    assert torch.isnan(scores[-1]) and torch.isfinite(scores[:-1]).all()
    shown = look(str(models / "writer"), "the cat", "blank-out", 1, say=quiet).explorer.items[0]
    assert shown["candidates"] == list(range(ids.shape[1] - 1))


def test_a_model_that_came_with_the_book_is_computed_in_the_page(tmp_path) -> None:
    explorer = look("rasp_languages/sort", "cabbage", say=quiet).explorer
    assert isinstance(explorer, ModelExplorer) and explorer.text == "cabbage"


def test_what_cannot_be_done_is_said_in_a_line(models, tmp_path, capsys) -> None:
    writer, there = str(models / "writer"), ("-o", str(tmp_path / "page.html"))
    said = refusal(capsys, writer, "a", "--method", "rolout", *there)
    assert "no method 'rolout'; did you mean 'rollout'? There are" in said and "; blank-out;" in said
    assert "there is no folder ./nowhere" in refusal(capsys, "./nowhere", "a", *there)
    assert "no config.json" in refusal(capsys, str(models), "a", *there)
    assert "is no folder, is not in Hugging Face's cache" in refusal(capsys, "nobody/nothing", "a", *there)
    assert "the prompt is empty" in refusal(capsys, writer, " ", *there)
    assert "at least one token" in refusal(capsys, writer, "a", "--new-tokens", "0", *there)
    assert "more than the model's context of 64" in refusal(capsys, writer, "a", "--new-tokens", "99", *there)
    assert "no chat template" in refusal(capsys, writer, "a", "--chat", *there)
    assert "has no place" in refusal(capsys, writer, "a", "--method", "activation patching", *there)
    assert "there is no method ''" in refusal(capsys, writer, "a", "--method", "", *there)
    assert "it is an encoder" in refusal(capsys, str(models / "encoder"), "the cat", *there)
    assert "if it has any" in refusal(capsys, str(models / "recurrent"), "the cat", *there)
    assert "did you mean 'sort'?" in refusal(capsys, "rasp_languages/sortt", "abc", *there)
    for more in (["--method", "rollout"], ["--new-tokens", "0"]):
        assert "are for language models" in refusal(capsys, "rasp_languages/sort", "abc", *more)
    assert "'A', 'B'" in refusal(capsys, "rasp_languages/sort", "AB", *there)
    assert "there is no folder ~nouser/x" in refusal(capsys, "~nouser/x", "a", *there)
    assert "there is no folder ~nouser/x" in refusal(capsys, "~nouser/x", "a", "--live", *there)
    assert len(refusal(capsys, "x" * 5000, "a", *there)) < 2100
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("\udcff", "a"), "model"),
        (("writer", "a\udcff"), "prompt"),
        (("writer", "a", "--continuation", "\udcff"), "continuation"),
        (("writer", "a", "--span", "\udcff"), "span"),
        (("writer", "a", "--method", "\udcff"), "method"),
        (("writer", "a", "-o", "\udcff"), "output"),
    ],
)
def test_bytes_that_are_no_text_are_refused(capsys, arguments, what) -> None:
    assert f"{what} must be text in UTF-8; got" in refusal(capsys, *arguments)


def test_a_model_whose_weights_are_no_numbers_is_refused(models, tmp_path, capsys) -> None:
    model = GPT2LMHeadModel.from_pretrained(models / "writer")
    model.transformer.wte.weight.data[0] = torch.nan
    for saved in (model, char_tokenizer()):
        saved.save_pretrained(tmp_path / "nan")
    for method in ("rollout", "blank-out"):
        said = refusal(capsys, str(tmp_path / "nan"), "a", "--method", method, "-o", str(tmp_path / "p.html"))
        assert "computes what is no number" in said


def settings_for_writing(first: int, often: int) -> dict[str, object]:
    """Of a generation config, each with a value that `generate` follows; two tokens that it would write."""
    return {
        "repetition_penalty": 50.0,
        "encoder_repetition_penalty": 50.0,
        "no_repeat_ngram_size": 1,
        "suppress_tokens": [first, often],
        "begin_suppress_tokens": [first],
        "bad_words_ids": [[first]],
        "sequence_bias": [[[first], -100.0]],
        "min_new_tokens": 9,
        "forced_eos_token_id": 3,
        "exponential_decay_length_penalty": [1, 1e9],
        "guidance_scale": 9.0,
        "max_time": 0.0,
        "num_beams": 3,
        "do_sample": True,
        "temperature": 100.0,
        "prompt_lookup_num_tokens": 2,
        "watermarking_config": {"bias": 100.0},
        "disable_compile": "no",
    }


@pytest.fixture(scope="module")
def talker(tmp_path_factory) -> tuple[Path, list[int], int]:
    """The folder of a model whose words differ; its text as ids; the length of the prompt."""
    folder, model, tokenizer = tmp_path_factory.mktemp("talker") / "model", small_llama(), small_tokenizer()
    for saved in (model, tokenizer):
        saved.save_pretrained(folder)
    ids = tokenizer("the cat", return_tensors="pt")["input_ids"]
    length = ids.shape[1]
    with torch.no_grad():
        for _ in range(9):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    assert len({*ids[0, length:].tolist()}) > 4
    return folder, ids[0].tolist(), length


def written(folder: Path, settings: dict[str, object]) -> tuple[list[str], str]:
    """What a model writes behind "the cat" with settings of its own, and what the page says of it."""
    (folder / "generation_config.json").write_text(json.dumps(settings))
    seen = look(str(folder), "the cat", "rollout", new_tokens=9, say=quiet)
    return [*seen.explorer.items[0]["generated"]], seen.note


def test_a_models_own_settings_for_writing_are_not_followed_and_named(talker) -> None:
    folder, ids, length = talker
    expected = pieces(ids, small_tokenizer())[length:]
    for name, value in settings_for_writing(ids[length], ids[-1]).items():
        found, note = written(folder, {name: value, "eos_token_id": 2})
        assert found == expected, name
        assert f"its own settings for writing were not used ({name})" in note
    assert "were not used" not in written(folder, {"eos_token_id": 2})[1]


def test_each_of_several_end_tokens_ends_a_text(talker) -> None:
    folder, ids, length = talker
    end = ids[length + 3]
    first = ids.index(end, length) - length + 1
    for ends in (end, [end, 2], [2, end]):
        assert len(written(folder, {"eos_token_id": ends})[0]) == first


def test_an_end_token_that_is_no_number_is_refused(talker, tmp_path, capsys) -> None:
    shutil.copytree(talker[0], tmp_path / "model")
    (tmp_path / "model/generation_config.json").write_text('{"eos_token_id": ["end"]}')
    assert "eos_token_id must be a whole number" in refusal(capsys, str(tmp_path / "model"), "a")


def test_stopped_it_leaves_nothing_and_says_so(models, tmp_path, capsys, monkeypatch) -> None:
    def stopped(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlib.commands.looking.generate_with_rollout", stopped)
    asked = ("a", "--method", "rollout", "-o", str(tmp_path / "page.html"))
    assert main(["look", str(models / "writer"), *asked]) == 130
    assert "stopped; nothing was written" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_a_real_model_is_shown_from_a_shell(tmp_path) -> None:
    command = [sys.executable, "-m", "attnlib", "look", str(trained_model()), "Once upon a time"]
    done = subprocess.run(
        [*command, "--new-tokens", "5"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "look.html\n"
    assert "Once" in (tmp_path / "look.html").read_text()


def test_a_full_disk_leaves_the_older_page_whole(tmp_path, monkeypatch) -> None:
    page = tmp_path / "page.html"
    page.write_text("older")
    explorer = GenerationExplorer(["a"], ["b"], torch.ones(1, 1, 1))
    opened = Path.open

    def full(self, mode="r", *rest, **how):
        file = opened(self, mode, *rest, **how)
        if "w" not in mode:
            return file
        file.write("<!DOC" if "b" not in mode else b"<!DOC")
        file.close()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    for write in (lambda: Seen(explorer, "T", "note").save(page), lambda: explorer.save_html(page)):
        with pytest.raises(CheckpointError, match=r"No space left .* previous version is intact"):
            write()
        assert page.read_text() == "older" and list(tmp_path.iterdir()) == [page]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("{}/no/page.html", "there is no folder"),
        ("{}", "is a folder"),
        ("/proc/self/look.html", "cannot be written into /proc/self"),
        ("/dev/null", "is no file that a page"),
    ],
)
def test_where_no_page_can_be_written_is_said_before_the_work(
    monkeypatch, tmp_path, capsys, place, reason
) -> None:
    monkeypatch.setattr("attnlib.commands.look", lambda *given, **how: pytest.fail("worked first"))
    assert reason in refusal(capsys, "any", "text", "-o", place.format(tmp_path))


@pytest.mark.parametrize("method", ["rollout", "mean attention"])
def test_words_that_are_given_take_the_place_of_the_models(models, method, tmp_path, capsys) -> None:
    seen = look(str(models / "writer"), "the cat", method, continuation=" sat", say=quiet)
    assert "its continuation was given" in seen.note
    if isinstance(seen.explorer, GenerationExplorer):
        model, tokenizer = load_language_model(str(models / "writer"))
        ids, forced = continued("the cat", " sat", tokenizer)
        result = generate_with_rollout(model, ids, continuation=forced, tokenizer=tokenizer)
        expected = GenerationExplorer.of(
            {"rollout": result, "rollout over null": result.over_null()}, tokenizer
        )
        assert seen.explorer.items == expected.items
    else:
        assert len(seen.explorer.items) == len(" sat")
    page = str(tmp_path / "page.html")
    assert main(["look", str(models / "writer"), "a", "--continuation", " b", "-o", page]) == 0
    capsys.readouterr()
    both = ("--continuation", " b", "--new-tokens", "3", "-o", page)
    assert "leave out --new-tokens" in refusal(capsys, str(models / "writer"), "a", *both)
    nothing = ("--continuation", "", "-o", page)
    assert "continuation must not be empty" in refusal(capsys, str(models / "writer"), "a", *nothing)


def test_a_span_is_asked_about_as_a_whole_first(models, tmp_path, capsys) -> None:
    writer, said = str(models / "writer"), list[str]()
    given = {"continuation": " sat on it", "span": "at on", "say": said.append}
    seen = look(writer, "the cat", "gradient x embedding", **given)
    labels = [item["label"] for item in seen.explorer.items]
    assert labels[:2] == ["'at on', as a whole", "'at on', through what was written before it"]
    assert len(labels) == 2 + len(" sat on it")
    whole, through = seen.explorer.items[:2]
    assert "".join(whole["tokens"]) == "<bos>the cat s" and "".join(through["tokens"]) == "<bos>the cat"
    assert whole["predicted"] == through["predicted"] == "at on"
    model, tokenizer = load_language_model(writer)
    ids, place = tokenizer("the cat sat on it", return_tensors="pt")["input_ids"][0], (10, 15)
    scores = attribute(model, ids, method="gradient x embedding", target_span=place)
    best = int(scores.argmax())
    source = pieces(ids.tolist(), tokenizer)[best].strip() or "' '"
    assert f"'at on' by gradient x embedding: {source} {float(scores[best]):.2g}" in said[-2]
    page = str(tmp_path / "page.html")
    asked = (writer, "the cat", "--continuation", " sat", "-o", page, "--span")
    assert main(["look", *asked, "at"]) == 0  # rollout, too
    assert "as a whole" in Path(page).read_text()
    capsys.readouterr()
    assert "--span should be a part of the text ' sat'; got 'dog'" in refusal(capsys, *asked, "dog")


@pytest.mark.parametrize("span", ["like 😀", "😀", "中文", "文字 द"])
def test_a_span_may_begin_and_end_in_characters_of_several_tokens(talker, span) -> None:
    folder, tokenizer = str(talker[0]), small_tokenizer()
    text = " I like 😀 中文字 दे."
    seen = look(folder, "the cat", "gradient norm", continuation=text, span=span, say=quiet)
    encoded, begin = tokenizer("the cat" + text, return_offsets_mapping=True), 7 + text.index(span)
    first = next(i for i, (_, stop) in enumerate(encoded["offset_mapping"]) if stop > begin)
    held = [i for i, place in enumerate(encoded["offset_mapping"]) if place[0] < begin + len(span)]
    whole = seen.explorer.items[0]
    assert whole["query"] == first - 1 and held[-1] - first >= 2
    assert [*whole["tokens"]] == pieces(encoded["input_ids"], tokenizer)[:first]


def small_transformer(vocabulary: int = 7) -> Transformer:
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(vocabulary, n_layers=2, n_heads=2, width=8, causal=True, max_length=9)
    )


@pytest.mark.parametrize("given", ["the file", "the folder of a training", "the file of a stored model"])
def test_a_checkpoint_of_ones_own_is_drawn(given, tmp_path, capsys) -> None:
    model, name = small_transformer(), tmp_path / "mine" / "best.safetensors"
    name.parent.mkdir()
    model.save(name)
    if given == "the folder of a training":
        name = name.parent
    elif given == "the file of a stored model":
        name = STORED / "rasp_languages" / "sort.safetensors"
        model = stored_model("rasp_languages", "sort").model
    page = tmp_path / "page.html"
    assert main(["look", str(name), "3 1 4", "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    explorer = look(str(name), "3 1 4", say=quiet).explorer
    assert isinstance(explorer, AttentionExplorer)
    with torch.no_grad():
        attention = model.eval()(torch.tensor([[3, 1, 4]]), output_attentions=True).attentions[0]
    direct = AttentionExplorer(["3", "1", "4"], attention)
    assert explorer.items[0] | {"label": ""} == direct.items[0] | {"label": ""}
    assert explorer.weights == direct.weights


def test_what_a_checkpoint_cannot_be_asked_is_said_in_a_line(tmp_path, capsys) -> None:
    model, there = small_transformer(), ("-o", str(tmp_path / "page.html"))
    file = tmp_path / "best.safetensors"
    model.save(file)
    assert "such as \"3 1 4\"; got 'abc'" in refusal(capsys, str(file), "abc", *there)
    assert "token ids from 0 to 6. Got [7]" in refusal(capsys, str(file), "3 7", *there)
    assert "more than the model's context of 9" in refusal(capsys, str(file), "1 " * 10, *there)
    assert "are for language models" in refusal(capsys, str(file), "3", "--method", "rollout", *there)
    assert "is a file" in refusal(capsys, str(file), "3", "--live", *there)
    model.embedding.weight.data[3] = torch.nan
    nan, cut = tmp_path / "nan.safetensors", tmp_path / "cut.safetensors"
    model.save(nan)
    cut.write_bytes(file.read_bytes()[:-9])
    assert "holds what is no finite number" in refusal(capsys, str(nan), "3 1", *there)
    assert "cut short, damaged" in refusal(capsys, str(cut), "3 1", *there)
    GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=1)).save_pretrained(
        tmp_path / "theirs"
    )
    theirs = str(tmp_path / "theirs" / "model.safetensors")
    assert "model.safetensors is a file; give a folder" in refusal(capsys, theirs, "3 1", *there)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("kind", ["a folder", "a link", "a GGUF file", "a checkpoint", "a stored model"])
def test_a_page_takes_the_place_of_no_file_of_its_model(kind, talker, tmp_path, capsys) -> None:
    name, more = tmp_path / "model", []
    if kind == "a GGUF file":
        name, more = tmp_path / "model.gguf", ["--live"]
        packing.pack(small_llama(), small_tokenizer(), name)
    elif kind == "a checkpoint":
        name = tmp_path / "best.safetensors"
        small_transformer().save(name)
    else:
        shutil.copytree(talker[0], name)
    places = [*name.iterdir()] if name.is_dir() else [name]
    if kind == "a link":
        (tmp_path / "look.html").symlink_to(name / "model.safetensors")
        places = [tmp_path / "look.html"]
    elif kind == "a stored model":
        name, places = "rasp_languages/sort", [STORED / "rasp_languages" / "sort.safetensors"]
    before = {place: place.read_bytes() for place in places}
    assert before
    for place in places:
        said = refusal(capsys, str(name), "the cat", *more, "-o", str(place))
        assert f"{place} is a file of the model itself; name another one" in said
    assert before == {place: place.read_bytes() for place in places}


def test_a_page_beside_its_model_is_replaced(talker, tmp_path) -> None:
    shutil.copytree(talker[0], tmp_path / "model")
    page = str(tmp_path / "model" / "look.html")
    for _ in range(2):
        assert main(["look", str(tmp_path / "model"), "the cat", "--new-tokens", "1", "-o", page]) == 0


def test_a_page_may_be_read_by_whom_the_older_one_might_be(tmp_path) -> None:
    explorer, page = GenerationExplorer(["a"], ["b"], torch.ones(1, 1, 1)), tmp_path / "page.html"
    for mode in (0o600, 0o640, 0o444, 0o664):
        page.write_text("older")
        page.chmod(mode)
        Seen(explorer, "T", "note").save(page)
        assert page.stat().st_mode & 0o777 == mode and "<!DOCTYPE" in page.read_text()
        page.chmod(0o600)
        explorer.save_html(page)
        assert page.stat().st_mode & 0o777 == 0o600


def test_a_folder_called_like_a_model_of_attnlib_is_not_said_to_be_it(
    talker, tmp_path, caplog, monkeypatch
) -> None:
    shutil.copytree(talker[0], tmp_path / "tiny-random")
    monkeypatch.chdir(tmp_path)
    for name, origin in (("tiny-random", "random weights, made here"), ("./tiny-random", "a folder")):
        assert main(["look", name, "the cat", "--new-tokens", "2"]) == 0
        assert f"tiny-random, from {origin};" in (tmp_path / "look.html").read_text()
        ambiguous = "to load the folder tiny-random, say ./tiny-random" in caplog.text
        caplog.clear()
        assert ambiguous == (name == "tiny-random")


def test_a_gguf_file_is_for_a_live_page(tmp_path, capsys) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    said = refusal(capsys, str(tmp_path / "model.gguf"), "hi", "-o", str(tmp_path / "page.html"))
    assert "model.gguf is a GGUF file, which the page itself computes: add --live" in said

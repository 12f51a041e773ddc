"""The explorer of generation without a browser: what it refuses, how it stores, and its live side."""

import re
import zlib
from unittest import mock

import numpy as np
import pytest
import torch
import traitlets
import transformers as hf

import attnlib.widgets.generation_explorer as module
from attnlib.rollout import GenerativeRollout, generate_with_rollout
from attnlib.widgets import GenerationExplorer
from attnlib.widgets.encoding import dequantise
from tests.explorers import press, raw

WORDS, NEW = ["The", " sky", " of", " Rome"], [" is", " blue"]


def shares(generated=2, prompt=4, layers=3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.softmax(3 * torch.randn(generated, prompt, layers, generator=generator), 1)


def unpacked(explorer, index=0) -> np.ndarray:
    """What the front end reads: [generated prompt layer]."""
    example = explorer.items[index]
    generated, prompt, layers = example["shape"]
    read = dequantise(raw(explorer, index).reshape(generated, layers, prompt))
    return (read if example["shares"] else example["scale"] * read**2).transpose(0, 2, 1)


class Words:
    """A tokenizer with one token for every word; a blank goes before all but the first."""

    all_special_ids = (0,)

    def __init__(self):
        self.words = ["<s>"]

    def __call__(self, text, return_tensors="pt"):
        for word in text.split():
            if word not in self.words:
                self.words.append(word)
        return {"input_ids": torch.tensor([[0, *(self.words.index(word) for word in text.split())]])}

    def decode(self, ids, **settings):
        return " ".join(self.words[i] if i < len(self.words) else f"w{i}" for i in ids)


def tiny_model():
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    config = hf.LlamaConfig(**size, vocab_size=40, max_position_embeddings=32, eos_token_id=None)
    return hf.LlamaForCausalLM(config).eval()


# ---- storing


def test_ratios_of_any_size_are_stored_as_precisely_as_promised():
    ratios = torch.logspace(-2, 2.5, 24, dtype=torch.float64).reshape(2, 4, 3)
    ratios[0, 0, 0] = 0
    explorer = GenerationExplorer(WORDS, NEW, ratios)
    example, truth = explorer.items[0], ratios.numpy()
    assert not example["shares"] and example["scale"] == pytest.approx(10**2.5)
    error = np.abs(unpacked(explorer) - truth)
    assert (error <= 0.0081 * example["scale"] ** 0.25 * truth**0.75 + 1e-6).all()
    assert unpacked(explorer)[0, 0, 0] == 0


def test_values_below_one_that_are_no_shares_get_their_own_scale():
    explorer = GenerationExplorer(WORDS, NEW, torch.full((2, 4, 3), 0.5))
    assert not explorer.items[0]["shares"] and explorer.items[0]["scale"] == 0.5
    assert unpacked(explorer) == pytest.approx(0.5)


def test_a_long_passage_stays_under_600_kb_even_where_nothing_can_be_compressed(tmp_path):
    noise = torch.rand(40, 300, 30)
    explorer = GenerationExplorer([" word"] * 300, [" new"] * 40, noise)
    assert explorer.save_html(tmp_path / "noise.html").stat().st_size < 600_000
    peaked = torch.softmax(12 * torch.randn(40, 300, 30), 1)
    explorer = GenerationExplorer([" word"] * 300, [" new"] * 40, peaked)
    assert explorer.save_html(tmp_path / "peaked.html").stat().st_size < 250_000


# ---- refusing


def broken(value):
    matrix = shares()
    matrix[1, 3, 2] = value
    return matrix


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({"prompt_words": WORDS[:3]}, "matrix"),
        ({"generated_words": []}, "generated_words"),
        ({"prompt_words": "abcd"}, "prompt_words"),
        ({"matrix": shares()[0]}, "matrix"),
        ({"matrix": broken(float("nan"))}, "matrix"),
        ({"matrix": broken(-0.5)}, "matrix"),
        ({"ignored": [True]}, "ignored"),
    ],
)
def test_input_that_cannot_be_shown_is_refused(parts, name):
    valid = {"prompt_words": WORDS, "generated_words": NEW, "matrix": shares()}
    with pytest.raises(ValueError, match=f"^{name} must "):
        GenerationExplorer(**(valid | parts))
    with pytest.raises(ValueError, match=f"example 'mine': {name} must "):
        GenerationExplorer.from_examples({"fine": valid, "mine": valid | parts})


# ---- several examples


def two_examples(**settings):
    small = {"prompt_words": ["x"], "generated_words": ["y"], "matrix": 7 * torch.ones(1, 1, 2)}
    large = {
        "prompt_words": WORDS,
        "generated_words": NEW,
        "matrix": shares(),
        "ignored": [True] + [False] * 3,
    }
    return GenerationExplorer.from_examples({"large": large, "small": small}, **settings)


def test_examples_of_different_sizes_and_scales_lie_one_after_the_other():
    explorer = two_examples(title="T", filtered=False)
    assert [example["shape"] for example in explorer.items] == [[2, 4, 3], [1, 1, 2]]
    assert [example["scale"] for example in explorer.items] == [1, 7]
    assert [example["ignored"] for example in explorer.items] == [[0], []]
    assert np.abs(unpacked(explorer, 0) - shares().numpy()).max() < 0.004
    assert unpacked(explorer, 1) == pytest.approx(7)
    assert repr(explorer) == "GenerationExplorer 'T': 4 prompt tokens, 2 generated, 3 layers, 2 examples"
    assert explorer.filtered is False


def test_a_smaller_example_keeps_the_choice_within_it():
    explorer = two_examples(generated=1, layer=2)
    assert (explorer.generated, explorer.layer) == (1, 2)
    explorer.item = 1
    assert (explorer.generated, explorer.layer) == (0, 1)
    with pytest.raises(traitlets.TraitError, match="layer must be from -1 to 1"):
        two_examples(item=1, layer=2)


# ---- from results


def result_of(tokenizer, text="the sky of Rome", new=(5, 6), **settings):
    prompt = tokenizer(text)["input_ids"][0]
    return GenerativeRollout(torch.tensor(new), prompt, shares(len(new), len(prompt)), **settings)


def test_a_result_is_shown_with_the_blanks_of_its_text_and_the_filter_of_the_study():
    explorer = GenerationExplorer.of(result_of(Words()), Words(), title="T")
    assert explorer.items[0]["generated"] == [" w5", " w6"]
    tokenizer = Words()
    explorer = GenerationExplorer.of(result_of(tokenizer), tokenizer)
    assert explorer.items[0]["prompt"] == ["<s>", " the", " sky", " of", " Rome"]
    assert explorer.items[0]["ignored"] == [0, 1]
    longer = GenerationExplorer.of(result_of(tokenizer), tokenizer, ignore={"of"})
    assert longer.items[0]["ignored"] == [0, 3]


def test_several_results_become_examples():
    tokenizer = Words()
    result = result_of(tokenizer)
    explorer = GenerationExplorer.of({"rollout": result, "ratio": result.over_null()}, tokenizer, layer=1)
    assert [example["label"] for example in explorer.items] == ["rollout", "ratio"]
    assert [example["shares"] for example in explorer.items] == [True, False]
    assert unpacked(explorer, 1) == pytest.approx(result.over_null().matrix.numpy(), rel=0.05, abs=0.01)
    assert explorer.layer == 1


def test_of_several_results_that_is_shown_first_in_which_no_one_token_has_most():
    tokenizer = Words()
    flat, dark = result_of(tokenizer), result_of(tokenizer)
    dark.matrix[:, 4] = 1 - dark.matrix[:, :4].sum(1)
    dark.matrix[:, :4] *= 0.01
    flat.matrix[:, :2] = 9  # of tokens that the filter hides
    assert GenerationExplorer.of({"dark": dark, "flat": flat}, tokenizer).item == 1
    assert GenerationExplorer.of({"dark": dark, "flat": flat}, tokenizer, item=0).item == 0


# ---- the page


# ---- live


@pytest.fixture
def live():
    """A live explorer and the list of what it sends to its views."""
    explorer, sent = GenerationExplorer.live(tiny_model(), Words(), 4, title="T", do_sample=False), []
    explorer.send = lambda content, buffers=None: sent.append((content, buffers, len(explorer.items)))
    return explorer, sent


def test_a_prompt_is_continued_row_by_row_and_kept_whole_at_the_end(live):
    explorer, sent = live
    busy = []
    explorer.observe(lambda change: busy.append(change["new"]), "busy")
    assert repr(explorer) == "GenerationExplorer 'T': nothing generated yet"
    press(explorer, "the sky of Rome")
    assert busy == [True, False] and explorer.error == "" and explorer.asked == "the sky of Rome"
    ids = explorer.encode("the sky of Rome")
    truth = generate_with_rollout(explorer.model, ids, 4, do_sample=False)
    assert [example["label"] for example in explorer.items] == ["rollout", "over the null model"]
    assert np.abs(unpacked(explorer) - truth.matrix.numpy()).max() < 0.004
    assert unpacked(explorer, 1) == pytest.approx(truth.over_null().matrix.numpy(), rel=0.06, abs=0.01)
    assert explorer.items[0] | {"bytes": 0} == explorer.items[1] | {
        "bytes": 0, "label": "rollout", "scale": 1.0, "shares": True,
    }  # fmt: skip
    assert [content["index"] for content, _, _ in sent] == [1, 2, 3]
    assert [content["word"] for content, _, _ in sent] == explorer.items[0]["generated"][1:]
    for content, (packed,), examples in sent:
        assert examples == 1  # the first row was shown before the second came
        steps = np.frombuffer(zlib.decompress(packed, wbits=-15), np.uint8).reshape(3, 5)
        assert np.abs(dequantise(steps).T - truth.matrix[content["index"]].numpy()).max() < 0.004


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("word " * 30, "31 tokens and 4 new ones are more than the model's context of 32"),
        ("word " * 60, "The prompt has 61 tokens; at most 50 are shown here"),
    ],
)
def test_a_prompt_that_cannot_be_continued_is_an_error_in_the_widget(live, prompt, message):
    explorer, _ = live
    explorer.max_prompt_tokens = 50
    press(explorer, "the sky")
    before = explorer.items
    press(explorer, prompt)
    assert re.search(message, explorer.error) and not explorer.busy
    assert explorer.items == before and explorer.asked == prompt
    press(explorer, "the sky")
    assert explorer.error == ""


@pytest.mark.parametrize(
    ("error", "message"),
    [(KeyboardInterrupt(), "Stopped."), (RuntimeError("no memory"), "RuntimeError: no memory")],
)
def test_what_came_before_a_failure_is_kept(live, monkeypatch, error, message):
    explorer, _ = live
    stream = module.stream_with_rollout

    def failing(*args, **options):
        for i, row in enumerate(stream(*args, **options)):
            if i == 2:
                raise error
            yield row

    monkeypatch.setattr(module, "stream_with_rollout", failing)
    press(explorer, "the sky")
    assert explorer.error == message and not explorer.busy
    assert [example["shape"] for example in explorer.items] == [[2, 3, 3]] * 2


def test_a_word_is_decoded_beside_its_neighbours_alone(live, monkeypatch):
    explorer, _ = live
    counted = mock.Mock(wraps=explorer.tokenizer.decode)
    monkeypatch.setattr(explorer.tokenizer, "decode", counted, raising=False)
    decodes = []
    explorer.send = lambda content, buffers=None: decodes.append(counted.call_count)
    press(explorer, "the sky of Rome " * 5)
    assert np.diff(decodes).max() <= 18  # of 20 tokens and more, two for each of nine


def test_a_failure_leaves_its_traceback_and_a_refusal_does_not(live, caplog):
    explorer, _ = live
    explorer.encode = lambda text: {}[text]
    press(explorer, "the sky")
    assert explorer.error == "KeyError: 'the sky'"
    (told,) = caplog.records
    assert told.exc_info[0] is KeyError and "<lambda>" in caplog.text
    caplog.clear()
    press(explorer, "")
    assert not caplog.records


@pytest.mark.parametrize("sink", [[0], [-2]])
def test_options_reach_the_model_and_the_null_model(sink):
    options = {"do_sample": False, "sink": sink}
    explorer = GenerationExplorer.live(tiny_model(), Words(), 3, ignore=(), **options)
    press(explorer, "the sky of Rome")
    assert explorer.error == ""
    assert unpacked(explorer)[:, sink].max() == 0
    truth = generate_with_rollout(explorer.model, explorer.encode("the sky of Rome"), 3, **options)
    assert unpacked(explorer, 1) == pytest.approx(truth.over_null().matrix.numpy(), rel=0.06, abs=0.01)
    assert explorer.items[0]["ignored"] == []

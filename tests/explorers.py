"""What the tests of all explorers need: explorers of made-up numbers, and what a page holds."""

import json
import re
import string
import zlib
from typing import Any

import numpy as np
import torch

from attnlib.benchmarking.population import draw
from attnlib.models.stored import stored_models
from attnlib.widgets import (
    AlignmentExplorer,
    AttentionExplorer,
    DynamicsExplorer,
    GenerationExplorer,
    MeasureExplorer,
    ModelExplorer,
    ProgramExplorer,
    TrainingExplorer,
)
from book.chapters.trying import texts_for

HOSTILE = ["<script>alert(1)</script>", "</style>", "<!--<script>", "<img src=x onerror=alert(1)>"]
STEPS = [0, 10, 50, 100, 1000]
"""The training steps of the checkpoints that the explorers of training show."""


def attention(checkpoints: int = 3, layers: int = 2, heads: int = 3, tokens: int = 4) -> torch.Tensor:
    """Weights of heads over training, of their own for every number of tokens."""
    generator = torch.Generator().manual_seed(tokens)
    draw = torch.randn(checkpoints, layers, heads, tokens, tokens, generator=generator)
    return torch.softmax(2 * draw, dim=-1)


def scores(checkpoints: int = 3, *places: int) -> dict[str, torch.Tensor]:
    """Scores of tokens, or of pairs, over training: of shares, of numbers around zero, of small ones."""
    places = places or (4,)
    draw = torch.randn(3, checkpoints, *places, generator=torch.Generator().manual_seed(places[0]))
    return {"alpha": torch.softmax(2 * draw[0], -1), "beta": 3 * draw[1], "Delta": 0.01 * draw[2]}


# ---- attention

LETTERS = list("abcdefgh")


def weights(layers: int = 2, heads: int = 3, queries: int = 8, keys: int = 8) -> torch.Tensor:
    return attention(1, layers, heads, max(queries, keys))[0, :, :, :queries, :keys]


def attention_explorer(**settings: Any) -> AttentionExplorer:
    settings = {"references": {(0, 1): torch.eye(8).flip(0).bool()}, "head": 1} | settings
    return AttentionExplorer(LETTERS, weights(), **settings)


# ---- a training

EXACT = [0.0, 0.1, 0.35, 0.8, 0.97]


def problem(**changes: Any) -> dict[str, Any]:
    parts = {"tokens": list("1+2=3"), "attentions": attention(5, tokens=5), "expected": "3"}
    return parts | {"answers": ["7", "12", "3", "4", "3"]} | changes


def training_explorer(problems: Any = None, curves: Any = None, **settings: Any) -> TrainingExplorer:
    curves = {"exact match": EXACT, "loss": {0: 4.0, 25: 2.0, 1000: 0.1}} if curves is None else curves
    return TrainingExplorer(problems or {"1+2=": problem()}, STEPS, curves, **settings)


def adder(text: str) -> dict[str, Any]:
    if not re.fullmatch(r"\d\+\d=\d", text):
        raise ValueError(f"<b>{text}</b> is not a sum such as 1+2=3.")
    answers = {"answers": list("12345"), "expected": text[-1]}
    return problem(tokens=list(text), attentions=attention(5, tokens=5).flip(0), **answers)


# ---- a classifier's training

TOKENS = ["this", "film", "is", "really", "great", ",", "not", "dull"]
RELEVANCE = torch.tensor([0.0, 0, 0, 0, 2, 0, 0.5, -2])


def document(**changes: Any) -> dict[str, Any]:
    parts = {"tokens": TOKENS, "scores": scores(5, 8), "true_relevance": RELEVANCE}
    return parts | {"predicted": ["bad", "bad", "good", "good", "good"], "gold": "good"} | changes


def dynamics_explorer(documents: Any = None, **settings: Any) -> DynamicsExplorer:
    curves = {"accuracy": [0.5, 0.6, 0.8, 0.9, 0.95], "A": [0.1, 0.2, 0.5, 0.6, 0.7]}
    return DynamicsExplorer(documents or {"A": document()}, STEPS, curves, **settings)


def classify(text: str) -> dict[str, Any]:
    words = text.split()
    return {"tokens": words, "scores": scores(5, len(words)), "predicted": ["good"] * 5}


# ---- a translator's training

SOURCE, TARGET = ["<bos>", "das", "rote", "Haus", "<eos>"], ["the", "red", "house", "<eos>"]
TRUTH = torch.zeros(4, 5, dtype=torch.bool)
TRUTH[[0, 1, 2], [1, 2, 3]] = True


def sentence(**changes: Any) -> dict[str, Any]:
    parts = {"source": SOURCE, "targets": [TARGET] * 5, "scores": scores(5, 4, 5), "truth": TRUTH}
    written = ["a", "the house", "the red", "the house", "the red house"]
    return parts | {"written": written, "expected": "the red house"} | changes


def alignment_explorer(sentences: Any = None, **settings: Any) -> AlignmentExplorer:
    return AlignmentExplorer(sentences or {"A": sentence()}, STEPS, {"accuracy": EXACT}, **settings)


def translate(text: str) -> dict[str, Any]:
    targets = [["a", "<eos>", "", ""], ["the", "house", "<eos>", ""], *3 * [TARGET]]
    return sentence(targets=targets, truth=None, expected=None)


# ---- generation

PROMPT, NEW = ["<s>", " The", " sky", " over", " Rome", ","], [" is", " blue", ".", "\n"]
HIDDEN = [0, 1, 5]


def matrix(generated: int = 4, prompt: int = 6, layers: int = 3, total: float = 0.9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return total * torch.softmax(2 * torch.randn(generated, prompt, layers, generator=generator), 1)


def passage(**changes: Any) -> dict[str, Any]:
    ignored = [k in HIDDEN for k in range(len(PROMPT))]
    return {"prompt_words": PROMPT, "generated_words": NEW, "matrix": matrix(), "ignored": ignored} | changes


def generation_explorer(**settings: Any) -> GenerationExplorer:
    return GenerationExplorer(**passage(), **settings)


# ---- two measures

ASKED = ["a", "b", "c", "d", "=", "b"]
MEASURES = {
    "rollout": torch.tensor([0.1, 0.4, 0.3, 0.05, 0.9, 0.0]),
    "blank-out": torch.tensor([-1.0, 2.0, 0.5, 0.0, 0.0, 0.0]),
    "even attention": torch.ones(6),
}


def question(**changes: Any) -> dict[str, Any]:
    parts = {"tokens": ASKED, "scores": MEASURES, "query": 4, "missing": {"flow": "there are no layers"}}
    parts["candidates"] = torch.tensor([True] * 4 + [False] * 2)
    parts["truth"] = torch.tensor([False, True, False, True, False, False])
    return parts | changes


def measure_explorer(questions: Any = None, **settings: Any) -> MeasureExplorer:
    other = question(tokens=["x", " y", " z"], scores={"rollout": torch.tensor([0.2, 0.7, 0.1])}, query=2)
    other |= {"truth": torch.tensor([True, False, False]), "candidates": torch.tensor([True, True, False])}
    return MeasureExplorer(questions or {"first": question(), "second": other}, **settings)


# ---- models and programs in the page

REVERSES = "string reversal, sinusoidal positions"


def shown(chapter: str = "rasp_languages", *names: str) -> dict[str, dict[str, Any]]:
    """The models of a chapter, as an explorer takes them."""

    def parts(kept: Any) -> dict[str, Any]:
        own = {"arithmetic_lens": ["58+67", "99+9"], "algorithmic_reasoning": ["dh13h", "longerthantraining"]}
        texts = own.get(chapter) or texts_for(kept)
        return {"model": kept.model, "task": kept.task, "texts": texts, "note": kept.note}

    return {name: parts(kept) for name, kept in stored_models(chapter).items() if name in names or not names}


def model_explorer(name: str = "sort", chapter: str = "rasp_languages", **settings: Any) -> ModelExplorer:
    return ModelExplorer(shown(chapter, name), **({"layer": 0} | settings))


POINTER: dict[str, Any] = {"program": draw(1016), "text": "acddadedbbab", "query": 12}
COUNT: dict[str, Any] = {"program": draw(1010), "text": "bcddcccbcc", "query": 6}


def output_with(question: dict[str, Any], begins: str, query: int) -> int:
    """The program's output at a position of the question's text that begins otherwise."""
    program, text = question["program"], begins + question["text"][len(begins) :]
    ids = np.array([[program.alphabet, *map(string.ascii_lowercase.index, text)]])
    return int(program.outputs(ids)[0, query])


def program_explorer(**settings: Any) -> ProgramExplorer:
    return ProgramExplorer({"a pointer": POINTER, "a count": COUNT}, **settings)


# ---- what a page holds


def raw(explorer: Any, index: int = 0) -> np.ndarray:
    """The bytes of an item, as the front end reads them."""
    start = sum(item["bytes"] for item in explorer.items[:index])
    packed = explorer.weights[start : start + explorer.items[index]["bytes"]]
    return np.frombuffer(zlib.decompress(packed, wbits=-15), np.uint8)


def state_of(page: str) -> dict[str, Any]:
    """The state as the page's script reads it."""
    found = re.search(r"const state = (\{.*\});", page)
    assert found
    return json.loads(found[1])


def is_harmless(page: str) -> bool:
    """Whether a page that shows `HOSTILE`, under the title `</script><b>`, has the tags of its own alone."""
    own = [page.count(tag) for tag in ("</script", "<script", "</style", "<style")]
    return own == [1, 1, 1, 1] and not re.search("<b>|<img|<!--", page)


def press(explorer: Any, text: str) -> None:
    """What the button of a live view does."""
    explorer._handle_custom_msg({"text": text}, [])

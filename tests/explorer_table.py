"""The explorers, one row for each: how it is made, where it is pointed at, and what it says then.

`tests/book/test_explorers_in_browser.py` checks each behaviour for every row that sets what the check reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from attnlib.generators.rasp import Language
from attnlib.models.stored import stored_model
from attnlib.widgets import AttentionExplorer, GenerationExplorer, ModelExplorer, ProgramExplorer

# isort: off
from tests.explorers import (
    COUNT, EXACT, HOSTILE, LETTERS, NEW, POINTER, PROMPT, RELEVANCE, REVERSES, SOURCE, TARGET, TOKENS,
    TRUTH, adder, alignment_explorer, attention, classify, document, dynamics_explorer, matrix,
    measure_explorer, model_explorer, output_with, passage, problem, program_explorer, question, scores,
    sentence, shown, training_explorer, translate, weights,
)  # fmt: skip
# isort: on

OVERLAY, TIP, READOUT, STAGE = ".attnx-overlay", ".attnx-panels .attnx-tip", ".attnx-readout", ".attnx-stage"
MAPS, TICK = "canvas.attnx-map", ".attnx-ticks span >> nth=-1"


@dataclass(frozen=True)
class Cell:
    """An element to point at, and the text that the explorer then shows.

    Attributes:
        settings: the explorer's settings at that moment.
        selector: selector of the element.
        words: the text, with # for a number and … for any text between.
        numbers: the numbers that the text must show, computed in Python.
        at: the place within the element, across and down, as shares of its size.
        said: selector of the text.
    """

    settings: dict[str, Any]
    selector: str
    words: str
    numbers: Sequence[float] = ()
    at: tuple[float, float] = (0.5, 0.5)
    said: str = READOUT


@dataclass(frozen=True)
class Walk:
    """Keys, and what is read out after each; with ! before what is read out no more.

    A third text is the selector of what has the focus then.
    """

    focus: str
    keys: Sequence[tuple[str, ...]]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """An explorer.

    Attributes:
        make: builds the explorer, with two items.
        changed: settings with which it shows something else.
        saved: how the name of a saved file begins, some texts of the picture, the first columns.
        cells: some of what can be pointed at.
        walks: sequences of keys, and what is announced after them.
        pictures: by the label of a control, pictures that each of its choices has of its own.
        scale: by the choice of what the strongest colour stands for, the last number of the scale.
        ends: selector of that number.
        table: settings, row, column and what a cell of the table holds, a # being a number.
        hostile: one whose every text is markup; what is pointed at; where texts stand; those texts.
        long: explorers of many tokens and long names, and what is pointed at.
        legible: selectors of texts.
        live: settings with which it asks; the label of its box; what is typed; how what is typed is listed.
    """

    make: Callable[..., Any]
    changed: dict[str, Any]
    saved: tuple[str, list[str], str]
    cells: Callable[[], list[Cell]]
    walks: Sequence[Walk] = ()
    pictures: dict[str, str] = field(default_factory=dict)
    scale: dict[str, float] = field(default_factory=dict)
    ends: str = TICK
    table: Sequence[tuple[dict[str, Any], int, int, str, float | None]] = ()
    hostile: tuple[Callable[[], Any], str, str, list[str]] | None = None
    long: tuple[Sequence[Callable[[], Any]], str] | None = None
    legible: Sequence[str] = (READOUT,)
    live: tuple[dict[str, Any], str, str, str] | None = None


def map_cells(tokens: Sequence[str], shown: Sequence[tuple[dict[str, Any], int, int, Any]]) -> list[Cell]:
    """Of a map of tokens by tokens, by settings, query, key and the weight there."""
    of = len(tokens)
    return [
        Cell(
            settings,
            OVERLAY,
            f"query '{tokens[q]}' ({q}) → key '{tokens[k]}' ({k}): #",
            [float(weight)],
            at=((k + 0.5) / of, (q + 0.5) / of),
            said=TIP,
        )
        for settings, q, k, weight in shown
    ]


def seen(text: str) -> str:
    return text.replace(" ", "␣").replace("\n", "⏎")


MANY = [*HOSTILE, "</script>", "'\"`${1}"]
"""Six tokens that could break a page."""


def long_words(count: int) -> list[str]:
    return [f" word{i}" for i in range(count - 1)] + ["x" * 200]


# ---- attention


def attentions(**settings: Any) -> AttentionExplorer:
    reference = torch.eye(8).flip(0).bool()
    long = {"tokens": LETTERS, "attentions": weights(), "references": {(0, 1): reference}}
    short = {"tokens": list("vwxyz"), "attentions": weights(1, 2, 3, 5), "query_tokens": list("123")}
    settings = {"layer": 0, "head": 1, "query": -1} | settings
    return AttentionExplorer.from_examples({"long": long, "short": short}, **settings)


def attention_cells() -> list[Cell]:
    means = torch.cat([weights(), weights().mean(1, keepdim=True)], 1)  # the last is the head -1
    places = [(0, 1, 0, 0), (1, 2, 3, 1), (0, -1, 6, 4), (1, 0, 7, 7)]
    return map_cells(
        LETTERS,
        [({"layer": at, "head": head}, q, k, means[at, head, q, k]) for at, head, q, k in places],
    )


def hostile_attention() -> AttentionExplorer:
    example = {"tokens": MANY, "attentions": weights(1, 2, 6, 6)}
    return AttentionExplorer.from_examples({MANY[0]: example, MANY[4]: example}, title=MANY[0], query=0)


def long_attention(count: int) -> AttentionExplorer:
    return AttentionExplorer([f" token{i}" for i in range(count)], weights(4, 8, count, count))


MAP_KEYS = Walk(
    STAGE,
    [
        ("ArrowDown", "Layer 0, head 1. Query 'a' (0) looks most at "), ("ArrowDown", "Query 'b' (1)"),
        ("ArrowRight", ""), ("ArrowRight", "Query 'b' (1) → key 'b' (1): "),
        ("PageDown", "Layer 0, head 2. "),
        ("End", "Query 'h' (7)"), ("Escape", "No query selected"),
    ],
)  # fmt: skip
ATTENTION = Row(
    attentions,
    {"layer": 1},
    ("T-x-long-layer-0-head-1", ["a", "h", "weight"], "query,query token,key,key token,weight"),
    attention_cells,
    walks=[
        MAP_KEYS,
        Walk("button.attnx-token >> nth=2", [("ArrowRight", "Layer 0, head 1. Query 'd' (3)")], {"query": 2}),
    ],
    pictures={"Layer": MAPS, "Head": MAPS},
    scale={"whole": 1, "shown": weights()[0, 1].max().item()},
    table=[({"head": head}, 0, 0, f"({weights()[0, head, 0].argmax()})", None) for head in (1, 2)],
    hostile=(hostile_attention, OVERLAY, "button.attnx-token", MANY),
    long=([lambda: long_attention(8), lambda: long_attention(60)], OVERLAY),
    legible=(READOUT, ".attnx-title", ".attnx-caption", "summary", ".attnx-ticks span"),
)


# ---- a training


WEAK = attention(5, tokens=5) / 2
"""No weight is near 1, where a scale may end, too."""


def training(**settings: Any) -> Any:
    parts = {"tokens": list("9+"), "attentions": attention(5, 1, 2, 2), "answers": ["a"] * 5}
    problems = {"1+2=": problem(attentions=WEAK), "small": problem(**parts, expected=None)}
    return training_explorer(problems, **({"layer": 0, "head": 0} | settings))


def training_cells() -> list[Cell]:
    true, places = WEAK[:, 1, 2], [(4, 0, 0), (0, 3, 1), (2, 4, 4)]
    settings = {"layer": 1, "head": 2}
    return map_cells(
        problem()["tokens"],
        [(settings | {"checkpoint": at}, q, k, true[at, q, k]) for at, q, k in places],
    )


def hostile_training() -> Any:
    parts = problem(tokens=MANY[:5], answers=MANY[:5], expected=MANY[0])
    return training_explorer({MANY[0]: parts, MANY[4]: parts}, {MANY[1]: EXACT}, title=MANY[0])


def long_training() -> Any:
    tokens, answers = [f"token{i}" for i in range(30)], ["1" * 90] * 5
    long = problem(tokens=tokens, attentions=attention(5, 3, 8, 30), answers=answers)
    return training_explorer({"x" * 90: long}, {"a curve with a long name " * 3: EXACT})


FIRST = "Step 0, exact match 0.00, loss 4.00. Answer '7', wrong, 3 expected."
TRAINING = Row(
    training,
    {"checkpoint": 0},
    ("T-x-1-2-layer-0-head-0-step-1-000", ["weight"], "query,query token,key,key token,weight"),
    training_cells,
    walks=[
        Walk(
            ".attnt-slider",
            [("Home", f"{FIRST} Layer 0, head 0, step 0. Query '1' (0)"), ("ArrowRight", "Step 10, ")],
            {"query": 0},
        ),
        Walk(STAGE, [("PageDown", "Layer 0, head 1, step 10. ")], {"checkpoint": 1}),
    ],
    pictures={
        "Checkpoint": f"{MAPS}, .attnx-thumb:nth-of-type(2) canvas, .attnt-marker",
        "Layer": MAPS,
        "Head": MAPS,
    },
    scale={"whole": 1, "shown": WEAK[:, 0, 0].max().item()},  # of the whole training
    hostile=(hostile_training, OVERLAY, ".attnt-text, .attnt-name", [MANY[4], MANY[1]]),
    long=([long_training], ".attnt-chart"),
    legible=(".attnt-step", ".attnt-name", ".attnt-verdicts", ".attnt-answer p", ".attnt-verdict"),
    live=({"answer": adder}, "A problem of your own", "2+2=4", "2+2=4 (typed)"),
)


# ---- a classifier's training


def dynamics(**settings: Any) -> Any:
    short = document(tokens=["x", "y"], scores=scores(5, 2), true_relevance=None)
    return dynamics_explorer({"A": document(), "B": short}, **settings)


def dynamics_token(row: int, at: int) -> str:
    return f".attnd-row:nth-child({row + 1}) [data-token='{at}']"


def dynamics_cells() -> list[Cell]:
    return [
        Cell(
            {"checkpoint": checkpoint},
            dynamics_token(row, at),
            f"'{TOKENS[at]}' ({at}): alpha # (…beta # (…Delta # (…true relevance # (",
            [*(values[checkpoint, at].item() for values in scores(5, 8).values()), RELEVANCE[at].item()],
        )
        for checkpoint, at, row in [(4, 4, 0), (0, 7, 1), (2, 1, 2)]
    ]


def hostile_dynamics() -> Any:
    parts = document(tokens=[*MANY, "x", "y"], predicted=MANY[:5], gold=MANY[0])
    return dynamics_explorer({MANY[0]: parts, MANY[4]: parts}, title=MANY[0])


def long_dynamics(count: int) -> Any:
    parts = {"tokens": long_words(count), "scores": scores(5, count), "true_relevance": None}
    parts = document(predicted=["p" * 80] * 5, **parts)
    return dynamics_explorer({"d" * 90: parts, "e": parts})


DYNAMICS = Row(
    dynamics,
    {"checkpoint": 1, "token": 2, "shown": ["beta", "alpha"]},
    ("T-x-A-step-", ["beta"], "place,token,alpha"),
    dynamics_cells,
    walks=[
        Walk(
            dynamics_token(1, 2),
            [
                ("ArrowRight", "'really' (3): ", dynamics_token(1, 3)),
                ("ArrowDown", "'really' (3): ", dynamics_token(2, 3)),
                ("End", "'dull' (7): ", dynamics_token(2, 7)),
                ("ArrowUp", "'dull' (7): ", dynamics_token(1, 7)),
                ("Home", "'this' (0): alpha ", dynamics_token(1, 0)),
                ("PageUp", "Step 100, accuracy 0.90, A 0.60. Prediction 'good', right. 'this' (0)"),
                ("Escape", "!(0)"),
            ],
        )
    ],
    pictures={"Checkpoint": ".attnd-row:not(:nth-child(4)) .attnd-text, .attnt-marker"},
    scale={
        "whole": scores(5, 8)["beta"].abs().max().item(),
        "shown": scores(5, 8)["beta"][4].abs().max().item(),
    },
    ends=".attnd-end >> nth=3",
    table=[
        ({"checkpoint": checkpoint}, at, 1, "#", scores(5, 8)["beta"][checkpoint, at].item())
        for checkpoint, at in [(4, 0), (1, 6)]
    ],
    hostile=(hostile_dynamics, "[data-token='4']", ".attnd-row:first-child .attnd-token", [*MANY, "x", "y"]),
    long=([lambda: long_dynamics(8), lambda: long_dynamics(300)], "[data-token='3']"),
    legible=(".attnd-who", ".attnd-end", ".attnd-name", ".attnd-text"),
    live=({"classify": classify}, "A text of your own", "what a\ngreat day", "what a great day (typed)"),
)


# ---- a translator's training


def alignment(**settings: Any) -> Any:
    return alignment_explorer({"A": sentence(), "B": sentence(source=[*"vwxyz"])}, **settings)


def alignment_cells() -> list[Cell]:
    return [
        Cell(
            {"checkpoint": checkpoint},
            f"{OVERLAY} >> nth={at}",
            f"'{TARGET[row]}' ({row}) with '{SOURCE[column]}' ({column}): …alpha #…beta #…Delta #…truth #.",
            [*(values[checkpoint, row, column].item() for values in scores(5, 4, 5).values()),
             int(TRUTH[row, column])],
            at=((column + 0.5) / 5, (row + 0.5) / 4),
        )
        for checkpoint, at, row, column in [(4, 0, 2, 3), (0, 2, 3, 0), (1, 1, 0, 4)]
    ]  # fmt: skip


def hostile_alignment() -> Any:
    parts = sentence(source=MANY[:5], targets=[MANY[:4]] * 5, written=[*MANY[:4], MANY[2]], truth=None)
    return alignment_explorer({MANY[0]: parts, MANY[4]: parts}, title=MANY[0])


def long_alignment() -> Any:
    tokens = [f"token{i}" for i in range(30)]
    parts = {"source": tokens, "targets": [tokens] * 5, "scores": scores(5, 30, 30)}
    return alignment_explorer({"x" * 90: sentence(written=["w" * 200] * 5, truth=None, **parts)})


BEST = int(scores(5, 4, 5)["alpha"][4, 1].argmax())
ALIGNMENT = Row(
    alignment,
    {"checkpoint": 0},
    ("T-x-A-step-", ["source →", "alpha"], "target,target token,source,source token"),
    alignment_cells,
    walks=[
        Walk(
            f"{STAGE} >> nth=1",
            [
                ("Home", "'the' (0) with '<bos>' (0)"), ("ArrowDown", "'red' (1) with '<bos>' (0)"),
                ("ArrowRight", "'red' (1) with 'das' (1)"), ("End", "'<eos>' (3) with 'das' (1)"),
                ("PageUp", "Step 100, accuracy 0.80. Translation 'the house', wrong"), ("Escape", "! with "),
            ],
        )
    ],
    pictures={"Checkpoint": f".attna-map:not(:nth-child(4)) {MAPS}"},
    table=[({}, 1, 0, f"'{SOURCE[BEST]}' ({BEST})", None), ({}, 3, 3, "none", None)],
    hostile=(hostile_alignment, OVERLAY, ".attnt-text", [MANY[2]]),
    long=([long_alignment], OVERLAY),
    legible=(".attna-name", READOUT),
    live=({"translate": translate}, "A sentence of your own", "das rote Haus", "das rote Haus (typed)"),
)  # fmt: skip


# ---- generation


def generations(**settings: Any) -> GenerationExplorer:
    small = {"prompt_words": ["v", "w"], "generated_words": ["x"], "matrix": torch.tensor([[[3.0], [9.0]]])}
    return GenerationExplorer.from_examples({"large": passage(), "small": small}, **settings)


def generation_cells() -> list[Cell]:
    """Two in the map of one generated token, layers by prompt; two in that of all, generated by prompt."""

    def cell(place: int, g: int, layer: int, k: int) -> Cell:
        down = (layer + 0.5) / 3 if place == 0 else (g + 0.5) / 4
        return Cell(
            {"generated": g, "layer": layer, "filtered": False},
            f"{OVERLAY} >> nth={place}",
            f"'{seen(NEW[g])}' ({g}), after layer {layer + 1} → '{seen(PROMPT[k])}' ({k}): #",
            [matrix()[g, k, layer].item()],
            at=((k + 0.5) / 6, down),
            said=f".attnx-tip >> nth={place}",
        )

    return [cell(0, 2, 0, 0), cell(0, 2, 2, 5), cell(1, 0, 1, 2), cell(1, 3, 1, 5)]


def hostile_generation() -> GenerationExplorer:
    whole = passage(prompt_words=MANY, generated_words=MANY[:4])
    return GenerationExplorer.from_examples({MANY[0]: whole, MANY[4]: whole}, title=MANY[0])


def long_generation(count: int) -> GenerationExplorer:
    return GenerationExplorer(long_words(count), [" new"] * 40 + ["y" * 200], matrix(41, count, 4))


GENERATION = Row(
    generations,
    {"layer": 0},
    (
        "T-x-large-is-0-mean-over-layers",
        ["Generated", "1", "3", "␣is", ".", "⏎"],
        "generated,generated token,layer,prompt,prompt token",
    ),
    generation_cells,
    walks=[
        Walk(
            "[data-g='0']",
            [
                (key, f"({at}), mean over layers, is attributed most to '", f"[data-g='{at}'][tabindex='0']")
                for key, at in [("ArrowRight", 1), ("ArrowDown", 2), ("End", 3), ("ArrowRight", 3),
                                ("ArrowLeft", 2), ("Home", 0)]
            ]
            + [("PageDown", "(0), after layer 1, is attributed most to")],
        ),
        Walk(
            f"{STAGE} >> nth=0",
            [
                ("ArrowDown", "(0), after layer 1, "), ("End", "(0), after layer 3, "),
                ("ArrowUp", "(0), after layer 2, "), ("PageDown", "(1), after layer 2, "),
                ("ArrowRight", "On '<s>' (0): "), ("ArrowRight", "On '␣The' (1): "),
                ("Home", "(1), mean over layers, "), ("Escape", "!On '"),
            ],
        ),
        Walk(
            f"{STAGE} >> nth=1",
            [("ArrowDown", "(2), mean"), ("PageDown", "(2), after layer 1"), ("Home", "(0), after layer 1")],
            {"generated": 1},
        ),
    ],
    pictures={"Layer": f":nth-match({MAPS}, 2)"},
    scale={"whole": 1},
    table=[
        ({"layer": layer, "filtered": False}, g, 0, f"({matrix()[g, :, layer].argmax()})", None)
        for layer, g in [(0, 0), (2, 3)]
    ],
    hostile=(hostile_generation, f"{OVERLAY} >> nth=1", ".attng-word[data-k]", MANY),
    long=([lambda: long_generation(6), lambda: long_generation(300)], f"{OVERLAY} >> nth=1"),
    legible=(".attnx-title", READOUT, ".attng-place", ".attng-hidden", "button.attng-word"),
)  # fmt: skip


# ---- two measures


def measure_token(place: int, at: int) -> str:
    return f".attnm-side:nth-child({place + 1}) [data-token='{at}']"


def measure_cells() -> list[Cell]:
    needed = "'b' (1), needed: rollout # (1st of 4), blank-out # (1st of 4)."
    return [
        Cell({}, measure_token(1, 1), needed, [0.4, 2.0]),
        Cell({}, measure_token(0, 0), "'a' (0), not needed: rollout #…, blank-out #…", [0.1, -1.0]),
        Cell({}, measure_token(0, 4), "'=' (4), predicts."),
    ]


def hostile_measure() -> Any:
    parts = {"tokens": MANY, "scores": {MANY[0]: torch.rand(6)}, "missing": {MANY[3]: MANY[1]}}
    return measure_explorer({MANY[2]: question(**parts)}, title=MANY[0])


def long_measure() -> Any:
    parts = {"tokens": long_words(60), "scores": {"rollout": torch.rand(60)}}
    return measure_explorer({"q" * 90: question(**parts, truth=None, candidates=None)})


MEASURE = Row(
    lambda **settings: measure_explorer(**({"item": 0} | settings)),
    {"item": 1},
    ("T-x-", ["rollout"], "place,token,needed,rollout"),
    measure_cells,
    walks=[
        Walk(
            measure_token(0, 0),
            [
                (key, f"({at})", measure_token(place, at))
                for key, place, at in [("ArrowRight", 0, 1), ("ArrowDown", 1, 1), ("End", 1, 5),
                                       ("ArrowRight", 1, 5), ("ArrowUp", 0, 5), ("Home", 0, 0)]
            ]
            + [("Escape", "!(0)")],
        )
    ],
    pictures={"Method on the right": ".attnm-side:nth-child(2) .attnm-text"},
    table=[({}, 1, 0, "needed", None), ({}, 1, 1, "#", 0.4), ({}, 1, 2, "#", 2.0), ({}, 4, 0, "", None)],
    hostile=(hostile_measure, "[data-token='4']", ".attnm-side:first-child .attnm-token", MANY),
    long=([long_measure], "[data-token='3']"),
    legible=(READOUT, ".attnm-found"),
)  # fmt: skip


# ---- models and programs in the page


def models(**settings: Any) -> ModelExplorer:
    return ModelExplorer(shown("rasp_languages", "sort", "reverse"), **({"layer": 0, "item": 1} | settings))


def model_cells() -> list[Cell]:
    kept = stored_model("rasp_languages", "sort")
    assert isinstance(kept.task, Language)
    with torch.no_grad():
        read = kept.model(kept.task.annotate("cabbage").input_ids[None], output_attentions=True)
    places = [(0, 1, 2), (1, 7, 0), (1, 3, 3)]
    return map_cells(
        ["<bos>", *"cabbage"],
        [({"layer": at}, q, k, read.attentions[0, at, 0, q, k]) for at, q, k in places],
    )


def long_model(*name: str, text: str) -> Callable[[], ModelExplorer]:
    return lambda: model_explorer(*name, text=text)


MODEL = Row(
    models,
    {"text": "fade", "swaps": {"L0H0": "off"}},
    ("T-x-", ["reads", "writes"], "query,query token,key,key token,weight"),
    model_cells,
    walks=[Walk(STAGE, [("ArrowDown", "Query '<bos>' (0)"), ("Escape", "No query selected")])],
    pictures={"Layer": MAPS},
    long=(
        [
            long_model("sort", "rasp_languages", text="abcdefghij" * 3),
            long_model("addition, seed 0", "arithmetic_lens", text="99+99"),
            long_model(REVERSES, "algorithmic_reasoning", text="abcdefghij" * 4),
        ],
        OVERLAY,
    ),
    legible=(READOUT, ".attno-said"),
)

PROGRAM = Row(
    program_explorer,
    {"text": "bbbbbbbbbbbb", "query": 5},
    ("T-x-", ["output", "rollout"], "position,symbol,v3,v5,reads,causes,rollout"),
    lambda: [
        Cell(
            {"item": 1, "text": COUNT["text"], "query": 2},
            "[data-at='3']",
            "'d' at position 3: not read; in its place 'b' would give #, 'c' would give #.",
            [output_with(COUNT, "bcb", 2), output_with(COUNT, "bcc", 2)],
        )
    ],
    long=([lambda: ProgramExplorer({"p" * 90: POINTER})], "[data-at='3']"),
    legible=(".attnr-line", "button.attnr-cell", ".attnr-positions span", ".attnr-question"),
)

EXPLORERS = {
    "alignment": ALIGNMENT,
    "attention": ATTENTION,
    "dynamics": DYNAMICS,
    "generation": GENERATION,
    "measure": MEASURE,
    "model": MODEL,
    "program": PROGRAM,
    "training": TRAINING,
}

"""The first picture of the book: a prompt with one fact among others, shaded by two methods' attributions.

The chapter on attribution methods opens its explorer on the same prompt (`needle_question`).

`python -m book.front.needle` runs the language model, in a minute, and writes `needle.json`. The page is made
from that file, without loading a model.
"""

from __future__ import annotations

import datetime
import json
import re
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from book.sealing import read_sealed, sealed

RECORD = Path(__file__).with_name("needle.json")
"""The prompt, its tokens, the positions of the fact, the model's answer, and each method's scores."""

ANOTHER = "5274"
"""The number that replaces the answer in the counterfactual prompt of activation and attribution patching."""

ROLLOUT, OCCLUSION, LRP = "rollout", "occlusion", "AttnLRP"
"""The method on the left (mean over layers), the one on the right, and one that only the verdict names."""

DARKEST = 45
"""The largest share of the links' colour in a shade, in percent: words stay readable on it."""

TOP_TOKENS = 3
"""How many tokens with the highest scores each side names."""

DIGITS = 5
"""Digits of recorded scores: decimals in the picture, significant digits for the explorer's methods."""

HALF = """\
<div role="group" aria-label="{heading}">
<p><strong>{heading}</strong><br>{about}</p>
<p class="prompt">{text}<b>{answer}</b></p>
</div>"""

SHOWN = """\
:::{{container}} needle
```{{raw}} html
{left}
{right}
```
:::

:::{{container}} needle-verdict
**Rollout ranks the best token of the right code {rollout} of {n}. {others}.**
[Type your own prompt](/notebooks/generative_rollout.ipynb#try-your-own-prompt)
:::"""


def needle(stage: Path) -> str:
    """The prompt, shaded by each of two methods, with the fact outlined, and the ranks of the fact."""
    kept = read_sealed(RECORD)
    ranks = {name: ordinal(rank(kept, name)) for name in kept["scores"]}
    if ranks[OCCLUSION] == ranks[LRP]:
        others = f"{OCCLUSION.capitalize()} and {LRP}, a third method, rank it {ranks[LRP]}"
    else:
        others = f"{OCCLUSION.capitalize()} ranks it {ranks[OCCLUSION]}, {LRP} {ranks[LRP]}"
    return SHOWN.format(
        left=half(kept, ROLLOUT, "Rollout", "Attention is multiplied through all layers. Highest scores:"),
        right=half(
            kept,
            OCCLUSION,
            "Occlusion",
            "Each token is left out in turn. The answer becomes least likely without",
        ),
        rollout=ranks[ROLLOUT],
        others=others,
        n=len(kept["scores"][ROLLOUT]),
    )


def needle_question() -> dict[str, dict[str, Any]]:
    """The prompt and every method's scores, in the form that `widgets.MeasureExplorer` takes."""
    kept = read_sealed(RECORD)
    places = np.arange(len(kept["tokens"]))
    return {
        f"a fact in a prompt, {kept['model'].split(',')[0]}": {
            "tokens": kept["tokens"],
            "scores": {name: np.array([*scores, 0.0]) for name, scores in kept["methods"].items()},
            "truth": np.isin(places, kept["fact"]),
            "candidates": places < places[-1],
            "query": int(places[-1]),
            "predicted": kept["answer"],
            "expected": kept["answer"],
        }
    }


def rank(kept: dict[str, Any], method: str) -> int:
    """The rank of the fact's best-scored token among all but the prompt's last; ties count against it."""
    scores, fact = np.array(kept["scores"][method]), np.isin(np.arange(len(kept["tokens"]) - 1), kept["fact"])
    return 1 + int(((scores >= scores[fact].max()) & ~fact).sum())


def half(kept: dict[str, Any], method: str, heading: str, about: str) -> str:
    """The prompt as HTML; a token's shade is the square root of its score over the largest score."""
    scores = np.clip(kept["scores"][method], 0, None)
    shades = [*np.sqrt(scores / scores.max()), 0.0]
    spans, fact = [], kept["fact"]
    for place, (token, shade) in enumerate(zip(kept["tokens"], shades, strict=True)):
        word = escape(token.strip()) or "&nbsp;"
        blank = " " if token[0] == " " and token.strip() else ""
        span = f'{blank}<span style="--share: {DARKEST * shade:.0f}%">{word}</span>'
        spans.append("<mark>" * (place == fact[0]) + span + "</mark>" * (place == fact[-1]))
    order = np.argsort(-scores, kind="stable")[:TOP_TOKENS]
    most = ", ".join(f"<i>{escape(kept['tokens'][place].strip() or 'a blank')}</i>" for place in order)
    return HALF.format(
        heading=heading, about=f"{about} {most}.", text="".join(spans), answer=escape(kept["answer"])
    )


def ordinal(number: int) -> str:
    """A number as an ordinal: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    end = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{end}"


def needle_record() -> dict[str, Any]:
    """The content of `needle.json`: the language model's answer and each method's scores of the tokens."""
    from attnlib.attribution.attention import from_attention, mean_rolled
    from attnlib.attribution.registry import attributions
    from attnlib.generators.needle import NeedleGenerator
    from attnlib.generators.prompts import encode
    from attnlib.models.pretrained import DEFAULT, load_language_model
    from book.chapters.attribution_benchmark.measures import ASKED
    from book.chapters.display import display_name
    from book.chapters.generative.figures import TRIALS
    from book.chapters.records.provenance import origin

    model, tokenizer = load_language_model(DEFAULT, device="cpu")
    prompt = TRIALS[0].text
    written = model.generate(encode(prompt, tokenizer), max_new_tokens=6, do_sample=False)
    (answer,) = re.findall(r"\d+", tokenizer.decode(written[0]).removeprefix(prompt))
    sample = NeedleGenerator(tokenizer).annotate(f"{prompt} {answer}")
    n = sample.n_prompt
    assert sample.reference is not None
    methods: dict[str, Any] = {ROLLOUT: from_attention(mean_rolled), OCCLUSION: "blank-out", LRP: LRP}
    ids, target = sample.input_ids[:n], int(sample.input_ids[n])
    other = encode(prompt.replace(answer, ANOTHER) + " ", tokenizer)[0, :n]
    scores = attributions(model, ids, methods, target=target)
    every = attributions(model, ids, ASKED, target=target, counterfactual=other)
    return {
        "prompt": prompt,
        "answer": answer,
        "tokens": [tokenizer.decode(each) for each in sample.input_ids[:n]],
        "fact": sample.reference[n - 1, : n - 1].nonzero().flatten().tolist(),
        "scores": {
            name: [round(each, DIGITS) for each in row[: n - 1].tolist()] for name, row in scores.items()
        },
        "methods": {
            display_name(name): [float(f"{each:.{DIGITS}g}") for each in row[: n - 1].tolist()]
            for name, row in every.items()
        },
        "model": f"{DEFAULT}, {model.loaded_from}",
        **origin(),
        "recorded": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


if __name__ == "__main__":
    RECORD.write_text(json.dumps(sealed(needle_record()), indent=1) + "\n", encoding="utf-8")

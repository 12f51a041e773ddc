"""Speed of sampling RASP languages with targets: vectorised, and one symbol at a time.

    python benchmarks/rasp_sampling.py [--original FOLDER] [--record]

"Plain" computes outputs and target attention by loops over positions, the straightforward way. Its texts are
given (except for Dyck languages, where drawing is most of the work), and it makes no tensors. With the FOLDER
of the original code (RASP-exps, not part of this repository), that code is timed too; it draws texts and
makes no tensors. All use 26 symbols (Dyck languages their own), lengths 1 to 100 and a beginning-of-sequence
token, on one thread, in turn. The result is the ratio of their speeds.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import torch
from timing import ORIGINAL, PLAIN, Way, common_options, compared, report

from attnlib.generators.rasp import Language, language

N, FEW = 2000, 200


def plain_sort(text: str) -> tuple[list, list]:
    """Outputs and target attention of sort, by loops."""
    n = range(len(text))
    before = [[text[k] < text[q] or (text[k] == text[q] and k < q) for k in n] for q in n]
    ranks = [sum(row) for row in before]
    return sorted(text), [before, [[ranks[k] == q for k in n] for q in n]]


def plain_hist2(text: str) -> tuple[list, list]:
    """Outputs and target attention of hist2, by loops."""
    n, count = range(len(text)), Counter(text)
    same = Counter(count.values())
    equal = [[text[k] == text[q] for k in n] for q in n]
    before = [[text[k] == text[q] and k < q for k in n] for q in n]
    first = [text.index(text[k]) == k for k in n]
    firsts = [[first[k] and count[text[k]] == count[text[q]] for k in n] for q in n]
    return [min(same[count[symbol]], 10) for symbol in text], [equal, before, firsts]


def plain_sort_by_freq(text: str) -> tuple[list, list]:
    """Outputs and target attention of sort_by_freq, by loops."""
    n, count = range(len(text)), Counter(text)
    equal = [[text[k] == text[q] for k in n] for q in n]
    before = [[text[k] == text[q] and k < q for k in n] for q in n]
    score = [count[text[k]] - 202 * (text.index(text[k]) != k) for k in n]
    earlier = [[score[k] > score[q] or (score[k] == score[q] and k < q) for k in n] for q in n]
    ranks = [sum(row) for row in earlier]
    order = sorted(set(text), key=lambda symbol: (-count[symbol], text.index(symbol)))
    return order, [equal, before, earlier, [[ranks[k] == q for k in n] for q in n]]


def plain_dyck2(text: str) -> tuple[list, list]:
    """Draw a balanced sequence as long as the text, and compute its outputs with a stack."""
    grown, opened, outputs, broken = list[str](), list[str](), list[str](), False
    while len(grown) < len(text):
        pair = random.random() < 0.7 and len(grown) + 2 <= len(text)
        place = random.randint(0, len(grown))
        grown[place:place] = random.choice(("()", "{}")) if pair else "a"
    for symbol in grown:
        if symbol in "({":
            opened.append(symbol)
        elif symbol in ")}":
            broken |= not opened or opened.pop() + symbol not in ("()", "{}")
        outputs.append("F" if broken else "P" if opened else "T")
    return outputs, []


PLAINLY = {
    "sort": plain_sort,
    "hist2": plain_hist2,
    "sort_by_freq": plain_sort_by_freq,
    "dyck2_ptf": plain_dyck2,
}


def vectorised(lang: Language) -> None:
    """Draw `N` sequences, and make batches with target attention."""
    batch_at = lang.batches(lang.sequences(N), batch_size=50, target_attention=True)
    for step in range(N // 50):
        batch_at(step)


def original(folder: Path, name: str) -> Way:
    """The call to time: indexing the original's training data, which draws them."""
    sys.path.insert(0, str(folder))
    from Minilangs import minilangs  # type: ignore[import-not-found]

    train = minilangs[f"{name}_bos" if name.startswith("dyck") else f"{name}_26_bos_with_attns"][0]["train"]
    return Way(FEW, lambda: [train[i] for i in range(FEW)])


def main() -> None:
    """Print samples per second, and ratios."""
    options = common_options(__doc__, original="RASP-exps").parse_args()
    torch.set_num_threads(1)
    lines = []
    for name, plainly in PLAINLY.items():
        lang = language(name, alphabet_size=26, bos=True)
        texts = lang.decode(lang.sequences(N))[:FEW]
        others = {PLAIN: Way(FEW, lambda write=plainly, texts=texts: [write(text) for text in texts])}
        if options.original:
            others[ORIGINAL] = original(options.original, name)
        lines.append(compared(name, Way(N, lambda lang=lang: vectorised(lang)), others))
    report("rasp_sampling", lines, options.record)


if __name__ == "__main__":
    main()

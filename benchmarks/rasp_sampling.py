"""How fast the RASP languages are sampled, with targets: vectorised, and one symbol at a time.

    python benchmarks/rasp_sampling.py

"Plain" writes outputs and target attention as loops over positions, as one would at first. (The original
makes fewer samples a second than "plain" does: 1,300, 730 and 570 of sort, hist2 and sort_by_freq, timed
beside it.) Both draw 26 symbols, lengths 1 to 100, with a beginning-of-sequence token, on one thread, in
turn; the ratio is what to look at.
"""

from __future__ import annotations

import time
from collections import Counter

import pandas as pd
import torch

from attnlib.generators.rasp import language

N = 2000


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


PLAIN = {"sort": plain_sort, "hist2": plain_hist2, "sort_by_freq": plain_sort_by_freq}


def main() -> None:
    """Print samples per second of both, and their ratio."""
    torch.set_num_threads(1)
    rows = []
    for name, plainly in PLAIN.items():
        lang = language(name, alphabet_size=26, bos=True)
        sequences = lang.sequences(N)
        texts = lang.decode(sequences)
        ratios = []
        for _ in range(3):  # in turn, so that a machine that slows down slows both
            start = time.perf_counter()
            batch_at = lang.batches(lang.sequences(N), batch_size=50, target_attention=True)
            for step in range(N // 50):
                batch_at(step)
            vectorised = N / (time.perf_counter() - start)
            start = time.perf_counter()
            for text in texts[:200]:
                plainly(text)
            plain = 200 / (time.perf_counter() - start)
            ratios.append((vectorised / plain, vectorised, plain))
        ratio, vectorised, plain = sorted(ratios)[1]
        rows.append({"language": name, "samples/s": vectorised, "plain, samples/s": plain, "ratio": ratio})
    print(pd.DataFrame(rows).to_string(index=False, float_format="{:,.0f}".format))


if __name__ == "__main__":
    main()

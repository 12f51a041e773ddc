"""How fast keyword relevance of every pair of tokens is computed, beside the original's own code.

    python benchmarks/translation_beta.py [--original FOLDER] [--sentences 1014] [--record]

Validation sentences of Multi30k, a model of the original's size with its initial weights, one thread, in
turn; the ratio is what to look at. The original goes through sentences one by one; ours takes them together,
joins states and contexts by two products in place of one per pair, and has no loop over pairs. Both have to
compute 8,000 logits for each pair of a target and a source token (for each source token alone, where context
is added), which is most of the work: that bounds the ratio on a processor. That both give the same numbers is
a test (tests/attnlib/models/test_seq2seq.py). `--original` names a copy of AttentionDynamics.
"""

from __future__ import annotations

import torch
from timing import ORIGINAL, Way, common_options, compared, report
from translation_training import original_model

from attnlib.files import cache_folder
from attnlib.generators.translation import bitext
from attnlib.models.seq2seq import Seq2Seq, Seq2SeqConfig
from book.chapters.translation.scores import source_scores


def main() -> None:
    """Print sentences per second of each, and their ratio."""
    parser = common_options(__doc__ or "", "AttentionDynamics")
    parser.add_argument("--sentences", type=int, default=64, help="validation sentences; all: 1014")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs = bitext("multi30k", cache=cache_folder()).validation.sample(options.sentences)
    lines = []
    for context in ("feed-forward", "added"):
        torch.manual_seed(0)
        model, others = Seq2Seq(Seq2SeqConfig(8000, context=context)).eval(), {}
        ours = Way(len(pairs), lambda model=model: source_scores(model, pairs, delta=False))
        if options.original:
            theirs = original_model(options.original, 0.0)
            scores = theirs.get_state_scores2 if context == "feed-forward" else theirs.get_state_scores

            def one_by_one(scores=scores) -> None:
                for row in range(len(pairs)):
                    batch = pairs.batch(torch.tensor([row]))
                    scores(batch.source.T, batch.target.T)

            others[ORIGINAL] = Way(len(pairs), one_by_one)
        lines.append(compared(f"sentences, context {context}", ours, others, options.rounds))
    report("translation_beta", lines, options.record)


if __name__ == "__main__":
    main()

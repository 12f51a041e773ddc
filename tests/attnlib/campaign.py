"""Every architecture of transformers, asked in every way; the table of it that the book shows is written by

python -m tests.attnlib.campaign    # two minutes of one core
"""

from __future__ import annotations

import argparse

import pandas as pd
import torch
import transformers

from book.chapters.own_model.architectures import FOUND
from tests.attnlib.architectures import KINDS, NOT_BUILT
from tests.attnlib.references import Subject
from tests.attnlib.ways import WAYS, outcome

OF_ENCODERS = tuple(WAYS)[: tuple(WAYS).index("rollout of what it writes")]
"""Ways that need no scores of a next token."""

Outcomes = dict[str, dict[str, tuple[str, str]]]
"""By kind and way, the outcome and what there is to say of it."""


def model_types() -> list[str]:
    """All that transformers has, of any kind, but for those that are not built."""
    return sorted({name for _, names in KINDS.values() for name in names} - NOT_BUILT.keys())


def outcomes(model_type: str) -> Outcomes:
    """What comes of asking one; of an encoder-decoder, its encoder is asked for rollout, too."""
    found: Outcomes = {}
    for kind, (_, names) in KINDS.items():
        if model_type in names:
            subject = Subject(kind, model_type)
            found[kind] = {name: outcome(subject, name) for name in WAYS}
            if subject.model.config.is_encoder_decoder and "encoder" not in found:
                encoder, ways = Subject("encoder", model_type), OF_ENCODERS
                found["encoder"] = {name: outcome(encoder, name) for name in ways}
    return found


def record() -> None:
    """Ask all, and write the table."""
    rows = [
        {"model type": name, "kind": kind} | dict.fromkeys(WAYS, "not built")
        for kind, (_, names) in KINDS.items()
        for name in sorted(NOT_BUILT.keys() & names)
    ]
    for model_type in model_types():
        for kind, found in outcomes(model_type).items():
            row = {name: said for name, (said, _) in found.items()}
            rows.append({"model type": model_type, "kind": kind, **row})
            if bad := {name: each for name, each in found.items() if each[0] in ("raw", "wrong")}:
                print(model_type, kind, bad)
    pd.DataFrame(rows).sort_values(["model type", "kind"]).to_csv(FOUND, index=False)


def main() -> None:
    """Ask all, and write the table, from a command line without words."""
    argparse.ArgumentParser(description="Ask every model type of transformers in every way.").parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    record()


if __name__ == "__main__":
    main()

"""The library behind *Where Attention Looks*.

Seven verbs, each imported when it is first asked for::

    load_language_model      a small language model, fetched and checked, and its tokenizer
    rollout_of               where each token's state comes from, in one pass of any model
    generate_with_rollout    what a model writes, and which words of the prompt each word drew on
    attributions             what one prediction drew on, by any of 27 measures
    language                 a RASP language: samples, and where its program's heads look
    look                     a model and a prompt as one page that can be sent: `attnlib look`
    benchmark                an attribution method of yours against ground truth: `attnlib benchmark`

Its rooms, from the bottom up; each imports from those before it only::

    generators     where samples come from: text, token ids, targets, the reference attention
    models         what is trained, and `models.attention`, the one door to any model's attention
    training       one fit(), its plan, and the cache of trained models
    rollout        how attention is followed through layers, down to the tokens it read
    attribution    every measure of what a prediction drew on, in one registry
    measures       a model and batches in, rows out
    plots          figures
    widgets        explorers, for JupyterLab and for static pages
    benchmarking   random programs with ground truth, compiled to exact transformers; methods on them
    commands       `attnlib look`, `attnlib benchmark`

`stats` stands by itself: numbers in, numbers with intervals out. CONTRIBUTING.md says what each room takes
and gives.

Example:
    >>> import torch
    >>> from attnlib.models import Transformer, TransformerConfig
    >>> import attnlib
    >>> model = Transformer(TransformerConfig(vocabulary=5, n_layers=2, causal=True))
    >>> input_ids = torch.tensor([[1, 2, 3, 4]])
    >>> attnlib.rollout_of(model, input_ids).sum(-1).round(decimals=4)  # rows are queries, and sum to 1
    tensor([[1., 1., 1., 1.]])
    >>> scores = attnlib.attributions(model, input_ids, ["rollout", "blank-out"], target=0)
    >>> {name: tuple(each.shape) for name, each in scores.items()}
    {'rollout': (1, 4), 'blank-out': (1, 4)}
    >>> attnlib.language("sort", alphabet_size=26, bos=True).outputs("cab")
    ['a', 'b', 'c']
"""

from typing import TYPE_CHECKING

from attnlib.lazily import lazily

if TYPE_CHECKING:
    from attnlib.attribution import attributions
    from attnlib.benchmarking import benchmark
    from attnlib.commands.looking import look
    from attnlib.generators.rasp import language
    from attnlib.models.pretrained import load_language_model
    from attnlib.rollout import generate_with_rollout, rollout_of

__all__ = [
    "attributions",
    "benchmark",
    "generate_with_rollout",
    "language",
    "load_language_model",
    "look",
    "rollout_of",
]

__version__ = "0.2.0"

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, __file__)

"""The library behind *Where Attention Looks*.

Seven functions, each imported at its first use::

    load_language_model      download and verify a small language model and its tokenizer
    rollout_of               attention rollout: which tokens each token's state comes from, in one pass
    generate_with_rollout    generate text, with the words of the prompt that each new word came from
    attributions             a score of each token for one prediction, by any of 27 measures
    language                 a RASP language: its samples, and the attention of its program's heads
    look                     one HTML page that shows where a model's words came from: `attnlib look`
    benchmark                test your attribution method against ground truth: `attnlib benchmark`

Its packages, from the bottom up; each imports only from those before it::

    generators     samples of tasks: text, token ids, targets, the reference attention
    models         the models, and `models.attention`, which reads and changes any model's attention
    training       one fit(), its plan, and the cache of trained models
    rollout        attention combined over layers, down to the input tokens
    attribution    all attribution measures, in one registry
    measures       numbers of a model on batches, as tables with a row per sample or token
    plots          figures
    widgets        explorers, for JupyterLab and for static pages
    benchmarking   random programs with ground truth, compiled to exact transformers; methods on them
    commands       `attnlib look`, `attnlib benchmark`

`stats` imports from none of these; it makes numbers with confidence intervals from tables and arrays.
CONTRIBUTING.md says what each package takes and returns.

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

r"""Transformers whose weights are constructed from a RASP program, not trained.

RASP (Weiss et al. 2021) is a language for computations of transformers: where each head looks, and what each
feed-forward block computes. For `reverse`, `hist` and `sort`, `compiled` writes the program as weights of our
own `Transformer`. The result is a model with a known mechanism: it is right on every sequence up to its
length, and its heads look where the program's selectors do. The idea of compiling such models is from Lindner
et al. 2023 (tracr); here, three programs were translated by hand, without a compiler.

**The residual stream.** Channels have names, and every block writes only to empty channels. Layer
normalisation leaves the channels unchanged: see `attnlib.models.compiled.weights`.

**Selecting.** A head whose score is $\beta = 32$ at the $c$ keys that a query selects and at most 0 elsewhere
puts $1/c$ on each, up to terms of $e^{-32}$. To select the key whose number $u_k$ equals $m_q$, it uses

$$-\beta (u_k - m_q)^2 = \beta (2 m_q u_k - u_k^2) + \text{a term that is the same for all keys.}$$

**Counting.** Let a head select $c$ keys and the beginning of the sequence, with value 1 at the beginning and
0 elsewhere. Its output is $a = 1 / N$, $N = c + 1$. The feed-forward block turns this share into the number:
with hidden units $h_j = \max(0, 1 - j a)$, $j = 1, 2, \ldots$, at $a = 1/N$ exactly

$$N = 1 + \sum_j 2 h_j, \qquad N^2 = 1 + \sum_j 6 j\, h_j .$$

References:
    1) Weiss, Goldberg and Yahav 2021, *Thinking Like Transformers*: the programs (sections 3 and 5).
    2) Lindner et al. 2023, *Tracr: Compiled Transformers as a Laboratory for Interpretability*.
"""

from attnlib.models.compiled.programs import (
    PROGRAMS,
    Compiled,
    compiled,
    hist_program,
    reverse_program,
    sort_program,
)

__all__ = ["PROGRAMS", "Compiled", "compiled", "hist_program", "reverse_program", "sort_program"]

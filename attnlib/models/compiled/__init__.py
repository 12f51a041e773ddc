r"""Transformers whose weights are written down from a RASP program, not trained.

RASP (Weiss et al. 2021) says what a transformer can compute: which head looks where, what each feed-forward
block makes of it. For `reverse`, `hist` and `sort`, `compiled` writes that as weights of our own
`Transformer`. So there is a model whose mechanism is known: right on every sequence up to its length, with
heads that look where the program's selectors do. The idea of compiling such models is from Lindner et al.
2023 (tracr); this is no compiler, only three programs by hand.

**The stream.** Channels have names, and every block writes where nothing stood. Layer normalisation leaves
them as they are: see `attnlib.models.compiled.weights`.

**Selecting.** A head whose score is $\beta = 32$ at the $c$ keys that a query selects and at most 0 elsewhere
puts $1/c$ on each, but for $e^{-32}$. Among numbers $u_k$ it finds the one that equals $m_q$ by

$$-\beta (u_k - m_q)^2 = \beta (2 m_q u_k - u_k^2) + \text{what is the same for all keys.}$$

**Counting.** A head that selects $c$ keys and the beginning of the sequence, and reads there a 1, reads
$a = 1 / N$, $N = c + 1$. The feed-forward block turns the share back into the number: with hidden units
$h_j = \max(0, 1 - j a)$, $j = 1, 2, \ldots$, at $a = 1/N$ exactly

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

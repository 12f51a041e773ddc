"""What the studies claimed, and what came out: read from `results/`, put into words, judged by rules.

A claim is one sentence that could be false, scoped in its words to what was tested. Its verdict is one of

* *reproduced*: the records show what the sentence says;
* *not reproduced*: they show that it is not so;
* *inconclusive*: they leave both open;
* *not run*: they do not hold what it is about.

Where the study gives a number of the same thing, a remark says whether ours is shown to be weaker or
stronger.

Every rule is made of the helpers of `book.chapters.findings.rules` and reaches every verdict, which
`tests/chapters/findings` holds with small tables that support, refute and leave open. Intervals are 95 %; two
groups are never compared by whether their intervals overlap. Each claim is judged by itself: of fifty that
were all false, one or two would be said to be reproduced by chance.

The rules were written after the records, but for those that say so (`Claim.before`): then the sentence was
committed before the first run.

`python -m book.chapters.findings` prints all; `--readme` renews what README.md and CITATION.cff say of it. A
chapter's claims are in its folder.
"""

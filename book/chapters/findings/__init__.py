"""Claims of the studies, and their verdicts by rules from the records in `results/`.

A claim is one sentence that could be false, limited in its words to what was tested. Its verdict is one of

* *reproduced*: the records show that the claim is true;
* *not reproduced*: the records show that the claim is false;
* *inconclusive*: the records show neither;
* *not run*: the records lack the numbers that decide.

If the study gives a number of the same effect, a remark says whether our effect is shown to be weaker or
stronger.

Every rule consists of the helpers of `book.chapters.findings.rules` and can reach every verdict, which
`tests/chapters/findings` tests with small tables. Confidence intervals are 95 %; two groups are never
compared by whether their intervals overlap. Verdicts are not corrected for the number of claims: of fifty
false claims, one or two would be called reproduced by chance.

The rules were written after the records, except for claims with `Claim.before`: their sentence and rule were
committed before the first run.

`python -m book.chapters.findings` prints all findings; `--readme` updates them in README.md and CITATION.cff.
A chapter's claims are in its folder.
"""

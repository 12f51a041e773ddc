"""The library behind *Where Attention Looks*.

Its rooms, from the bottom up; each imports from those before it only::

    generators -> models -> training -> rollout -> attribution -> measures -> plots / widgets -> commands

`stats` stands by itself: numbers in, numbers with intervals out. CONTRIBUTING.md says what each room takes
and gives.
"""

__version__ = "0.1.0"

"""What a setting of the chapter `where_attention_tells` is: models of another chapter, and questions."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from typing import Any, ClassVar, Protocol, runtime_checkable

import yaml
from jaxtyping import Int64
from torch import Tensor, nn

from attnlib.attribution.prompts import Method
from book.chapters.chapter import Chapter, Run
from book.chapters.storing import NOTEBOOKS, chapter_of
from book.chapters.tells.questions import Questions
from book.chapters.tells.single_head_measures import SINGLE_HEAD

MOST_SEEDS = 3
"""Of how many seeds models are asked, where a chapter trains more."""

SPARE = 3
"""How many texts are drawn for each question that is wanted: not every text has one."""

Asked = tuple[nn.Module, Questions]
"""A model, as it is asked, and the questions."""


@runtime_checkable
class Wanted(Protocol):
    """What settings are asked for by: the chapter's parameters."""

    @property
    def questions(self) -> int:
        """How many of a setting, in the distribution and out of it each; fewer where a task has fewer."""

    @property
    def models(self) -> str:
        """The profile of the other chapters whose models are taken: "quick"."""

    @property
    def train_more(self) -> bool:
        """Whether models that those chapters do not train with this profile are trained, too."""


@dataclass(frozen=True)
class Setting(ABC):
    """Models whose sources are known, one per seed, and questions, which are the same for all of them.

    Attributes:
        needs: the chapter whose models they are, and that the pipeline executes before; `None` if none is.
        transformer: whether every measure can be asked about them. Others are recurrent models with a single
            head, which `book.chapters.tells.single_head` makes into such as can be asked.
    """

    needs: ClassVar[str | None]
    transformer: ClassVar[bool] = True

    @property
    @abstractmethod
    def title(self) -> str:
        """What the setting is called."""

    @abstractmethod
    def seeds(self, p: Wanted) -> list[int]:
        """The seeds of the models that there are, `MOST_SEEDS` at most; none where a profile trains none."""

    @abstractmethod
    def make(self, p: Wanted, seed: int, others: bool = False) -> Asked:
        """The model of a seed, trained if it is not kept, and what it is asked.

        Args:
            p: what is wanted.
            seed: one of `seeds`.
            others: whether counterfactuals are texts of their own, of the same form, rather than the same
                texts with their sources exchanged. What patches one token after another into the text finds
                sources of the latter by construction, where nothing else is another.

        Raises:
            ValueError: there is no such model; or with this profile nobody knows its sources.
        """

    @abstractmethod
    def words(self, p: Wanted, ids: Int64[Tensor, " token"]) -> list[str]:
        """What tokens of a question are called."""

    def methods(self, names: Iterable[str]) -> dict[str, str | Method]:
        """The measures of these names that its models are explained by, as `attributions` takes them."""
        own = {} if self.transformer else SINGLE_HEAD
        return {name: own.get(name, name) for name in names}

    def chapter(self, p: Wanted) -> Any:
        """The chapter that it needs, with the parameters of its profile."""
        assert self.needs is not None
        return chapter_with(self.needs, p.models)


class RunPerSeed(Setting):
    """A setting of a chapter that has a run for each seed; what kind of run, a subclass says."""

    def seeds(self, p: Wanted) -> list[int]:
        """Those of the chapter's runs; further ones, if they are to be trained."""
        kept = [run.seed for run in self.chapter(p).runs() if self.has(run)]
        more = (seed for seed in count() if seed not in kept)
        return [*kept, *islice(more, p.train_more * MOST_SEEDS)][:MOST_SEEDS]

    def make(self, p: Wanted, seed: int, others: bool = False) -> Asked:
        """See `Setting`; nothing is trained that sources are not known of."""
        chapter = self.chapter(p)
        self.check(chapter)
        run = next((each for each in chapter.runs() if self.has(each) and each.seed == seed), None)
        model = trained(chapter, run or self.another(chapter, seed))
        return self.ask(chapter, model, p.questions, others)

    def check(self, chapter: Any) -> None:
        """Raise a `ValueError` if the chapter's data are such that nobody knows the sources."""

    @abstractmethod
    def has(self, run: Any) -> bool:
        """Whether a run of the chapter trains one of these models."""

    @abstractmethod
    def another(self, chapter: Any, seed: int) -> Run:
        """A run of a seed that the chapter does not have."""

    @abstractmethod
    def ask(self, chapter: Any, model: Any, n: int, others: bool) -> Asked:
        """The model as it is asked, and `n` questions in the distribution and out of it each."""


@lru_cache(maxsize=16)
def chapter_with(notebook: str, profile: str) -> Chapter:
    """A chapter with the parameters of one of its profiles.

    Raises:
        ValueError: it has no such profile.
    """
    folder = NOTEBOOKS / "profiles" / notebook
    file = folder / f"{profile}.yaml"
    if not file.is_file():
        names = sorted(path.stem for path in folder.glob("*.yaml"))
        raise ValueError(f"{notebook} has the profiles {', '.join(names)}; got {profile!r}")
    given = yaml.safe_load(file.read_text()) or {}
    return chapter_of(notebook, {name: v if isinstance(v, str) else repr(v) for name, v in given.items()})


def trained(chapter: Chapter, run: Run) -> Any:
    """The model of a run: the one that is kept, or trained now, which is said."""
    found = chapter.trained.get(run.name)
    if found is not None and found.run == run:
        return found.model
    started = time.time()
    found = chapter.train(run)
    folder = found.history.folder
    if folder is None or (folder / "best.safetensors").stat().st_mtime >= started:
        print(f"{chapter.notebook}: {run.name} was trained here, in {time.time() - started:.0f} s")
    return found.model

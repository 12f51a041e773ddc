"""A class per chapter: its parameters, checked in its first second, its models and its record."""

from attnlib.chapters.algorithmic_reasoning import AlgorithmicReasoning
from attnlib.chapters.arithmetic_lens import ArithmeticLens, LensRun
from attnlib.chapters.base import Chapter, ParameterError, Run, Setup, Trained
from attnlib.chapters.classification_dynamics import ClassificationDynamics
from attnlib.chapters.generative_rollout import GenerativeRollout
from attnlib.chapters.rasp_languages import RaspLanguages, RaspRun

__all__ = [
    "AlgorithmicReasoning",
    "ArithmeticLens",
    "Chapter",
    "ClassificationDynamics",
    "GenerativeRollout",
    "LensRun",
    "ParameterError",
    "RaspLanguages",
    "RaspRun",
    "Run",
    "Setup",
    "Trained",
]

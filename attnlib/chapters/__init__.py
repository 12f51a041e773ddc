"""The parameters of each chapter: checked in its first second, before anything is trained."""

from attnlib.chapters.algorithmic_reasoning import AlgorithmicReasoningParams
from attnlib.chapters.arithmetic_lens import ArithmeticLensParams, LensRun
from attnlib.chapters.base import ParameterError, Params
from attnlib.chapters.classification_dynamics import ClassificationDynamicsParams
from attnlib.chapters.generative_rollout import GenerativeRolloutParams
from attnlib.chapters.rasp_languages import RaspParams

__all__ = [
    "AlgorithmicReasoningParams",
    "ArithmeticLensParams",
    "ClassificationDynamicsParams",
    "GenerativeRolloutParams",
    "LensRun",
    "ParameterError",
    "Params",
    "RaspParams",
]

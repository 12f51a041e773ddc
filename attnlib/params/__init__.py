"""The parameters of each chapter: checked in its first second, before anything is trained."""

from attnlib.params.algorithmic_reasoning import AlgorithmicReasoningParams
from attnlib.params.arithmetic_lens import ArithmeticLensParams, LensRun
from attnlib.params.base import ParameterError, Params
from attnlib.params.classification_dynamics import ClassificationDynamicsParams
from attnlib.params.generative_rollout import GenerativeRolloutParams
from attnlib.params.rasp_languages import RaspParams

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

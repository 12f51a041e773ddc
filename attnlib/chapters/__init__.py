"""A class per chapter: its parameters, checked in its first second, its models and its record."""

from attnlib.chapters.algorithmic_reasoning import AlgorithmicReasoning, ReasoningRun
from attnlib.chapters.arithmetic_lens import ArithmeticLens, LensRun
from attnlib.chapters.base import Chapter, Run, Setup, Trained
from attnlib.chapters.classification_dynamics import ClassificationDynamics, DynamicsRun
from attnlib.chapters.generative_rollout import GenerativeRollout
from attnlib.chapters.methods import Methods
from attnlib.chapters.own_model import OwnModel
from attnlib.chapters.quantifying_flow import FlowRun, QuantifyingFlow
from attnlib.chapters.rasp_languages import RaspLanguages, RaspRun
from attnlib.chapters.refusals import ParameterError
from attnlib.chapters.sequence_copying import CopyRun, SequenceCopying
from attnlib.chapters.translation_dynamics import TranslationDynamics, TranslationRun
from attnlib.chapters.where_attention_tells import WhereAttentionTells

__all__ = [
    "AlgorithmicReasoning",
    "ArithmeticLens",
    "Chapter",
    "ClassificationDynamics",
    "CopyRun",
    "DynamicsRun",
    "FlowRun",
    "GenerativeRollout",
    "LensRun",
    "Methods",
    "OwnModel",
    "ParameterError",
    "QuantifyingFlow",
    "RaspLanguages",
    "RaspRun",
    "ReasoningRun",
    "Run",
    "SequenceCopying",
    "Setup",
    "Trained",
    "TranslationDynamics",
    "TranslationRun",
    "WhereAttentionTells",
]

"""Explorers: interactive pictures, live in JupyterLab and without a kernel in the built book."""

from typing import TYPE_CHECKING

from attnlib.lazily import lazily

if TYPE_CHECKING:
    from attnlib.widgets.alignment_explorer import AlignmentExplorer
    from attnlib.widgets.attention_explorer import AttentionExplorer
    from attnlib.widgets.choice import Choice
    from attnlib.widgets.dynamics_explorer import DynamicsExplorer
    from attnlib.widgets.generation_explorer import GenerationExplorer, LiveGenerationExplorer
    from attnlib.widgets.language_model_explorer import LanguageModelExplorer, ModelFile, Trial
    from attnlib.widgets.measure_explorer import MeasureExplorer
    from attnlib.widgets.model_explorer import ModelExplorer
    from attnlib.widgets.program_explorer import ProgramExplorer
    from attnlib.widgets.training_explorer import TrainingExplorer

__all__ = [
    "AlignmentExplorer",
    "AttentionExplorer",
    "Choice",
    "DynamicsExplorer",
    "GenerationExplorer",
    "LanguageModelExplorer",
    "LiveGenerationExplorer",
    "MeasureExplorer",
    "ModelExplorer",
    "ModelFile",
    "ProgramExplorer",
    "TrainingExplorer",
    "Trial",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, __file__)

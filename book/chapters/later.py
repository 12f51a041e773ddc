"""What came after records that are kept: it has to be asked for, so that these stay what they are."""

MEASURES = ("ALTI-Logit", "ContextCite", "KernelSHAP", "ReAGent")
"""Of attribution: they are asked by name; where none is named, chapters ask the others."""

PARAMETERS: dict[str, dict[str, object]] = {
    "algorithmic_reasoning": {"further": []},
    "classification_dynamics": {
        "checkpoints": [],
        "lexical_batch_size": 64,
        "lexical_width": 256,
        "scores_folder": "",
    },
    "faithfulness_metrics": {"parts": []},
    "rasp_languages": {"precision": "float32"},
    "translation_dynamics": {
        "every_bleu": False,
        "lexical_batch_size": 64,
        "lexical_width": 0,
        "scores_folder": "",
    },
    "attribution_benchmark": {"whole_answers": []},
}
"""By chapter, with the value at which they ask for nothing: records name them where they have another."""

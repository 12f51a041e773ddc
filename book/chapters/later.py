"""Methods and parameters added after runs were recorded: off by default, so that old records stay valid."""

MEASURES = ("ALTI-Logit", "ContextCite", "KernelSHAP", "ReAGent")
"""Attribution methods that run only if they are named; without names, chapters run all other methods."""

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
"""Chapter -> later parameter -> its neutral value; records state such a parameter only with another value."""

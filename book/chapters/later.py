"""What came after records that are kept: it has to be asked for, so that these stay what they are."""

MEASURES = ("ALTI-Logit", "ContextCite", "KernelSHAP", "ReAGent")
"""Of attribution: they are asked by name; where none is named, chapters ask the others."""

PARAMETERS = {
    "algorithmic_reasoning": ("further",),
    "judging_measures": ("parts",),
    "where_attention_tells": ("whole_answers",),
}
"""By chapter: its records name them only where they ask for something."""

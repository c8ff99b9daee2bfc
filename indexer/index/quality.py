"""Names of the measures of quality, and words for them.

A quality is a number in [0, 1] that orders candidates.
"""

from typing import Final, Literal

Task = Literal["classes", "regression"]
# What a search's alpha multiplies: the gain over the prior's quality, or the quality.
AlphaOf = Literal["gain", "accuracy"]

# Words for the quality, by the name of the measure.
OF_CLASSES: Final = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "auc": "AUC",
    "average_precision": "average precision",
    "log_loss": "exp(-log loss)",
    "cost": "1 - cost",
    "precision_at": "precision at the wanted recall",
    "recall_at": "recall at the wanted precision",
    "f_beta": "F-beta",
}
OF_NUMBERS: Final = {"r2": "R2", "mae": "1 - relative MAE"}

# Words for the set without any feature.
NO_FEATURE: Final = "no feature: the prior answers"


def task_of(measure: str) -> Task:
    """Return the task of a measure: "regression" for numbers, else "classes"."""
    return "regression" if measure in OF_NUMBERS else "classes"


def name_quality(measure: str) -> str:
    """Return words for a measure's quality, such as "1 - relative MAE" for "mae"."""
    return (OF_CLASSES | OF_NUMBERS)[measure]

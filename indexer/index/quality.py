"""Quality: the number in [0, 1] that an index is ordered by, whatever it measures."""

from typing import Final, Literal

Task = Literal["classes", "regression"]

# What people call it, by the name of the measure.
OF_CLASSES: Final = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "auc": "AUC",
    "log_loss": "exp(-log loss)",
    "cost": "1 - cost",
}
OF_NUMBERS: Final = {"r2": "R2", "mae": "1 - relative MAE"}

# What answers where no feature is computed.
WITHOUT_FEATURES: Final[dict[Task, str]] = {
    "classes": "the most frequent class",
    "regression": "the mean",
}


def task_of(measure: str) -> Task:
    """Return what answers are where quality is such a measure."""
    return "regression" if measure in OF_NUMBERS else "classes"


def name_quality(measure: str) -> str:
    """Return what people call the quality that a measure gives."""
    return (OF_CLASSES | OF_NUMBERS)[measure]

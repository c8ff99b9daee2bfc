"""`[quality]`: the metric of a model's answers, and weights of classes."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from polydom.features.errors import BadProject
from polydom.features.wording import listed

from ...index.quality import OF_NUMBERS, Task
from .numbers import Above, NotNegative, Share

Measure = Literal[
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "auc",
    "average_precision",
    "log_loss",
    "cost",
    "precision_at",
    "recall_at",
    "f_beta",
    "r2",
    "mae",
]
# Measures of scores, not of the chosen class alone; and those for which exits, which
# keep classes but change scores, have to be asked for.
OF_SCORES = ("auc", "log_loss", "average_precision")
WITHOUT_EXITS = ("auc", "log_loss")
# Measures by which a threshold between two classes is chosen, and what `at` needs.
OF_THRESHOLDS: Final = {
    "precision_at": "recall",
    "recall_at": "precision",
    "f_beta": "",
}
# Measures of one class of two.
OF_POSITIVE = (*OF_THRESHOLDS, "average_precision", "cost")


class Quality(Struct, frozen=True, forbid_unknown_fields=True):
    """The metric of a model's answers, and weights of classes for fitting.

    Attributes
    ----------
    measure
        Metric. For classes: "accuracy", the default unless one of two classes has less
        than a tenth of the items; "average_precision", then the default: the mean
        precision over the items of the class `positive` (with more than two classes,
        the mean over the classes); "balanced_accuracy", the mean of the classes' shares
        of right answers; "macro_f1", the mean F1 of the classes; "auc", the area under
        the ROC curve (with more than two classes, the mean area of each class against
        the rest); "log_loss", whose quality exp(-loss) is the geometric mean of the
        probabilities given to the right classes; "cost", by the costs of wrong answers;
        or, for two classes, "precision_at", "recall_at" or "f_beta" of the class
        `positive`. The last three, and "cost" for two classes, choose a threshold: for
        each candidate, the score from which the answer is that class, by the items that
        quality is measured on. For numbers: "r2" (the default), 1 minus the ratio of
        the model's squared error to the error of always answering the mean label; or
        "mae", the same with absolute errors and the median label.
    costs
        For "cost": costs of answers, by the right class and then by the answer, such as
        `{ spam = { ham = 1 }, ham = { spam = 10 } }`. A wrong answer without an entry
        costs 1, a right answer 0.
    at
        For "precision_at": `{ recall = 0.8 }`, the recall that answers must have. For
        "recall_at": `{ precision = 0.9 }`. Fresh items reach it in the mean, or with
        the `confidence` that the same table may name, such as `{ recall = 0.8,
        confidence = 0.95 }`.
    beta
        For "f_beta": weight of recall against precision; 1 makes F1.
    positive
        Class that the measures of two classes are about; by default the rarer one.
    class_weights
        Weights of the classes for fitting a learner, not for testing: "equal",
        "balanced" (equal total weight for each class), or a table of weights by class.
        The default is "balanced" for "balanced_accuracy". For "cost" with more than two
        classes, the default weight of a class is the mean cost of answering it wrong.
        Otherwise, and for learners that accept no weights, it is "equal". Scores are of
        the classes' shares in the data, whatever the weights.
    coverage
        For numbers: share of fresh items whose label lies in the answer's interval.
    """

    measure: Measure | None = None
    costs: dict[str, dict[str, NotNegative]] = {}
    at: dict[str, Annotated[float, Meta(ge=0, le=1)]] = {}
    beta: Above = 1.0
    positive: str | None = None
    class_weights: Literal["equal", "balanced"] | dict[str, Above] | None = None
    coverage: Share = 0.9

    @property
    def cuts(self) -> bool:
        """True if a threshold decides where there are two classes."""
        return self.measure == "cost" or self.measure in OF_THRESHOLDS

    @property
    def least(self) -> float:
        """Recall or precision that answers must have; 0 if `at` names none."""
        return self.at.get(OF_THRESHOLDS.get(self.measure or "", ""), 0.0)

    @property
    def sure(self) -> float:
        """Confidence that fresh items reach `least`; 0 if they do in the mean."""
        return self.at.get("confidence", 0.0)

    def check(self) -> None:
        """Raise BadProject for keys that do not fit the measure."""
        measure = self.measure or ""
        if (self.measure == "cost") != bool(self.costs):
            given, needed = ("costs", "measure = 'cost'")
            if not self.costs:
                given, needed = needed, "costs, by class and answer"
            raise BadProject(f"[quality] {given} needs {needed}")
        needed = OF_THRESHOLDS.get(measure, "")
        if not needed and self.at:
            raise BadProject(
                "[quality] at is for measure = 'precision_at' or 'recall_at', not "
                f"{self.measure!r}"
            )
        if needed and not self.at.keys() >= {needed}:
            raise BadProject(
                f"[quality] measure = {measure!r} needs at = {{ {needed} = ... }}"
            )
        for key in self.at.keys() - {needed, "confidence"}:
            raise BadProject(
                f"[quality] at: unknown key {key!r}; {needed!r} and 'confidence' are "
                f"for {measure!r}"
            )
        if needed and not 0 < self.least < 1:
            raise BadProject(
                f"[quality] at: {needed} is {self.least:g}; it must be between 0 and 1"
            )
        if needed and not self.sure < 1:
            raise BadProject("[quality] at: confidence is 1; it must be below 1")
        if self.positive is not None and measure not in OF_POSITIVE:
            raise BadProject(
                f"[quality] positive is for a measure of {listed([*OF_POSITIVE])}"
            )
        if self.beta != 1.0 and measure != "f_beta":
            raise BadProject("[quality] beta is for measure = 'f_beta'")

    def measure_of(self, task: Task) -> str:
        """Return the name of the metric; by default it depends on the task."""
        if self.measure is None:
            return "accuracy" if task == "classes" else "r2"
        if (self.measure in OF_NUMBERS) != (task == "regression"):
            labels, known = "classes", "'accuracy' and others"
            if task == "regression":
                labels, known = "numbers", "'r2' and 'mae'"
            raise BadProject(
                f"[quality] measure is {self.measure!r}, and the labels are {labels}, "
                f"for which there are {known}"
            )
        return self.measure

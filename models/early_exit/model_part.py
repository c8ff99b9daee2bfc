"""The first base models of an ensemble, as a model by themselves."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..scoring.model import Floats, Rows
from ..scoring.stored_arrays import Stored
from .early_exits import EarlyExit, MarginExit


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelPart:
    """A model that answers with the first `count` base models of an evaluator.

    The base models are in the order of the evaluator's schedule. Rows may stop even
    earlier, as the schedule says. Immutable; safe to share between threads.
    """

    kind: ClassVar[str] = "part"
    evaluator: EarlyExit | MarginExit  # Must be able to evaluate parts
    count: int  # Number of base models, above 0 and less than all

    def __repr__(self) -> str:
        return f"ModelPart({self.count} of {self.evaluator!r})"

    @property
    def classes(self) -> NDArray[Any]:
        """Labels (K,) of the whole model."""
        return self.evaluator.classifier.classes

    @property
    def columns(self) -> NDArray[np.int32]:
        """Positions (d,) of the whole model's inputs in the full row."""
        return self.evaluator.classifier.columns

    def choose(self, row: Rows) -> int:
        """Return the position in `classes` of one full row's class."""
        return self.evaluator.answer_first(row, self.count).code

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """Return a full row's class, as a position in `classes`, and class scores.

        The class scores are calibrated as those of early answers are.
        """
        found = self.evaluator.answer_first(row, self.count)
        assert found.scores is not None
        return found.code, found.scores

    def predict_scores(self, X: Rows) -> Floats:
        """Return the class scores (N, K) of full rows X (N, width)."""
        return self.evaluator.first_answers(X, self.count)[1]

    def predict(self, X: Rows) -> NDArray[Any]:
        """Return the labels (N,) of full rows X (N, width)."""
        return self.classes[self.evaluator.first_answers(X, self.count)[0]]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the array from which `load` makes this part of an evaluator again."""
        return {"base_models": np.array([self.count])}

    @classmethod
    def load(cls, stored: Stored, evaluator: EarlyExit | MarginExit | None) -> Self:
        """Load a part of an evaluator; raise BadModel if the evaluator has no parts."""
        (count,) = stored.array("base_models", np.int64, (1,)).tolist()
        size = 0 if evaluator is None else evaluator.size
        if evaluator is None or evaluator.lines is None or not 0 < count < size:
            raise BadModel(f"{count} of {size} base models are no part of a model")
        return cls(evaluator, count)

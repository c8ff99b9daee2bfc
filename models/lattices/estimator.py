"""A scikit-learn classifier that is an ensemble of lattices."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..scoring.classifier import Head
from ..scoring.kernels.link import LARGEST, LOGISTIC, POSITIVE, SOFTMAX
from ..scoring.model import Floats
from ..scoring.preparation import plain
from .inputs import flatten_dull, join_inputs, keypoints, pairs_tested
from .lattices import MOST_INPUTS, Lattices, make_lattices
from .training import Descent, train_lattices

MOST_ROWS = 10_000  # rows for fitting the small boosted trees that choose inputs


class LatticeEnsembleClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A sum of small interpolated look-up tables, the base models of the QWYC paper.

    Each lattice reads a few columns that interact: small boosted trees often test them
    together (Canini et al. 2016 measure interaction differently). Each input goes
    through a calibrator, a piecewise-linear function that is learned with the lattice.
    Missing values are allowed. `compile` makes an `Ensemble` of the lattices, which can
    stop early. `Lattices` describes the evaluation.

    Parameters
    ----------
    n_lattices
        Number T of lattices, at least 1.
    inputs_per_lattice
        Number S of inputs, 1..10; a lattice has 2^S vertices. If there are fewer
        columns, lattices have an input for each column.
    keypoints
        Number of keypoints of each calibrator, 2..1000, spaced by quantiles.
    training
        "joint": the sum of all lattices is trained. "independent": each lattice is
        trained by itself, then their sum is scaled to fit.
    interpolation
        "multilinear": between all 2^S vertices of a lattice. "simplex": between S + 1
        of its vertices, which is several times as fast to train and to evaluate. The
        score then has kinks where two inputs are equal.
    monotonic
        Map from columns to signs: +1 if the score of the second class must never fall
        as the column rises, -1 if it must never rise. The guarantee is exact to the
        last bit, but excludes missing values. Two classes only.
    l2, laplacian
        Weights >= 0 of two penalties, which are added to the total loss of the training
        set: the sum of squared vertices, and the sum of squared differences between
        neighbouring vertices.
    epochs, learning_rate
        Number of passes over the rows, and the initial learning rate of Adam.
    random_state
        Seed of the choice of columns and of the order of the rows.

    Attributes
    ----------
    classes_ : (K,)
        Labels, ascending.
    lattices_ : Lattices
        The learned lattices.
    n_features_in_ : int
        Number of columns in `fit`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_lattices": [Interval(Integral, 1, 2**20, closed="both")],
        "inputs_per_lattice": [Interval(Integral, 1, MOST_INPUTS, closed="both")],
        "keypoints": [Interval(Integral, 2, 1000, closed="both")],
        "training": [StrOptions({"joint", "independent"})],
        "interpolation": [StrOptions({"multilinear", "simplex"})],
        "monotonic": [Mapping, None],
        "l2": [Interval(Real, 0, None, closed="left")],
        "laplacian": [Interval(Real, 0, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_lattices: int = 50,
        inputs_per_lattice: int = 4,
        *,
        keypoints: int = 20,
        training: Literal["joint", "independent"] = "joint",
        interpolation: Literal["multilinear", "simplex"] = "multilinear",
        monotonic: Mapping[int, int] | None = None,
        l2: float = 1.0,
        laplacian: float = 1.0,
        epochs: int = 10,
        learning_rate: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.n_lattices = n_lattices
        self.inputs_per_lattice = inputs_per_lattice
        self.keypoints = keypoints
        self.training = training
        self.interpolation = interpolation
        self.monotonic = monotonic
        self.l2 = l2
        self.laplacian = laplacian
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "LatticeEnsembleClassifier":
        """Choose the columns of each lattice, then learn calibrators and vertices.

        Parameters
        ----------
        X
            (N, d) numbers, NaN where a value is missing.
        y
            (N,) labels of two classes or more.

        Raises
        ------
        ValueError
            If a parameter, the rows or the labels cannot be used.
        """
        self._validate_params()
        X, y = validate_data(
            self, X, y, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        K, d = len(self.classes_), X.shape[1]
        if K < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes in the "
                f"data, but the data contains only one class: {self.classes_[0]!r}"
            )
        signs = self._signs(d)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        rng = np.random.default_rng(seed)
        knots = np.stack([keypoints(column, self.keypoints) for column in X.T])
        shape = (self.n_lattices, min(self.inputs_per_lattice, d))
        if d == shape[1]:
            inputs = np.stack([rng.permutation(d) for _ in range(self.n_lattices)])
            inputs = inputs.astype(np.int32)
        else:
            inputs = join_inputs(_together(X, codes, seed), shape, rng)
        simplex = self.interpolation == "simplex"
        descent = Descent(
            self.training == "joint",
            simplex,
            self.epochs,
            self.learning_rate,
            self.l2,
            self.laplacian,
        )
        learned = train_lattices(X, codes, knots, inputs, signs, descent, rng)
        flatten_dull(learned.calibrations, X, knots, inputs)
        self.lattices_: Lattices = make_lattices(
            plain(np.arange(d)), knots, inputs, *learned, simplex
        )
        return self

    def _signs(self, d: int) -> NDArray[np.int64]:
        signs = np.zeros(d, np.int64)
        for column, sign in (self.monotonic or {}).items():
            if column not in range(d):
                raise ValueError(
                    f"monotonic: column {column!r} is not one of the {d} from 0 on"
                )
            if sign not in (-1, 0, 1):
                raise ValueError(
                    f"monotonic: column {column} has {sign!r}; it must be +1 or -1"
                )
            signs[column] = sign
        if signs.any() and len(self.classes_) > 2:
            raise ValueError(
                f"monotonic is for two classes; the data has {len(self.classes_)}"
            )
        return signs

    def head(self) -> Head:
        """Return the head, which turns raw scores into class scores and choices."""
        binary = len(self.classes_) == 2
        link, rule = (LOGISTIC, POSITIVE) if binary else (SOFTMAX, LARGEST)
        return Head(self.classes_, link, rule, self.lattices_.outputs)

    def _raw(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        return self.lattices_.raw(X)

    def decision_function(self, X: Any) -> Floats:
        """Compute raw scores of rows X (N, d): (N,) for two classes, else (N, K)."""
        raw = self._raw(X)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict_proba(self, X: Any) -> Floats:
        """Compute the class probabilities (N, K) of rows X (N, d)."""
        raw = self._raw(X)
        return self.head().scores(raw)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the labels (N,) of rows X (N, d)."""
        raw = self._raw(X)
        labels: NDArray[Any] = self.classes_[self.head().choose(raw)]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _together(X: Floats, codes: NDArray[np.int64], seed: int) -> Floats:
    """Count how often small boosted trees test two columns on one path: (d, d)."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    few = X[rows]
    few[:, np.isnan(few).all(axis=0)] = 0.0  # scikit-learn cannot bin empty columns
    trees = HistGradientBoostingClassifier(
        max_iter=50,
        max_depth=4,
        learning_rate=0.2,
        early_stopping=False,
        random_state=seed,
    )
    trees.fit(few, codes[rows])
    predictors = [tree for round_ in trees._predictors for tree in round_]
    return pairs_tested((tree.nodes for tree in predictors), X.shape[1])

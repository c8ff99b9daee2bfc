"""What a person with data would write instead: a few lines of scikit-learn or LightGBM.

Each is fitted on labelled items, its parameters chosen by cross-validation in three
parts, and answers one raw item at a time: a text, an encoded image, or a record.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from .default_sets import Items

FOLDS = 3
CELLS = 7  # of a histogram of gradients, each way, as many pixels as an image has
SIDES = (16, 128)  # to which images are resized, at least and at most

Floats = NDArray[np.float64]
Answer = Callable[[Any], str]
Fit = Callable[[Items, int, bool], Answer]  # of items, a seed, and whether in short


def _chosen(model: Any, grid: Mapping[str, list[Any]], seed: int, short: bool) -> Any:
    """Let cross-validation choose parameters; in short there is one of each."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    if short:
        grid = {name: values[:1] for name, values in grid.items()}
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    return GridSearchCV(model, grid, cv=folds, scoring="accuracy")


def _text(parts: Sequence[Mapping[str, Any]]) -> Fit:
    """TF-IDF of such terms as come in two texts, and logistic regression."""

    def fit(items: Items, seed: int, short: bool) -> Answer:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_union

        terms: dict[str, Any] = {"sublinear_tf": True, "min_df": 2}
        vectors = make_union(*(TfidfVectorizer(**terms, **part) for part in parts))
        logistic = LogisticRegression(max_iter=1000)
        model = _chosen(logistic, {"C": [10.0, 1.0, 100.0, 1000.0]}, seed, short)
        model.fit(
            vectors.fit_transform([text for text, _ in items]),
            [label for _, label in items],
        )
        best = model.best_estimator_
        return lambda text: str(best.predict(vectors.transform([text]))[0])

    return fit


class _Cells:
    """Makes numbers of a record's cells: categories in the order of their names."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.codes: dict[str, dict[str, int] | None] = {}
        for name in records[0]:
            found = {str(record[name]) for record in records}
            numbers = all(map(_is_number, found))
            known = {word: k for k, word in enumerate(sorted(found))}
            self.codes[name] = None if numbers else known

    @property
    def categories(self) -> list[int]:
        """Numbers of the columns that hold categories."""
        return [j for j, codes in enumerate(self.codes.values()) if codes is not None]

    def row(self, record: Mapping[str, Any]) -> list[float]:
        """Numbers of one record; NaN for a category that is new."""
        return [
            float(record[name])
            if codes is None
            else codes.get(str(record[name]), np.nan)
            for name, codes in self.codes.items()
        ]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _lightgbm(categories: list[int], seed: int) -> tuple[Any, dict[str, Any], str]:
    from lightgbm import LGBMClassifier

    usual: dict[str, Any] = {"n_jobs": 1, "verbosity": -1, "random_state": seed}
    return LGBMClassifier(**usual), {"categorical_feature": categories}, "n_estimators"


def _hist_boosting(categories: list[int], seed: int) -> tuple[Any, dict[str, Any], str]:
    model = HistGradientBoostingClassifier(
        categorical_features=categories or None,
        early_stopping=False,
        random_state=seed,
    )
    return model, {}, "max_iter"


def _table(make: Callable[[list[int], int], tuple[Any, dict[str, Any], str]]) -> Fit:
    """Boosted trees; learning rate, leaves and iterations by cross-validation."""

    def fit(items: Items, seed: int, short: bool) -> Answer:
        cells = _Cells([record for record, _ in items])
        leaves = "num_leaves" if make is _lightgbm else "max_leaf_nodes"
        model, how, rounds = make(cells.categories, seed)
        X = np.array([cells.row(record) for record, _ in items])
        grid: dict[str, list[Any]] = {
            leaves: [31, 7, 63],
            "learning_rate": [0.1, 0.03],
            rounds: [100, 300],
        }
        found = _chosen(model, grid, seed, short)
        best = found.fit(X, [label for _, label in items], **how).best_estimator_
        return lambda record: str(best.predict(np.array([cells.row(record)]))[0])

    return fit


def _svm(seed: int) -> tuple[Any, dict[str, list[Any]]]:
    from sklearn.svm import SVC

    return SVC(random_state=seed), {"C": [10.0, 1.0, 100.0]}


def _linear_svm(seed: int) -> tuple[Any, dict[str, list[Any]]]:
    from sklearn.svm import LinearSVC

    return LinearSVC(random_state=seed), {"C": [0.1, 0.01, 1.0]}


def _forest(seed: int) -> tuple[Any, dict[str, list[Any]]]:
    return RandomForestClassifier(random_state=seed), {"n_estimators": [30, 300]}


def _image(make: Callable[[int], tuple[Any, dict[str, list[Any]]]]) -> Fit:
    """scikit-image's histogram of oriented gradients, and a classifier."""

    def fit(items: Items, seed: int, short: bool) -> Answer:
        shorter = [min(Image.open(io.BytesIO(data)).size) for data, _ in items]
        side = int(np.clip(np.median(shorter), *SIDES))
        X = np.array([_gradients(data, side) for data, _ in items])
        found = _chosen(*make(seed), seed, short)
        best = found.fit(X, [label for _, label in items]).best_estimator_
        return lambda data: str(best.predict([_gradients(data, side)])[0])

    return fit


def _gradients(data: bytes, side: int) -> Floats:
    from skimage.feature import hog

    with Image.open(io.BytesIO(data)) as image:
        grey = image.convert("L")
    if grey.size != (side, side):
        grey = grey.resize((side, side), Image.Resampling.BILINEAR)
    cell = (side // CELLS, side // CELLS)
    found: Floats = hog(np.asarray(grey), 9, cell, (2, 2))
    return found


WORDS = {"ngram_range": (1, 2)}
CHARACTERS = {"analyzer": "char_wb", "ngram_range": (2, 5)}

BASELINES: dict[str, dict[str, Fit]] = {
    "texts": {
        "words, logistic": _text([WORDS]),
        "characters, logistic": _text([CHARACTERS]),
        "both, logistic": _text([WORDS, CHARACTERS]),
    },
    "tables": {
        "LightGBM": _table(_lightgbm),
        "HistGradientBoosting": _table(_hist_boosting),
    },
    "images": {
        "HOG, RBF SVM": _image(_svm),
        "HOG, linear SVM": _image(_linear_svm),
        "HOG, forest": _image(_forest),
    },
}

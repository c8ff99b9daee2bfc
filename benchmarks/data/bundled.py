"""Tables that scikit-learn carries: what benchmarks read when they are to be quick."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from .tables import Codes, Rows, Split, split


def load_tumours() -> Split:
    """569 tumours, 30 columns, benign or not, 70/30."""
    X, y = load_breast_cancer(return_X_y=True)
    return split(X, y == 1)


def load_digit_rows() -> tuple[Rows, Codes]:
    """1,797 digits of 8 x 8 pixels, 10 classes."""
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y.astype(np.int64)

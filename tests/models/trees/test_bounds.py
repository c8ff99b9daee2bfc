"""Kernels of trees keep within their arrays."""

import os
import subprocess
import sys

import pytest

from tests.support.places import ROOT

CHECKED = """
import numpy as np
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.kernels.link import LOGISTIC, POSITIVE
from polydom.models.trees.many_rows import FEWEST_BESIDE_VECTORS
from tests.support.models.drawn_trees import drawn_trees, narrowing, rows_of

for scores in (1, 3):
    trees = drawn_trees(scores, cuts=400, scores=scores, terms=scores)
    X = np.tile(rows_of(trees), (2, 1))
    assert len(X) > FEWEST_BESIDE_VECTORS
    walked = trees.base_scores(X).sum(axis=1) + trees.bias
    np.testing.assert_allclose(trees.raw(X), walked)
    np.testing.assert_array_equal(trees.raw(X[:5]), trees.raw(X)[:5])
    if scores == 1:
        classifier = Classifier(trees, Head(np.array([0, 1]), LOGISTIC, POSITIVE, 1))
        ensemble = as_ensemble(classifier)
        exits = ensemble.early_exit(narrowing(ensemble))
        assert exits.choices(X)[0].tolist() == [exits.choose(row) for row in X]
"""


@pytest.mark.jit
def test_kernels_that_check_every_index_find_nothing() -> None:
    checks = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    subprocess.run([sys.executable, "-c", CHECKED], cwd=ROOT, env=checks, check=True)

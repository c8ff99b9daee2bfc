"""Learners, and their models as flat arrays with compiled evaluators."""

from .early_exit.bounds import bound_remaining
from .early_exit.ensemble import compile_ensemble
from .early_exit.regressor import Regressor, compile_regressor
from .importers.classifiers import compile_model
from .load import load_model
from .scoring.model import Model
from .scoring.prior import Prior
from .selection.learners import make_learner
from .selection.select import Running, Selection, select, select_by_iterations

__all__ = [
    "Model",
    "Prior",
    "Regressor",
    "Running",
    "Selection",
    "bound_remaining",
    "compile_ensemble",
    "compile_model",
    "compile_regressor",
    "load_model",
    "make_learner",
    "select",
    "select_by_iterations",
]

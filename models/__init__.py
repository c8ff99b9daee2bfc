"""Learners, and their models as flat arrays with compiled evaluators."""

from .compile import compile_ensemble, compile_model
from .learners import make_learner
from .load import load_model
from .model import Model
from .prior import Prior
from .select import Selection, select

__all__ = [
    "Model",
    "Prior",
    "Selection",
    "compile_ensemble",
    "compile_model",
    "load_model",
    "make_learner",
    "select",
]

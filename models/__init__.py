"""Learners, and their models as flat arrays with compiled evaluators."""

from .compile import compile_ensemble, compile_model
from .learners import make_learner
from .load import load_model
from .model import Model
from .prior import Prior

__all__ = [
    "Model",
    "Prior",
    "compile_ensemble",
    "compile_model",
    "load_model",
    "make_learner",
]

"""Fitted models as flat arrays with compiled evaluators, early exits, and learners.

What is offered is imported when it is first asked for, so that `import polydom.models`
is light and what evaluates models does not wait for what trains them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .early_exit.compile import compile
    from .early_exit.early_exit_classifier import EarlyExitClassifier
    from .early_exit.ensemble import Ensemble
    from .early_exit.exact_schedule import exact_schedule
    from .early_exit.fitting_rows import swap_columns
    from .early_exit.stored_schedule import load_early_exit
    from .lattices.estimator import LatticeEnsembleClassifier
    from .qwyc.base_model_costs import cut_stages
    from .qwyc.fit_schedule import fit_margin_schedule, fit_schedule
    from .qwyc.schedule import MarginSchedule, Schedule
    from .scoring.classifier import Classifier
    from .scoring.regressor import Regressor
    from .selection.learners import make_learner
    from .selection.select import Running, Selection, select, select_by_iterations

__all__ = [
    "Classifier",
    "EarlyExitClassifier",
    "Ensemble",
    "LatticeEnsembleClassifier",
    "MarginSchedule",
    "Regressor",
    "Running",
    "Schedule",
    "Selection",
    "compile",
    "cut_stages",
    "exact_schedule",
    "fit_margin_schedule",
    "fit_schedule",
    "load_early_exit",
    "make_learner",
    "select",
    "select_by_iterations",
    "swap_columns",
]

_LAZY = {
    "Classifier": ".scoring.classifier",
    "EarlyExitClassifier": ".early_exit.early_exit_classifier",
    "Ensemble": ".early_exit.ensemble",
    "LatticeEnsembleClassifier": ".lattices.estimator",
    "MarginSchedule": ".qwyc.schedule",
    "Regressor": ".scoring.regressor",
    "Running": ".selection.select",
    "Schedule": ".qwyc.schedule",
    "Selection": ".selection.select",
    "compile": ".early_exit.compile",
    "cut_stages": ".qwyc.base_model_costs",
    "exact_schedule": ".early_exit.exact_schedule",
    "fit_margin_schedule": ".qwyc.fit_schedule",
    "fit_schedule": ".qwyc.fit_schedule",
    "load_early_exit": ".early_exit.stored_schedule",
    "make_learner": ".selection.learners",
    "select": ".selection.select",
    "select_by_iterations": ".selection.select",
    "swap_columns": ".early_exit.fitting_rows",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

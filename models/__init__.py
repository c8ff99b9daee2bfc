"""Fitted models as flat arrays with compiled evaluators, early exits, and learners.

A name is imported only at its first use. So `import polydom.models` is light, and a
server that evaluates models does not import the code that trains models.
"""

from typing import TYPE_CHECKING

from polydom.lazy import offer

if TYPE_CHECKING:
    from .early_exit.compile import compile as compile
    from .early_exit.early_exit_classifier import (
        EarlyExitClassifier as EarlyExitClassifier,
    )
    from .early_exit.ensemble import Ensemble as Ensemble
    from .early_exit.exact_schedule import exact_schedule as exact_schedule
    from .early_exit.fitting_rows import swap_columns as swap_columns
    from .early_exit.stored_schedule import load_early_exit as load_early_exit
    from .lattices.estimator import (
        LatticeEnsembleClassifier as LatticeEnsembleClassifier,
    )
    from .qwyc.base_model_costs import cut_stages as cut_stages
    from .qwyc.fit_schedule import fit_margin_schedule as fit_margin_schedule
    from .qwyc.fit_schedule import fit_schedule as fit_schedule
    from .qwyc.schedule import MarginSchedule as MarginSchedule
    from .qwyc.schedule import Schedule as Schedule
    from .scoring.classifier import Classifier as Classifier
    from .scoring.regressor import Regressor as Regressor
    from .selection.learners import make_learner as make_learner
    from .selection.select import Running as Running
    from .selection.select import Selection as Selection
    from .selection.select import select as select
    from .selection.select import select_by_iterations as select_by_iterations

__all__, __getattr__, __dir__ = offer(
    __name__,
    {
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
    },
)

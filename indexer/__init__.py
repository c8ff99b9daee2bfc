"""Build an index offline: a file with models, their costs, and a look-up structure.

Python imports a public name at its first use, so that a command that only prints its
help does not wait for compilers and learners.
"""

from typing import TYPE_CHECKING

from polydom.lazy import offer

if TYPE_CHECKING:
    from .building.build import build as build
    from .building.costs.measure_project import measure_project as measure_project
    from .building.project import Project as Project
    from .estimators.classifier import BudgetClassifier as BudgetClassifier
    from .estimators.regressor import BudgetRegressor as BudgetRegressor
    from .index.index import Candidate as Candidate
    from .index.index import Index as Index
    from .set_search.poly_dom import search as search

__all__, __getattr__, __dir__ = offer(
    __name__,
    {
        "BudgetClassifier": ".estimators.classifier",
        "BudgetRegressor": ".estimators.regressor",
        "Candidate": ".index.index",
        "Index": ".index.index",
        "Project": ".building.project",
        "build": ".building.build",
        "measure_project": ".building.costs.measure_project",
        "search": ".set_search.poly_dom",
    },
)

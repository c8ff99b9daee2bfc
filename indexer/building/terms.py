"""The settings of a project that depend on its items."""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from polydom.features.errors import BadProject
from polydom.models.qwyc.promise import ALPHA
from polydom.models.selection.arms import weighing
from polydom.models.selection.learners import CLASSIFIERS, REGRESSORS, make_learner
from polydom.models.selection.settings_space import space_of

from ..index.quality import Task
from .data.dataset import Dataset
from .data.split import draw_groups, rare_classes
from .exits.exit_goal import ExitGoal
from .project import Project
from .project_tables.exits import CONFIDENCE
from .project_tables.learner import AUTO
from .project_tables.quality import Measure
from .project_tables.search import FOLDS

OF_RARE: Measure = "average_precision"  # default if one of two classes is rare
RARE = 0.1  # share of the items below which a class is rare
STRATEGY = "knockout"  # strategy of the race for `learner = "auto"`


@dataclass(frozen=True, slots=True)
class Terms:
    """A project whose settings are complete, after its items have been read."""

    # The project, without exits for numbers, with cross-validation for few items
    project: Project
    task: Task  # Kind of the labels
    # Strategy of the race between learners; None if the project names a learner
    strategy: str | None = None
    # Reason why items are too few to promise the wanted exits; else ""
    lacking: str = ""
    # What is said of classes that are so rare that accuracy does not suit them; else ""
    rare: str = ""


def strategy_of(project: Project) -> str | None:
    """Return the strategy of the learner race; None if the project names a learner."""
    return STRATEGY if project.learner["name"] == AUTO else None


def asks_weights(project: Project) -> bool:
    """Return True if the project's learner must accept sample weights."""
    asked = project.quality.class_weights not in (None, "equal")
    return asked or project.data.weight is not None


def check_learner(project: Project) -> None:
    """Raise BadProject if the learner lacks a method that the project's settings need.

    Settings may need a learner that accepts sample weights or predicts probabilities.
    """
    learner, quality = _make_either(project), project.quality
    if project.tune_s is not None:
        space_of(project.setting)
    if asks_weights(project):
        weighing(learner, np.empty(0))
    if quality.measure == "log_loss" and not hasattr(learner, "predict_proba"):
        raise BadProject(
            f"[quality] measure = 'log_loss' needs probabilities, and learner "
            f"{project.learner['name']!r} gives none"
        )


def _make_either(project: Project) -> Any:
    """Make the project's learner before the kind of the labels is known.

    It is a classifier if the project and the learner allow one, otherwise a regressor.
    """
    tasks: list[Task] = ["classes", "regression"]
    if project.wanted is not None:
        return make_learner(project.setting, project.seed, project.wanted)
    errors = []
    for task in tasks:
        try:
            return make_learner(project.setting, project.seed, task)
        except BadProject as error:
            errors.append(error)
    raise errors[project.learner["name"] in REGRESSORS.keys() - CLASSIFIERS.keys()]


def resolve_terms(project: Project, dataset: Dataset, strategy: str | None) -> Terms:
    """Fill in the settings of a project that depend on its items.

    Raises BadProject for settings that do not suit the items.
    """
    task: Task = "classes" if dataset.numbers is None else "regression"
    if task == "regression":
        project = project.of_numbers()
    project.quality.measure_of(task)
    rare = _rare_words(project, dataset)
    if rare and project.quality.measure is None and len(dataset.labels) == 2:
        own = msgspec.structs.replace(project.quality, measure=OF_RARE)
        project = msgspec.structs.replace(project, quality=own)
    if strategy is None:
        make_learner(project.setting, project.seed, task)
    few = _few_items(project, dataset)
    if not few:
        return Terms(project, task, strategy, rare=rare)
    aside = project.exit_goal is not None and project.data.unlabelled is None
    lacking = few if aside else ""
    return Terms(project.in_folds(), task, strategy, lacking, rare)


def _rare_words(project: Project, dataset: Dataset) -> str:
    """Say which class is too rare for accuracy; "" if none is, or it is not measured.

    A class is too rare if it has less than a tenth of the items or, of more than two
    classes, less than a tenth of an equal share.
    """
    measure, labels = project.quality.measure, dataset.labels
    if measure not in (None, "accuracy") or len(labels) < 2:
        return ""
    counts = np.bincount(dataset.codes, dataset.weights, len(labels))
    shares, count = counts / counts.sum(), len(labels)
    rarest = int(shares.argmin())
    if not shares[rarest] < (RARE if count == 2 else RARE / count):
        return ""
    words = f"only {shares[rarest]:.1%} of the items are {labels[rarest]!r}: "
    most = labels[int(shares.argmax())]
    if count == 2 and measure is None:
        return (
            f"{words}always answering {most!r} has the accuracy {shares.max():.1%}, so "
            "the quality is average precision, how well scores find the rare class; "
            "[quality] measure names another, such as "
            "'balanced_accuracy', or 'precision_at' for a threshold"
        )
    return (
        f"{words}accuracy hardly counts them; [quality] measure = "
        "'average_precision', 'balanced_accuracy' or 'macro_f1' does"
    )


def _few_items(project: Project, dataset: Dataset) -> str:
    """Return why to use cross-validation; "" if the build holds out items instead.

    The reason is that held-out items would be too few to guarantee early exits. Where a
    threshold of the measure decides, the items of the rarer class must be enough: they
    also show how much the threshold finds.
    """
    rare, most = rare_classes(dataset, FOLDS), 0
    if project.trains_rare:
        most = len(dataset.labels) - 1
    enough = len(np.unique(dataset.groups)) >= FOLDS and len(rare) <= most
    if not (project.divides_as_fits and enough):
        return ""
    share = 1 / (2 * project.search.parts)
    aside = draw_groups(dataset.groups, share, project.seed)
    groups, label = dataset.groups[aside], "any"
    if project.quality.cuts and len(dataset.labels) == 2:
        codes = dataset.codes[aside]
        rarer = int(np.bincount(codes, minlength=2).argmin())
        groups, label = groups[codes == rarer], dataset.labels[rarer]
    alike = np.zeros(len(groups), np.int64)  # as if all items had the same class
    return ExitGoal(ALPHA, CONFIDENCE).lacking(groups, alike, [label, "other"])

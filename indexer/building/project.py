"""PROJECT.toml: a whole project, read and checked."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
from msgspec import UNSET, Meta

from polydom.features.errors import BadProject
from polydom.features.wording import describe_decode_error
from polydom.models.qwyc.promise import ALPHA

from ..index.quality import OF_NUMBERS, Task
from .exits.exit_goal import ExitGoal
from .project_tables.cluster import Cluster
from .project_tables.costs import Costs
from .project_tables.data import Data
from .project_tables.exits import CONFIDENCE, ExitTerms
from .project_tables.features import Features
from .project_tables.fetches import FetchTerms, check_fetches
from .project_tables.learner import AUTO, check_learner
from .project_tables.numbers import Positive
from .project_tables.quality import WITHOUT_EXITS, Quality
from .project_tables.search import FOLDS, Search, refuse_unused
from .project_tables.unknown_keys import refuse_unknown


class Project(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole PROJECT.toml, checked.

    Attributes
    ----------
    task
        Kind of the answers: "classes" for one of a few classes, or "regression" for
        numbers. By default the labels decide: it is "regression" if they are numbers
        with more than 20 distinct values, and a value is a fraction or rare.
    seed
        Seed of all random draws: the same seed, data and times give the same file.
    workers
        Number of processes for computing features and training; by default one for each
        core.
    data
        The source of the labelled items.
    features
        The features to choose from.
    fetches
        Calls that bring columns of a record while a request waits, by name.
    learner
        The learner of all models: its name and the estimator's parameters. The default
        "auto" compares all learners. `tune_s` is the number of seconds to tune the
        parameters that are not given; it counts as `[search] budget_s` does.
    quality
        The metric of a model's answers.
    search
        The feature sets to train, and the items to measure their quality on.
    costs
        The parts of a plan's cost, and how they are measured.
    exits
        Early answers of plans.
    cluster
        Processes that carry out the calls of a build.
    folder
        Folder that relative paths start from: that of the project file, if any.
    """

    task: Task | None = None
    data: Data = Data()
    features: Features = Features()
    fetches: dict[str, FetchTerms] = {}
    learner: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": AUTO})
    quality: Quality = Quality()
    search: Search = Search()
    costs: Costs = Costs()
    exits: ExitTerms = ExitTerms()
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    workers: Positive | None = None
    cluster: Cluster = Cluster()
    folder: str = "."

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read and check the project file at `path`.

        Raises
        ------
        BadProject
            If the file cannot be read, a key is unknown (the message has the nearest
            known key), or a value is outside its range.
        """
        place = os.fspath(path)
        try:
            with open(path, "rb") as file:
                content = tomllib.load(file)
            project = cls.from_mapping(content, folder=Path(path).resolve().parent)
            project.data.check_source()
            return project
        except OSError as error:
            cure = "; a project file is needed: `polydom init` writes one"
            raise BadProject(f"{place}: {error.strerror}{cure}") from error
        except UnicodeDecodeError as error:
            said = describe_decode_error(error)
            raise BadProject(f"{place}: {said}; a project file is needed") from error
        except tomllib.TOMLDecodeError as error:
            raise BadProject(f"{place}: no valid TOML: {error}") from error
        except BadProject as error:
            raise BadProject(f"{place}: {error}") from error

    @classmethod
    def from_mapping(
        cls, content: Mapping[str, Any], *, folder: str | os.PathLike[str] = "."
    ) -> Self:
        """Make a project from the content of a PROJECT.toml, given as a mapping.

        Raises BadProject as `load` does.
        """
        refuse_unknown(content, cls, "")
        if isinstance(content.get("learner"), str):
            content = {**content, "learner": {"name": content["learner"]}}
        if content.get("exits") == "off":
            content = {**content, "exits": {"alpha": None}}
        try:
            project = msgspec.convert(
                {**content, "folder": os.fspath(folder)}, cls, strict=True
            )
        except msgspec.ValidationError as error:
            said = describe_decode_error(error, cls).replace("object", "table")
            raise BadProject(said) from error
        project._check()
        refuse_unused(content.get("search", {}), project.search.method)
        return project

    def path(self, name: str) -> Path:
        """Return the path of the file or folder `name` in the project's folder."""
        return Path(self.folder, name)

    @property
    def wanted(self) -> Task | None:
        """Task that the project's keys name or imply; None if the labels decide."""
        quality, data = self.quality, self.data
        if self.task is not None:
            return self.task
        if quality.measure in OF_NUMBERS:
            return "regression"
        of_classes = quality.measure is not None or quality.class_weights is not None
        return "classes" if of_classes or data.treats_rare else None

    @property
    def feature_files(self) -> list[Path]:
        """Files that define the user's own features."""
        return [self.path(name) for name in self.features.files]

    @property
    def data_places(self) -> list[Path]:
        """Files and folders from which workers read items when they are accessed."""
        data = self.data
        tests = data.test if data.labels is None else None
        names = data.images or data.texts, tests, data.unlabelled
        if data.table is not None or data.items is not None:
            return []
        return [self.path(name) for name in names if name is not None]

    @property
    def setting(self) -> dict[str, Any]:
        """The learner's name and parameters, without `tune_s`."""
        return {key: value for key, value in self.learner.items() if key != "tune_s"}

    @property
    def tune_s(self) -> float | None:
        """Seconds to tune the learner's settings; None to leave them as they are."""
        return float(self.learner["tune_s"]) if "tune_s" in self.learner else None

    @property
    def training_limit_s(self) -> float | None:
        """Maximum seconds of one training in a race of learners; None without limit."""
        limited = self.learner["name"] == AUTO and "limit_s" in self.learner
        return float(self.learner["limit_s"]) if limited else None

    @property
    def exit_goal(self) -> ExitGoal | None:
        """The goal of early exits; None if plans get no exits.

        Exits keep the class of an answer but not its scores. So by default there are no
        exits if the metric depends on scores.
        """
        alpha, confidence = self.exits.alpha, self.exits.confidence
        folds = self._calibrates_none
        unasked = folds or self.quality.measure in WITHOUT_EXITS
        if alpha is None or (alpha is UNSET and unasked):
            return None
        if alpha is UNSET:
            alpha = ALPHA
        if confidence is UNSET:
            confidence = 0.0 if folds else CONFIDENCE
        return ExitGoal(alpha, confidence or None, self.exits.sides)

    @property
    def _calibrates_none(self) -> bool:
        """True if folds use all items, so that none are left to calibrate exits on."""
        return self.search.folds is not None and self.data.unlabelled is None

    def of_numbers(self) -> Self:
        """Return this project for regression, without early exits.

        Raises BadProject for keys that are only for classes.
        """
        alpha = self.exits.alpha
        if alpha is not UNSET and alpha is not None:
            raise BadProject(
                "exits.alpha is the share of classes that may change; the labels are "
                "numbers, for which there are no exits"
            )
        if self.data.unlabelled is not None:
            raise BadProject(
                "[data] unlabelled is for early exits; the labels are numbers, for "
                "which there are no exits"
            )
        project = msgspec.structs.replace(
            self, task="regression", exits=ExitTerms(alpha=None)
        )
        project._check()
        return project

    @property
    def trains_rare(self) -> bool:
        """True if items of rare classes are trained on and never tested on."""
        return self.data.on_rare_class == "train"

    @property
    def refits(self) -> bool:
        """True if the models of the index are trained again on all items.

        Models are not trained again if the project names test items, or if early exits
        without a confidence are fitted on the held-out items.
        """
        if self.search.folds is not None:
            return True
        goal = self.exit_goal
        unseen = goal is not None and goal.confidence is None
        own = self.data.test is not None
        return self.search.refit and not (own or unseen)

    @property
    def divides_as_fits(self) -> bool:
        """True if the build may use cross-validation when the items are few."""
        search, exits = self.search, self.exits
        named = search.held_out is not None or search.folds is not None
        exiting = exits.confidence is not UNSET or isinstance(exits.alpha, float | dict)
        exiting = exiting and self.data.unlabelled is None
        # with folds, models are always trained again on all items
        return self.data.divided and search.refit and not (named or exiting)

    def in_folds(self) -> Self:
        """Return this project with cross-validation in five folds."""
        search = msgspec.structs.replace(self.search, folds=FOLDS)
        return msgspec.structs.replace(self, search=search)

    def _check(self) -> None:
        """Raise BadProject for values of the right type that are not valid."""
        self.data.check()
        self.features.check()
        fixed = "test" if self.data.test is not None else "split = 'time'"
        if not self.data.divided and self.search.folds is not None:
            raise BadProject(
                f"search.folds tests on all items in turn; [data] {fixed} says on which"
            )
        check_learner(self.learner)
        self.costs.check_size()
        self.search.check(self.costs.pair)
        self._check_exits()
        self._check_weights()
        check_fetches(
            self.fetches, self.features.columns, self.data, self.costs.weights
        )
        if self.wanted is not None:
            self.quality.measure_of(self.wanted)
        self.quality.check()
        if self.wanted == "regression" and self.quality.class_weights is not None:
            raise BadProject("[quality] class_weights is for classes, not for numbers")
        if self.wanted == "regression" and self.data.treats_rare:
            raise BadProject("[data] on_rare_class is for classes; labels are numbers")

    def _check_exits(self) -> None:
        confidence = self.exits.confidence
        if self._calibrates_none and confidence is not UNSET and confidence:
            raise BadProject(
                "exits.confidence is for held-out items, and search.folds holds out "
                "none; [data] unlabelled names items without labels for that"
            )
        goal = self.exit_goal
        if self.data.unlabelled is not None and goal is None:
            raise BadProject(
                "[data] unlabelled is for early exits, and there are none: exits are "
                "off, or quality.measure depends on scores, which exits do not keep "
                "unless exits.alpha is set"
            )
        if goal is not None and goal.confidence is not None and not goal.changes_any:
            raise BadProject(
                "exits.alpha is 0: that early answers change none of all is what no "
                "number of items can show; it must be above 0, or exits.confidence 0, "
                "and then nothing is promised"
            )

    def _check_weights(self) -> None:
        if not any(self.costs.weights.values()):
            raise BadProject("costs.weights counts nothing: one must be above 0")
        for group in self.features.columns:
            for unit in group.cost:
                if unit != "s" and unit not in self.costs.weights:
                    raise BadProject(
                        f"features.columns {group.name!r} costs {unit!r}, for which "
                        "costs.weights has no weight"
                    )

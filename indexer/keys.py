"""Names under which a build keeps what it has finished: all that it depends on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..models.portfolio import installed
from .cache import digest
from .data import Dataset
from .project import Project
from .stored import StoredFeature, resolve
from .versions import feature_versions, learner_versions


def feature_keys(
    features: Sequence[StoredFeature], files: Sequence[Path]
) -> tuple[str, ...]:
    """Identify each feature's code, and the libraries that it computes with."""
    found = resolve(features, files)
    return tuple(
        digest(stored.fingerprint, feature_versions(feature))
        for stored, feature in zip(features, found, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of a build's entries in the cache.

    Attributes
    ----------
    project
        Its settings.
    data
        Identifies the items, their labels and groups.
    features
        Identify the features; see `feature_keys`.
    """

    project: Project
    data: str
    features: tuple[str, ...]

    @classmethod
    def of(
        cls, project: Project, dataset: Dataset, features: Sequence[StoredFeature]
    ) -> Self:
        """Identify the items and features of a project."""
        files = [project.path(name) for name in project.features.files]
        return cls(project, dataset.digest(), feature_keys(features, files))

    @property
    def times(self) -> str:
        """Entry of the measured times of features and steps."""
        costs = self.project.costs
        key = digest(
            self.data,
            self.features,
            [costs.items, costs.repeats, costs.quantile, self.project.seed],
            *(["pair"] if costs.pair else []),
        )
        return f"times/{key}"

    def race(self, strategy: str) -> str:
        """Entry of a race's log."""
        settings = installed()
        versions = learner_versions(settings.values())
        limit_s = self.project.training_limit_s  # the log says who overran it
        limit = [] if limit_s is None else [limit_s]
        return f"races/{digest(self._split, strategy, settings, versions, *limit)}"

    def sets(self, learner: Mapping[str, Any]) -> str:
        """Identify what any set's model is, trained by a learner."""
        return digest(self._split, [learner], learner_versions([learner]))

    @property
    def _split(self) -> str:
        """Items, features and how they are divided: all that any training needs."""
        search = self.project.search
        return digest(
            self.data,
            self.features,
            [self.project.seed, search.held_out, search.folds, "dealt"],
        )

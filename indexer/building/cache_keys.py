"""Names of a build's entries in the cache, made of all that each entry depends on.

A name includes the versions of the libraries that computed the entry, and of no other
libraries. So machines that share a folder may differ in other libraries.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from polydom.features.libraries import versions
from polydom.models.selection.portfolio import installed

from ..index.quality import Task
from ..index.stored_features import StoredFeature
from .cache import digest
from .data.dataset import Dataset
from .project import Project


def library_versions(files: Iterable[Path] = ()) -> str:
    """Return a key of the versions of Python and of libraries.

    The key includes the libraries that the user's `files` import.
    """
    return digest(versions(files))


def feature_keys(
    features: Sequence[StoredFeature], files: Iterable[Path]
) -> tuple[str, ...]:
    """Return a key for each feature, made of its code and the libraries it uses.

    `files` are the Python files with the user's features.
    """
    ready_made, own = library_versions(), library_versions(files)
    return tuple(
        digest(one.fingerprint, ready_made if one.ready_made else own)
        for one in features
    )


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of a build's entries in the cache."""

    project: Project
    data: str  # Digest of the items with their labels and groups
    features: tuple[str, ...]  # Digests of the features, one per feature

    @classmethod
    def of(
        cls, project: Project, dataset: Dataset, features: Sequence[StoredFeature]
    ) -> Self:
        """Make the keys for the items and the features of a project."""
        files = project.feature_files
        return cls(project, dataset.digest, feature_keys(features, files))

    @property
    def times(self) -> str:
        """Name of the entry with the measured times of features and steps."""
        costs = self.project.costs
        terms = [costs.items, costs.repeats, costs.quantile, costs.pair]
        return f"times/{digest(self.data, self.features, terms, self.project.seed)}"

    def race(self, strategy: str, task: Task, *scoring: object) -> str:
        """Return the name of the entry with the log of a race between learners."""
        limit_s = self.project.training_limit_s  # the log has trainings that overran it
        settings = installed(task)
        return f"races/{digest(self._split, strategy, settings, limit_s, *scoring)}"

    def sets(self, learner: Mapping[str, Any], *scoring: object) -> str:
        """Return a key of all that a set's trained model and quality depend on."""
        return digest(self._split, [learner], *scoring)

    @property
    def _split(self) -> str:
        """Key of all that each training depends on: items, features and splits."""
        search = self.project.search
        terms = [self.project.seed, search.parts, search.folds]
        return digest(self.data, self.features, terms)

"""Names of a build's entries in the cache, made of all that each entry depends on.

A name depends on the versions of the libraries that computed the entry, and on no other
libraries, so machines that share a folder may differ in the others.
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
    """Return a key of the versions of Python and the libraries; `files` add theirs."""
    return digest(versions(files))


def feature_keys(
    features: Sequence[StoredFeature], files: Iterable[Path]
) -> tuple[str, ...]:
    """Return a key of each feature's code and libraries; `files` are the user's."""
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
        """Make the names for the items and features of a project."""
        files = project.feature_files
        return cls(project, dataset.digest, feature_keys(features, files))

    @property
    def times(self) -> str:
        """Name the entry of measured times of features and steps."""
        costs = self.project.costs
        terms = [costs.items, costs.repeats, costs.quantile, costs.pair]
        return f"times/{digest(self.data, self.features, terms, self.project.seed)}"

    def race(self, strategy: str, task: Task, *scoring: object) -> str:
        """Name the entry of a race's log."""
        limit_s = self.project.training_limit_s  # the log has trainings that overran it
        settings = installed(task)
        return f"races/{digest(self._split, strategy, settings, limit_s, *scoring)}"

    def sets(self, learner: Mapping[str, Any], *scoring: object) -> str:
        """Digest everything that a trained set's model and quality depend on."""
        return digest(self._split, [learner], *scoring)

    @property
    def _split(self) -> str:
        """Digest items, features and division: the inputs of any training."""
        search = self.project.search
        terms = [self.project.seed, search.parts, search.folds]
        return digest(self.data, self.features, terms)

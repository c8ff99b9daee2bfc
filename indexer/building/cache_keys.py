"""Names of cache entries, with hashes of everything that each entry depends on.

An entry depends on the versions of those libraries only that computed it. So machines
that share a cache may have different versions of other libraries.
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
    """Return a hash of the versions of Python and of the libraries that features use.

    These are polydom's libraries, and the libraries that the user's `files` import.
    """
    return digest(versions(files))


def feature_keys(
    features: Sequence[StoredFeature], files: Iterable[Path]
) -> tuple[str, ...]:
    """Return a hash for each feature, of its code, its files and the libraries it uses.

    `files` are the Python files with the user's features.
    """
    ready_made, own = library_versions(), library_versions(files)
    return tuple(
        digest(
            one.fingerprint,
            ready_made if one.ready_made else own,
            *([one.files] if one.files else ()),
        )
        for one in features
    )


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of a build's cache entries."""

    project: Project
    data: str  # Digest of the items with their labels and groups
    features: tuple[str, ...]  # Digests of the features, one per feature

    @classmethod
    def of(
        cls, project: Project, dataset: Dataset, features: Sequence[StoredFeature]
    ) -> Self:
        """Make the `Keys` of a project with these items and features."""
        files = project.feature_files
        return cls(project, dataset.digest, feature_keys(features, files))

    @property
    def times(self) -> str:
        """Name of the cache entry with the measured times of features and steps."""
        costs = self.project.costs
        terms = [costs.items, costs.repeats, costs.quantile, costs.pair]
        return f"times/{digest(self.data, self.features, terms, self.project.seed)}"

    def race(self, strategy: str, task: Task, *scoring: object) -> str:
        """Return the name of the cache entry with the log of a race between learners.

        `scoring` is plain data that scores depend on, such as the metric.
        """
        limit_s = self.project.training_limit_s  # the log has trainings that overran it
        settings = installed(task)
        return f"races/{digest(self._split, strategy, settings, limit_s, *scoring)}"

    def tuning(self, learner: Mapping[str, Any], *scoring: object) -> str:
        """Return the name of the cache entry with the log of tuning a learner.

        A tuning of more seconds continues from the log of one of fewer.
        """
        return f"tunings/{digest(self._split, [learner], *scoring)}"

    def sets(self, learner: Mapping[str, Any], *scoring: object) -> str:
        """Return a hash of everything that models and their qualities depend on.

        `learner` has the learner's name and parameters; `scoring` is plain data that
        qualities depend on.
        """
        # "evidence": what an entry holds since scores are calibrated
        return digest(self._split, [learner], "evidence", *scoring)

    @property
    def _split(self) -> str:
        """Hash of everything that training depends on: items, features and splits."""
        search = self.project.search
        terms = [self.project.seed, search.parts, search.folds]
        return digest(self.data, self.features, terms)

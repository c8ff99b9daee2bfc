"""Names under which a build keeps what it has finished: all that it depends on.

What is kept is named by the versions of the libraries that compute it, too: after an
upgrade it is made again, never mixed with what another version made. What else is
installed does not count: machines that share a folder may differ in that.
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
    """Identify Python and the libraries that features, also those of files, use."""
    return digest(versions(files))


def feature_keys(
    features: Sequence[StoredFeature], files: Iterable[Path]
) -> tuple[str, ...]:
    """Identify each feature's code, and the libraries that it computes with.

    Those that `files` of the user's own import are for the features they define.
    """
    ready_made, own = library_versions(), library_versions(files)
    return tuple(
        digest(one.fingerprint, ready_made if one.ready_made else own)
        for one in features
    )


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of a build's entries in the cache.

    Attributes
    ----------
    data, features
        Digests: of the items with labels and groups; of each feature.
    """

    project: Project
    data: str
    features: tuple[str, ...]

    @classmethod
    def of(
        cls, project: Project, dataset: Dataset, features: Sequence[StoredFeature]
    ) -> Self:
        """Identify the items and features of a project."""
        files = project.feature_files
        return cls(project, dataset.digest, feature_keys(features, files))

    @property
    def times(self) -> str:
        """Entry of the measured times of features and steps."""
        costs = self.project.costs
        terms = [costs.items, costs.repeats, costs.quantile, costs.pair]
        return f"times/{digest(self.data, self.features, terms, self.project.seed)}"

    def race(self, strategy: str, task: Task, *judging: object) -> str:
        """Entry of a race's log."""
        limit_s = self.project.training_limit_s  # the log says who overran it
        settings = installed(task)
        return f"races/{digest(self._split, strategy, settings, limit_s, *judging)}"

    def sets(self, learner: Mapping[str, Any], *judging: object) -> str:
        """Identify what any set's model is, trained by a learner, and its quality."""
        return digest(self._split, [learner], *judging)

    @property
    def _split(self) -> str:
        """Items, features and how they are divided: all that any training needs."""
        search = self.project.search
        terms = [self.project.seed, search.parts, search.folds]
        return digest(self.data, self.features, terms)

"""Opens index files, and makes served models of them."""

import logging
from collections.abc import Sequence
from pathlib import Path

from polydom.features.errors import BadIndexFile, BadItem
from polydom.features.wording import listed
from polydom.indexer.index.package import Package

from ..engine.loading import load_planner
from ..fetching.fetcher import Fetcher
from ..fetching.fetchers import Fetchers
from ..metrics.counts import Metrics
from ..settings import Settings
from .admission_control.usual_budget import UsualBudget
from .served_model import ServedModel
from .translator import Translator
from .work_queue import WorkQueue

log = logging.getLogger("polydom")


class IndexOpener:
    """Opens index files with the operator's `features`, `fetchers` and `settings`.

    All models that it makes share one `queue` and one `usual_budget`.
    """

    def __init__(
        self,
        features: Sequence[Path],
        fetchers: Fetchers,
        queue: WorkQueue,
        usual_budget: UsualBudget,
        settings: Settings,
    ) -> None:
        self._features = tuple(features)
        self._fetchers, self._queue, self._settings = fetchers, queue, settings
        self._usual_budget = usual_budget

    def open(self, name: str, path: Path, metrics: Metrics) -> ServedModel:
        """Return the index at `path` for the model called `name`, not warm yet.

        `metrics` will count its requests. Raises the errors of `load_planner`, and
        BadIndexFile if a stored sample is not a valid item.
        """
        planner = load_planner(path, self._features, self._settings)
        try:
            translator = Translator(planner, self._settings)
            package = planner.package
            given = package.fetches, package.arrivals, package.kind
            fetchers = self._fetchers.of(*given)
            _say_unoffered(name, package, fetchers)
            shared = fetchers, self._usual_budget
            return ServedModel(translator, self._queue, metrics, *shared)
        except (BadIndexFile, BadItem) as error:
            raise BadIndexFile(f"{path}: {error}") from error


def _say_unoffered(
    name: str, package: Package, fetchers: Sequence[Fetcher | None]
) -> None:
    """Warn of fetches of an index that no file of the operator defines."""
    offered = zip(package.fetches, fetchers, strict=True)
    lacking = [stored.name for stored, fetcher in offered if fetcher is None]
    if lacking:
        log.warning(
            "model %s: no --fetches FILE says how to fetch %s; columns of it are "
            "used only where a request brings them",
            name,
            listed(lacking),
        )

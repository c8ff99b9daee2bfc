"""Loads, replaces and unloads the models that a process serves."""

import asyncio
import contextlib
import functools
import gc
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from polydom.features.errors import BadIndexFile, BadItem, PolydomError, printable
from polydom.features.fetches.load import load_fetches
from polydom.features.wording import listed
from polydom.indexer.index.package import Package

from ..answer_log.answer_log import AnswerLog
from ..engine.loading import load_planner
from ..errors import ChangedContract, NotReady, ReloadFailed, UnknownModel
from ..fetching.fetcher import Fetcher
from ..fetching.fetchers import Fetchers
from ..metrics.counts import Metrics
from ..schema.bounds import USUAL_COLUMNS
from ..schema.facts import ModelFacts, ModelsFacts
from ..settings import Settings
from .admission import HeldBytes
from .model_names import AnyPath, name_paths
from .named_model import NamedModel
from .orders import OrdersFile
from .served_model import ServedModel
from .translator import Translator
from .usual_budget import UsualBudget
from .work_queue import WorkQueue, run_in_thread

if TYPE_CHECKING:
    from ..tracing.spans import Tracing

# Maximum seconds for opening a file; after that, a reload fails.
LOAD_S = 120.0

State = Literal["READY", "LOADING", "UNAVAILABLE"]

log = logging.getLogger("polydom")


class ModelState(NamedTuple):
    """The state of a model, and the reason if the model cannot answer.

    The reason contains no file paths, because every caller may read it.
    """

    state: State
    reason: str


class Repository:
    """All models that a process serves, by name.

    Only the event loop may use this object. All indexes share one queue and its
    computing thread, so each index takes the load of the others into account. The first
    of `paths` is the default model.
    """

    def __init__(
        self,
        paths: Iterable[AnyPath] | Mapping[str, AnyPath],
        *,
        features: Sequence[Path] = (),
        fetches: Sequence[Path] = (),
        settings: Settings | None = None,
        answer_log: AnswerLog | None = None,
    ) -> None:
        self.queue = WorkQueue()
        self.answer_log = answer_log  # None to write no lines about answers
        self.tracing: Tracing | None = None  # Set by each process that makes spans
        self.settings = settings or Settings()
        # True if the process was told to stop. Then no model is ready, but requests are
        # still answered.
        self.leaving = False
        self.no_model = Metrics()  # counts of requests that reached no model
        self.usual_budget = UsualBudget(self.settings.budget_s)
        self.held_bytes = HeldBytes(self.settings.intake_limit)
        self.fetchers = Fetchers(load_fetches(fetches))
        self._features = tuple(features)
        self._models = {
            name: NamedModel(name, path, Metrics(name))
            for name, path in name_paths(paths).items()
        }
        self._first = next(iter(self._models.values()))
        self._one_at_a_time = asyncio.Lock()
        self.orders = OrdersFile()
        for model in self._models.values():
            model.serve(self._open(model))

    @property
    def ready(self) -> bool:
        """True if every loaded index is warm and the process is not stopping."""
        return not self.leaving and all(served.ready for served in self._served())

    @property
    def columns(self) -> int:
        """The largest number of columns that a record may have, over all indexes."""
        each = (served.translator.columns or USUAL_COLUMNS for served in self._served())
        return max(each, default=USUAL_COLUMNS)

    def names(self) -> tuple[str, ...]:
        """Return the names of all models, loaded or not. The default model is first."""
        return tuple(self._models)

    def get(self, name: str | None = None, version: str | None = None) -> ServedModel:
        """Return the served index of a model; of the default model if `name` is None.

        `version` is None or the index's checksum. Raises UnknownModel if the name or
        the version is unknown, and NotReady if the model is not loaded.
        """
        model = self._first if name is None else self._model(name)
        served = model.served
        if served is None:
            raise NotReady(f"model {model.name!r} is not loaded")
        if version is not None and version != served.version:
            raise UnknownModel(
                f"model {model.name!r} has no version {version[:80]!r}; served is "
                f"{served.version!r}"
            )
        return served

    def state(self, name: str) -> ModelState:
        """Return the state of a model; raise UnknownModel if none has this name."""
        model = self._model(name)
        if model.served is not None and model.served.ready:
            return ModelState("READY", "")
        if model.loading or (model.served is not None and not model.reason):
            return ModelState("LOADING", "it is being warmed up")
        return ModelState("UNAVAILABLE", model.reason or "it is not loaded")

    def facts(self) -> ModelsFacts:
        """Return the body of `GET /v1/models`: each model's state and version."""
        facts = []
        for name, model in self._models.items():
            version = model.served.version if model.served else None
            facts.append(ModelFacts(name, version, *self.state(name)))
        budgets_s = self.settings.budget_s, self.settings.max_budget_s
        return ModelsFacts(facts, *(1e3 * budget_s for budget_s in budgets_s))

    def metrics(self, name: str) -> Metrics:
        """Return the metrics of a model; raise UnknownModel if none has this name."""
        return self._model(name).metrics

    async def start(self) -> None:
        """Start the computing thread, then warm up all indexes one by one.

        If a warm-up fails, the others continue. The first error is raised at the end.
        """
        self.queue.start()
        await self.fetchers.open()
        errors: list[Exception] = []
        for model in self._models.values():
            if model.served is None:
                continue
            try:
                await model.served.start()
            except Exception as error:
                model.reason = "its warm-up failed; the log says why"
                errors.append(error)
        # Indexes, models and modules live as long as the process. Garbage collections
        # do not visit frozen objects, so they stay short.
        gc.collect()
        gc.freeze()
        if errors:
            raise errors[0]

    async def stop(self) -> None:
        """Refuse new requests, answer the requests in the queue, and end the thread."""
        for served in self._served():
            served.ready = False
        gc.unfreeze()
        await self.fetchers.close()
        await asyncio.get_running_loop().run_in_executor(None, self.queue.stop)

    def count_failed(self) -> None:
        """Count, for every loaded model, a reload that failed in another process."""
        for model in self._loaded():
            model.metrics.reloads["failed"] += 1

    def run_once(self) -> None:
        """Warm up all indexes before `start`, in a process that will fork workers."""
        for served in self._served():
            served.warm_up.run()

    def reopen(self) -> None:
        """Load all files again, before `start`; keep the old index if a file fails."""
        for model in self._loaded():
            # if a file cannot be opened, a worker that starts reports why
            with contextlib.suppress(Exception):
                new = self._open(model)
                if not self._allows(new):
                    model.check(new)
                model.serve(new)

    async def load(self, name: str) -> None:
        """Load a model from its file; raise ReloadFailed if the file is unusable."""
        await self._replace(self._model(name))

    async def unload(self, name: str) -> None:
        """Unload a model; raise UnknownModel if no model has this name."""
        model = self._model(name)
        async with self._one_at_a_time:
            model.served, model.reason = None, "it was unloaded"
        log.info("model %s: unloaded", name, extra={"event": "unload", "model": name})

    async def reload(
        self, name: str | None = None, *, allow_changes: bool = False
    ) -> dict[str, str]:
        """Load one model or all loaded models from their files; return their versions.

        The old index answers until the new index is warm. The old index stays if the
        file is unchanged. It also stays if the file cannot be served; then ReloadFailed
        is raised. Unless `allow_changes`, ChangedContract is raised if the new index
        would break callers, and the old index stays.
        """
        wanted = [self._model(name)] if name is not None else self._loaded()
        failures: list[ReloadFailed] = []
        for model in wanted:
            model.allows_changes = model.allows_changes or allow_changes
            try:
                await self._replace(model)
            except ReloadFailed as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise ReloadFailed("; ".join(map(str, failures)))
        return {model.name: model.served.version for model in wanted if model.served}

    def _model(self, name: str) -> NamedModel:
        model = self._models.get(name)
        if model is None:
            known = ", ".join(map(repr, self._models))
            raise UnknownModel(f"no model is called {name[:80]!r}; served: {known}")
        return model

    def _loaded(self) -> list[NamedModel]:
        return [model for model in self._models.values() if model.served is not None]

    def _served(self) -> list[ServedModel]:
        return [model.served for model in self._models.values() if model.served]

    async def _replace(self, model: NamedModel) -> None:
        """Reload one model; calls that come before the reload begins share it."""
        if model.next is None:
            model.next = asyncio.create_task(self._replace_in_turn(model))
        await asyncio.shield(model.next)

    async def _replace_in_turn(self, model: NamedModel) -> None:
        """Reload one model, after the end of any other reload."""
        async with self._one_at_a_time:
            model.next, model.loading = None, True
            allowed, model.allows_changes = model.allows_changes, False
            try:
                await self._load(model, allow_changes=allowed)
            except ChangedContract as error:
                self._refused(model, error)
                raise
            except Exception as error:  # a damaged file may raise any error
                raise self._failed(model, error) from error
            finally:
                model.loading = False
            model.metrics.reloads["ok"] += 1

    def _allows(self, new: ServedModel) -> bool:
        """Return True if the operator lets this index change what callers rely on."""
        allowed = self.settings.allow_changes
        return allowed or new.version in self.orders.read().allowed

    def _refused(self, model: NamedModel, error: ReloadFailed) -> None:
        """Count and log an index that is fit to be served and is refused.

        The message goes to callers, as it has no path.
        """
        model.metrics.reloads["refused"] += 1
        facts = {"event": "reload_refused", "model": model.name, "code": error.code}
        log.error("%s", printable(str(error)), extra=facts)
        if model.served is None:
            model.reason = str(error)

    def _failed(self, model: NamedModel, error: Exception) -> ReloadFailed:
        """Count and log a failed reload; return the error to raise."""
        model.metrics.reloads["failed"] += 1
        expected = isinstance(error, (PolydomError, OSError, MemoryError))
        log.error(
            "model %s: not loaded: %s",
            model.name,
            printable(str(error)) or type(error).__name__,
            exc_info=None if expected else error,
            extra={"event": "reload_failed", "model": model.name},
        )
        code = error.code if isinstance(error, PolydomError) else "internal"
        failure = f"its file cannot be served ({code}); the log says why"
        if model.served is None:
            model.reason = failure
        return ReloadFailed(f"model {model.name!r}: {failure}")

    async def _load(self, model: NamedModel, *, allow_changes: bool) -> None:
        opened = run_in_thread(functools.partial(self._open, model))
        try:
            new = await asyncio.wait_for(opened, LOAD_S)
        except TimeoutError as error:
            raise BadIndexFile(
                f"{model.path}: not opened within {LOAD_S:g} s"
            ) from error
        old = model.served
        if old is not None and old.ready and old.version == new.version:
            return
        if allow_changes:
            self.orders.allow(new.version)
        elif not self._allows(new):
            model.check(new)
        await self.fetchers.open()
        await new.start(old)
        # Requests in progress refer to the old index, so it lives until they are
        # answered.
        model.serve(new)
        facts = {"event": "reload", "model": model.name, "version": new.version}
        log.info("model %s: version %s answers", model.name, new.version, extra=facts)

    def _open(self, model: NamedModel) -> ServedModel:
        planner = load_planner(model.path, self._features, self.settings)
        try:
            translator = Translator(planner, self.settings)
            package = planner.package
            fetchers = self.fetchers.of(package.fetches, package.arrivals, package.kind)
            self._say_unoffered(model.name, package, fetchers)
            metrics, budget = model.metrics, self.usual_budget
            return ServedModel(translator, self.queue, metrics, fetchers, budget)
        # BadItem: a stored sample is not a valid item
        except (BadIndexFile, BadItem) as error:
            raise BadIndexFile(f"{model.path}: {error}") from error

    @staticmethod
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

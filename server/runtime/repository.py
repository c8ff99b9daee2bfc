"""Loads, replaces and unloads the models that a process serves."""

import asyncio
import contextlib
import functools
import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from polydom.features.errors import BadIndexFile, PolydomError, printable
from polydom.features.fetches.load import load_fetches

from ..answer_log.answer_log import AnswerLog
from ..errors import ChangedContract, NotReady, ReloadFailed, UnknownModel, WorseIndex
from ..fetching.fetchers import Fetchers
from ..metrics.counts import Metrics
from ..schema.bounds import USUAL_COLUMNS
from ..schema.facts import ModelFacts, ModelsFacts
from ..settings import Settings
from .admission_control.admission import HeldBytes
from .admission_control.usual_budget import UsualBudget
from .index_opener import IndexOpener
from .model_names import AnyPath, name_paths
from .named_model import NamedModel
from .rollout.gate import Gate
from .rollout.orders import OrdersFile
from .served_model import ServedModel
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
    of `paths` is the default model. `candidates` are files of candidates, by model;
    they may be missing, and appear later.
    """

    def __init__(
        self,
        paths: Iterable[AnyPath] | Mapping[str, AnyPath],
        *,
        features: Sequence[Path] = (),
        fetches: Sequence[Path] = (),
        settings: Settings | None = None,
        answer_log: AnswerLog | None = None,
        candidates: Mapping[str, Path] = MappingProxyType({}),
        gate: Gate | None = None,
    ) -> None:
        self.gate = gate  # None to serve new indexes without comparing them
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
        shared = self.fetchers, self.queue, self.usual_budget
        self._opener = IndexOpener(features, *shared, self.settings)
        self._models = {
            name: NamedModel(name, path, Metrics(name), candidates.get(name))
            for name, path in name_paths(paths).items()
        }
        self._first = next(iter(self._models.values()))
        # held while an index is loaded, or files are moved
        self.one_at_a_time = asyncio.Lock()
        self.orders = OrdersFile()
        for model in self._models.values():
            model.serve(self._open(model, model.path))
            with self._unless_bad(model):
                self._reopen_candidate(model)
        self.keep_files()

    @property
    def ready(self) -> bool:
        """True if every loaded index is warm and the process is not stopping."""
        return not self.leaving and all(served.ready for served in self._served())

    @property
    def columns(self) -> int:
        """The largest number of columns that a record may have, over all indexes."""
        served = (*self._served(), *self._candidates())
        each = (one.translator.columns or USUAL_COLUMNS for one in served)
        return max(each, default=USUAL_COLUMNS)

    def names(self) -> tuple[str, ...]:
        """Return the names of all models, loaded or not. The default model is first."""
        return tuple(self._models)

    def get(self, name: str | None = None, version: str | None = None) -> ServedModel:
        """Return the served index of a model; of the default model if `name` is None.

        `version` is None or the index's checksum, which may be that of the candidate.
        Raises UnknownModel if the name or the version is unknown, and NotReady if the
        model is not loaded.
        """
        model = self.model(name)
        served = model.served
        if served is None:
            raise NotReady(f"model {model.name!r} is not loaded")
        if version is not None and version != served.version:
            candidate = model.candidate
            if candidate is not None and version == candidate.version:
                return candidate
            raise UnknownModel(
                f"model {model.name!r} has no version {version[:80]!r}; served is "
                f"{served.version!r}"
            )
        return served

    def versions(self, name: str) -> list[str]:
        """Return the versions of a model that `get` finds; the served one is first."""
        model = self.model(name)
        return [one.version for one in (model.served, model.candidate) if one]

    def state(self, name: str) -> ModelState:
        """Return the state of a model; raise UnknownModel if none has this name."""
        model = self.model(name)
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
        return self.model(name).metrics

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
            if model.candidate is not None:
                with self._unless_bad(model):
                    await model.candidate.start(model.served)
        self.follow_orders()
        if self.gate is not None:
            # this worker may replace one that has loaded a newer index
            self._catching_up = asyncio.create_task(self._catch_up())
        # Indexes, models and modules live as long as the process. Garbage collections
        # do not visit frozen objects, so they stay short.
        gc.collect()
        gc.freeze()
        if errors:
            raise errors[0]

    async def stop(self) -> None:
        """Refuse new requests, answer the requests in the queue, and end the thread."""
        for served in (*self._served(), *self._candidates()):
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
        for model in self._models.values():
            with self._unless_bad(model):
                if model.candidate is not None:
                    model.candidate.warm_up.run()

    async def _catch_up(self) -> None:
        with contextlib.suppress(ReloadFailed):
            await self.reload()

    def follow_orders(self) -> None:
        """Use candidates as the operator has ordered, in this or another process."""
        for model in self._models.values():
            model.follow(self.orders.rollout_of(model.name))

    def reopen(self) -> None:
        """Load all files again, before `start`; keep the old index if a file fails."""
        self.follow_orders()
        for model in self._loaded():
            # if a file cannot be opened, a worker that starts reports why
            with contextlib.suppress(Exception):
                if path := model.source():
                    new = self._open(model, path)
                    if not self._allows(new):
                        model.check(new)
                    if self._has_passed(model, new):
                        model.serve(new)
                self._reopen_candidate(model)

    async def load(self, name: str) -> None:
        """Load a model from its file; raise ReloadFailed if the file is unusable."""
        await self._replace(self.model(name))

    async def unload(self, name: str) -> None:
        """Unload a model; raise UnknownModel if no model has this name."""
        model = self.model(name)
        async with self.one_at_a_time:
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
        wanted = [self.model(name)] if name is not None else self._loaded()
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

    def model(self, name: str | None) -> NamedModel:
        """Return a model by its name; the default model if `name` is None.

        Raises UnknownModel if no model has this name.
        """
        model = self._first if name is None else self._models.get(name)
        if model is None:
            known = ", ".join(map(repr, self._models))
            called = (name or "")[:80]
            raise UnknownModel(f"no model is called {called!r}; served: {known}")
        return model

    def _loaded(self) -> list[NamedModel]:
        return [model for model in self._models.values() if model.served is not None]

    def _candidates(self) -> list[ServedModel]:
        return [model.candidate for model in self._models.values() if model.candidate]

    def _served(self) -> list[ServedModel]:
        return [model.served for model in self._models.values() if model.served]

    async def _replace(self, model: NamedModel) -> None:
        """Reload one model; calls that come before the reload begins share it."""
        if model.next is None:
            model.next = asyncio.create_task(self._replace_in_turn(model))
        await asyncio.shield(model.next)

    async def _replace_in_turn(self, model: NamedModel) -> None:
        """Reload one model, after the end of any other reload."""
        async with self.one_at_a_time:
            model.next, model.loading = None, True
            allowed, model.allows_changes = model.allows_changes, False
            model.follow(self.orders.rollout_of(model.name))
            try:
                with self.counting_failures(model):
                    await self._load(model, allow_changes=allowed)
                    await self._load_candidate(model, allow_changes=allowed)
            finally:
                model.loading = False
            model.metrics.reloads["ok"] += 1

    def _allows(self, new: ServedModel) -> bool:
        """Return True if the operator lets this index change what callers rely on."""
        orders, version = self.orders.read(), new.version
        allowed = self.settings.allow_changes or version in orders.allowed
        return allowed or version in orders.wanted

    def _has_passed(self, model: NamedModel, new: ServedModel) -> bool:
        """Return True if the gate lets an index in that another process loads."""
        old = model.served
        if self.gate is None or old is None or old.version == new.version:
            return True
        wanted = new.version in self.orders.read().wanted
        return wanted or self.gate.passed(old.version, new.version)

    async def compare(self, model: NamedModel, path: Path, new: str) -> None:
        """Let the gate compare a new index with the served one.

        The index at `path` has the version `new`. Raises WorseIndex if it is worse, and
        ReloadFailed if they cannot be compared.
        """
        old = model.served
        wanted = new in self.orders.read().wanted
        if self.gate is not None and old is not None and not wanted:
            arguments = model.name, old.version, path, new
            await run_in_thread(functools.partial(self.gate.refuse_worse, *arguments))

    def keep_files(self) -> None:
        """Let the gate keep copies of the served files, to compare the next ones."""
        if self.gate is None:
            return
        files = {
            model.served.version: model.source() or model.path
            for model in self._models.values()
            if model.served is not None
        }
        self.gate.keep(files)

    @contextlib.contextmanager
    def counting_failures(self, model: NamedModel) -> Iterator[None]:
        """Count and log a new index that is refused, or cannot be served.

        The error that is raised has no path, so callers may read it.
        """
        try:
            yield
        except (ChangedContract, WorseIndex) as error:
            self._refused(model, error)
            raise
        except Exception as error:  # a damaged file may raise any error
            raise self._failed(model, error) from error

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
        path = await run_in_thread(model.source)
        old = model.served
        if path is None and old is not None:
            return
        path = path or model.path
        new = await self._opened(path, functools.partial(self._open, model, path))
        if old is not None and old.ready and old.version == new.version:
            return
        await self.compare(model, path, new.version)
        if not model.takes(new):
            await self._admit(model, new, allow_changes=allow_changes)
            # Requests in progress refer to the old index, so it lives until they are
            # answered.
            model.serve(new)
        await run_in_thread(self.keep_files)
        facts = {"event": "reload", "model": model.name, "version": new.version}
        log.info("model %s: version %s answers", model.name, new.version, extra=facts)

    async def _load_candidate(self, model: NamedModel, *, allow_changes: bool) -> None:
        """Load the candidate's file; without the file, there is no candidate."""
        path = await run_in_thread(functools.partial(_file_to_try, model))
        if path is None:
            model.candidate = None
        else:
            new = await self._opened(path, lambda: self._open_candidate(model, path))
            old = model.candidate
            if old is not None and old.ready and old.version == new.version:
                return
            await self._admit(model, new, allow_changes=allow_changes)
            model.candidate = new
            facts = {"event": "candidate", "model": model.name, "version": new.version}
            said = "model %s: version %s is the candidate"
            log.info(said, model.name, new.version, extra=facts)
        model.follow(model.order)

    def _reopen_candidate(self, model: NamedModel) -> None:
        """Load the candidate's file before `start`, if it is there."""
        path, model.candidate = _file_to_try(model), None
        if path is not None:
            new = self._open_candidate(model, path)
            if not self._allows(new):
                model.check(new)
            model.candidate = new

    @contextlib.contextmanager
    def _unless_bad(self, model: NamedModel) -> Iterator[None]:
        """Let a model have no candidate if an error is raised; the log says why."""
        try:
            yield
        except Exception as error:
            model.candidate = None
            self._failed(model, error)

    async def _opened(self, path: Path, read: Callable[[], ServedModel]) -> ServedModel:
        """Call `read` in a thread; raise BadIndexFile if it takes too long."""
        try:
            return await asyncio.wait_for(run_in_thread(read), LOAD_S)
        except TimeoutError as error:
            raise BadIndexFile(f"{path}: not opened within {LOAD_S:g} s") from error

    async def _admit(
        self, model: NamedModel, new: ServedModel, *, allow_changes: bool
    ) -> None:
        """Check that a new index breaks no callers, and warm it up."""
        if allow_changes:
            self.orders.allow(new.version)
        elif not self._allows(new):
            model.check(new)
        await self.fetchers.open()
        await new.start(model.served)

    def _open(self, model: NamedModel, path: Path) -> ServedModel:
        return self._opener.open(model.name, path, model.metrics)

    def _open_candidate(self, model: NamedModel, path: Path) -> ServedModel:
        return self._opener.open(model.name, path, model.candidate_metrics)


def _file_to_try(model: NamedModel) -> Path | None:
    """Return the candidate's file; None if it is missing, or has the served index."""
    path, served = model.candidate_path, model.served
    if path is None or not path.exists():
        return None
    return None if served is not None and model.has_file(served.version) else path

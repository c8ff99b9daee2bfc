"""Carries out what the operator orders about a candidate: try, promote, roll back."""

import asyncio
import logging
import time
from functools import partial

from polydom.features.errors import BadInput
from polydom.indexer.index.file.pdx_file import read_version

from ...errors import ReloadFailed
from ...schema.rollout import RolloutAsk, RolloutFacts, RolloutsFacts
from ..named_model import NamedModel
from ..repository import Repository
from ..work_queue import run_in_thread
from .index_files import exchange, previous_of, promote
from .orders import RolloutOrder

IN_MEMORY = (
    "the folder of the files is read-only, so the change is in memory: a server that "
    "is started again serves the files as they are"
)

# Longest time in seconds for which an order waits for the warm-up of a candidate, and
# seconds between two looks.
WARM_S, PAUSE_S = 60.0, 0.05

log = logging.getLogger("polydom")


class Rollouts:
    """Carries out orders about the candidates of a repository's models."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def facts(self, note: str = "") -> RolloutsFacts:
        """Return what answers and what is tried, for each model with a candidate."""
        models = map(self._repository.model, self._repository.names())
        told = [_facts_of(one) for one in models if one.candidate_path is not None]
        return RolloutsFacts(told, note)

    async def carry_out(self, ask: RolloutAsk) -> RolloutsFacts:
        """Carry out an order; return the new facts.

        Raises BadInput for an order that is impossible, UnknownModel, and ReloadFailed
        if the files cannot be moved or served.
        """
        model, note = self._repository.model(ask.model), ""
        if model.candidate_path is None:
            raise BadInput(
                f"model {model.name!r} has no candidate; start the server with "
                "--candidate FILE"
            )
        _refuse_terms(ask)
        await _warm(model)
        if ask.mode == "promote":
            note = await self._promote(model)
        elif ask.mode == "roll_back":
            note = await self._roll_back(model)
        else:
            if ask.mode != "off":
                _refuse_missing(model)
            share = float(ask.mode == "shadow") if ask.share is None else ask.share
            order = RolloutOrder(
                ask.mode, share, (ask.by or "").lower(), model.order.swapped
            )
            self._repository.orders.set_rollout(model.name, order)
        self._repository.follow_orders()
        facts = {"event": "rollout", "model": model.name, "mode": ask.mode}
        log.info("model %s: rollout: %s", model.name, ask.mode, extra=facts)
        return self.facts(note)

    async def _promote(self, model: NamedModel) -> str:
        """Let the candidate answer all requests; return a note for the operator."""
        repository = self._repository
        async with repository.one_at_a_time:
            version = _refuse_missing(model)
            path, candidate = model.path, model.candidate_path
            assert candidate is not None
            if await run_in_thread(partial(read_version, candidate)) != version:
                raise BadInput(
                    f"model {model.name!r}: the candidate's file was replaced after it "
                    "was loaded; reload, and try the new candidate first"
                )
            await repository.compare(model, candidate, version)
            try:
                moved = await run_in_thread(partial(promote, path, candidate))
            except OSError as error:
                raise _unmoved(model, error) from error
            swapped = model.order.swapped != (not moved)
            order = RolloutOrder(swapped=swapped)
            repository.orders.set_rollout(model.name, order, version)
            model.promote()
        return "" if moved else IN_MEMORY

    async def _roll_back(self, model: NamedModel) -> str:
        """Let the index of before answer again; return a note for the operator."""
        repository, swapped = self._repository, model.order.swapped
        before = model.candidate_path if swapped else previous_of(model.path)
        if before is None or not before.exists():
            raise BadInput(f"model {model.name!r} has no previous index to go back to")
        async with repository.one_at_a_time:
            version = await run_in_thread(partial(read_version, before))
            if not swapped:
                await self._exchange(model)
            repository.orders.set_rollout(model.name, RolloutOrder(), version)
            repository.follow_orders()
        try:
            await repository.reload(model.name)
        except ReloadFailed:
            if not swapped:
                await self._exchange(model)
            raise
        return IN_MEMORY if swapped else ""

    async def _exchange(self, model: NamedModel) -> None:
        path = model.path
        try:
            await run_in_thread(partial(exchange, path, previous_of(path)))
        except OSError as error:
            raise _unmoved(model, error) from error


async def _warm(model: NamedModel) -> None:
    """Wait until the candidate is warm, as after the start of a server."""
    end_s = time.monotonic() + WARM_S
    while model.candidate is not None and not model.candidate.ready:
        if time.monotonic() > end_s:
            break
        await asyncio.sleep(PAUSE_S)


def _facts_of(model: NamedModel) -> RolloutFacts:
    order, served, candidate = model.order, model.served, model.candidate
    return RolloutFacts(
        name=model.name,
        version=None if served is None else served.version,
        candidate=None if candidate is None else candidate.version,
        mode=order.mode,
        share=order.share,
        by=order.by,
    )


def _refuse_missing(model: NamedModel) -> str:
    """Return the candidate's version; raise BadInput if none is loaded."""
    candidate = model.candidate
    if candidate is None or not candidate.ready or model.served is None:
        raise BadInput(
            f"model {model.name!r} has no candidate that is loaded; put its file into "
            "its place, and reload"
        )
    return candidate.version


def _refuse_terms(ask: RolloutAsk) -> None:
    """Raise BadInput if the share or the header does not fit the mode."""
    if ask.mode == "canary":
        if ask.share is None:
            raise BadInput("canary needs a share, in [0, 1]")
    elif ask.by is not None:
        raise BadInput(f"{ask.mode} takes no header")
    elif ask.share is not None and ask.mode != "shadow":
        raise BadInput(f"{ask.mode} takes no share")


def _unmoved(model: NamedModel, error: OSError) -> ReloadFailed:
    log.error("model %s: files not moved: %s", model.name, error)
    return ReloadFailed(f"model {model.name!r}: its files cannot be moved; see the log")

"""Carries out what the operator orders about a candidate: try, promote, roll back."""

import asyncio
import logging
import time
from functools import partial
from pathlib import Path

from polydom.features.errors import BadInput

from ...errors import ReloadFailed
from ...schema.rollout import RolloutAsk, RolloutFacts, RolloutsFacts
from ..named_model import NamedModel
from ..repository import Repository
from ..work_queue import run_in_thread
from .index_files import previous_of, put, version_at
from .orders import RolloutOrder

IN_MEMORY = (
    "the files cannot be moved, so the change is in memory: a server that is started "
    "again serves the files as they are"
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
            await self._roll_back(model)
        else:
            if ask.mode != "off":
                _refuse_missing(model)
            share = float(ask.mode == "shadow") if ask.share is None else ask.share
            order = RolloutOrder(
                ask.mode, share, (ask.by or "").lower(), model.order.in_stead
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
            await _refuse_replaced(model, candidate, version)
            with repository.counting_failures(model):
                await repository.compare(model, candidate, version)
            order, note = RolloutOrder(), ""
            try:
                await run_in_thread(partial(put, candidate, path, previous_of(path)))
            except OSError as error:
                # another worker may have promoted it meanwhile
                await _refuse_replaced(model, candidate, version)
                log.warning("model %s: files not moved: %s", model.name, error)
                before = await run_in_thread(partial(version_at, path))
                order, note = RolloutOrder(in_stead=(before or "", version)), IN_MEMORY
            repository.orders.set_rollout(model.name, order, version)
            model.promote()
            model.follow(order)
            await run_in_thread(repository.keep_files)
        return note

    async def _roll_back(self, model: NamedModel) -> None:
        """Let the index of before answer again."""
        repository = self._repository
        async with repository.one_at_a_time:
            # the served file is that of before if a promotion moved no files
            moved = await run_in_thread(model.source) == model.path
            before = previous_of(model.path) if moved else model.path
            version = await run_in_thread(partial(version_at, before))
            if version is None:
                raise BadInput(
                    f"model {model.name!r} has no previous index to go back to"
                )
            if moved:
                await _exchange(model)
            repository.orders.set_rollout(model.name, RolloutOrder(), version)
            repository.follow_orders()
        try:
            await repository.reload(model.name)
        except ReloadFailed:
            if moved:
                await _exchange(model)
            raise


async def _exchange(model: NamedModel) -> None:
    """Let the served file and the previous one change places."""
    path, previous = model.path, previous_of(model.path)
    try:
        await run_in_thread(partial(put, previous, path, previous))
    except OSError as error:
        log.error("model %s: files not moved: %s", model.name, error)
        raise ReloadFailed(
            f"model {model.name!r}: its files cannot be moved; the log says why"
        ) from error


async def _refuse_replaced(model: NamedModel, candidate: Path, version: str) -> None:
    """Raise BadInput unless the candidate's file still has this version."""
    if await run_in_thread(partial(version_at, candidate)) != version:
        raise BadInput(
            f"model {model.name!r}: the candidate's file was replaced or moved after "
            "it was loaded; reload, and try the new candidate first"
        )


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

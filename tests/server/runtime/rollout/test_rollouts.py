"""Orders about candidates: which files they move, and which index answers then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadInput
from polydom.indexer.index.file.pdx_file import read_version
from polydom.server.errors import ReloadFailed, WorseIndex
from polydom.server.evaluation.gate import EvaluationGate
from polydom.server.runtime.repository import Repository
from polydom.server.runtime.rollout import rollouts as rollouts_module
from polydom.server.runtime.rollout.gate import Gate
from polydom.server.runtime.rollout.rollouts import Rollouts
from polydom.server.schema.rollout import RolloutAsk, RolloutFacts
from tests.support.indexes import records
from tests.support.indexes.repositories import OWN, run
from tests.support.indexes.served import save
from tests.system.test_rollout import save_prior, write_recent


@asynccontextmanager
async def rolling(path: Path, gate: Gate | None = None) -> AsyncIterator[Rollouts]:
    """Orders to a repository of the index at `path` and its candidate."""
    candidates = {path.stem: path.with_name("next.pdx")}
    repository = Repository([path], features=OWN, candidates=candidates, gate=gate)
    await repository.start()
    try:
        yield Rollouts(repository)
    finally:
        await repository.stop()


async def order(rollouts: Rollouts, mode: Any, **terms: Any) -> RolloutFacts:
    (facts,) = (await rollouts.carry_out(RolloutAsk(mode, **terms))).models
    return facts


async def reload(rollouts: Rollouts) -> RolloutFacts:
    await rollouts._repository.reload()
    (facts,) = rollouts.facts().models
    return facts


def test_a_promotion_that_cannot_move_files_holds_until_the_served_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Path) -> None:
        raise OSError("read-only")

    path, following = save(tmp_path / "my.pdx"), save(tmp_path / "next.pdx", 0.9)
    old, new = read_version(path), read_version(following)
    monkeypatch.setattr(rollouts_module, "put", refuse)

    async def main() -> None:
        async with rolling(path) as rollouts:
            told = await rollouts.carry_out(RolloutAsk("promote"))
            assert "the change is in memory" in told.note
            for facts in (told.models[0], await reload(rollouts)):
                assert (facts.version, facts.candidate) == (new, None)
            assert (read_version(path), read_version(following)) == (old, new)
            await order(rollouts, "off")
            facts = await order(rollouts, "roll_back")
            assert (facts.version, facts.candidate) == (old, new)
            assert (await order(rollouts, "promote")).version == new
            # a new candidate is tried, and does not answer before it is promoted
            save(following, 0.8)
            newest = read_version(following)
            facts = await reload(rollouts)
            assert (facts.version, facts.candidate) == (new, newest)
            assert (await order(rollouts, "promote")).version == newest
            # and a new file at the served path is served
            save(path, 0.85)
            facts = await reload(rollouts)
            assert (facts.version, facts.candidate) == (read_version(path), newest)
            with pytest.raises(BadInput, match="no previous index"):
                await order(rollouts, "roll_back")

    run(main())


def test_only_one_of_two_promotions_at_once_is_carried_out(tmp_path: Path) -> None:
    path, following = save(tmp_path / "my.pdx"), save(tmp_path / "next.pdx", 0.9)
    old, new = read_version(path), read_version(following)

    async def main() -> None:
        # two repositories are as two workers
        async with rolling(path) as one, rolling(path) as other:
            orders = [order(each, "promote") for each in (one, one, other)]
            done = await asyncio.gather(*orders, return_exceptions=True)
            errors = [each for each in done if not isinstance(each, RolloutFacts)]
            assert len(errors) == 2
            assert all(isinstance(error, BadInput) for error in errors)
            assert read_version(path) == new
            assert read_version(tmp_path / "my.previous.pdx") == old
            for each in (one, other):
                facts = await reload(each)
                assert (facts.version, facts.candidate) == (new, None)

    run(main())


def test_a_promoted_index_is_compared_with_the_next_one(tmp_path: Path) -> None:
    path, following = tmp_path / "my.pdx", tmp_path / "next.pdx"
    save_prior(path)
    records.save_better(following)
    worst, best = read_version(path), read_version(following)

    async def main() -> None:
        gate = EvaluationGate(write_recent(tmp_path))
        async with rolling(path, gate) as rollouts:
            assert (await order(rollouts, "promote")).version == best
            save_prior(following)
            assert (await reload(rollouts)).candidate == worst
            with pytest.raises(WorseIndex):
                await order(rollouts, "promote")
            refused = rollouts._repository.metrics("my").reloads["refused"]
            assert refused == 1
            (tmp_path / "recent.jsonl").write_text("{}")
            with pytest.raises(ReloadFailed) as caught:
                await order(rollouts, "promote")
            assert str(tmp_path) not in str(caught.value)
            assert rollouts.facts().models[0].version == best
            assert (await order(rollouts, "roll_back")).version == worst

    run(main())


def test_a_candidate_that_is_still_copied_is_refused(tmp_path: Path) -> None:
    path, following = save(tmp_path / "my.pdx"), tmp_path / "next.pdx"
    whole = save(tmp_path / "whole.pdx", 0.9).read_bytes()

    async def main() -> None:
        async with rolling(path) as rollouts:
            for size in (0, 10, 500, len(whole) - 1):
                following.write_bytes(whole[:size])
                with pytest.raises(ReloadFailed):
                    await reload(rollouts)
                with pytest.raises(BadInput, match="no candidate that is loaded"):
                    await order(rollouts, "promote")
            following.write_bytes(whole)
            assert (await reload(rollouts)).candidate == read_version(following)
            following.write_bytes(whole[:-1])
            with pytest.raises(BadInput, match="was replaced or moved"):
                await order(rollouts, "promote")
            assert read_version(path) == rollouts.facts().models[0].version

    run(main())

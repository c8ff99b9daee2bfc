"""Names are served, replaced while requests are under way, and dropped."""

import asyncio
import gc
import math
import weakref
from pathlib import Path

import pytest

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.index import Index
from polydom.server.engine.request import Caller
from polydom.server.errors import ChangedContract, NotReady, ReloadFailed, UnknownModel
from polydom.server.runtime.repository import Repository
from polydom.server.schema.wire import Answer, PredictRequest
from polydom.server.settings import Settings
from tests.support.indexes import records
from tests.support.indexes.repositories import OWN, run, started
from tests.support.indexes.served import save


async def ask(repository: Repository, name: str | None = None) -> Answer:
    served = repository.get(name)
    request = PredictRequest(text="hello", budget_ms=900)
    answered = await served.answer(request, served.now(), Caller())
    return served.translator.answer(*answered)


def test_repository_serves_the_first_where_no_name_is_given(tmp_path: Path) -> None:
    paths = save(tmp_path / "b.pdx"), save(tmp_path / "a.pdx", 0.9)

    async def main() -> list[float | None]:
        async with started(*paths) as repository:
            assert repository.names() == ("b", "a")
            assert repository.ready
            version = repository.get("a").version
            assert repository.get("a", version) is repository.get("a")
            return [
                (await ask(repository, name)).expected_accuracy
                for name in (None, "a", "b")
            ]

    assert run(main()) == [0.95, 0.9, 0.95]


def test_repository_refuses_what_it_does_not_serve(tmp_path: Path) -> None:
    repository = Repository([save(tmp_path / "a.pdx")], features=OWN)
    with pytest.raises(UnknownModel, match="no model is called 'b'; served: 'a'"):
        repository.get("b")
    with pytest.raises(UnknownModel, match="model 'a' has no version '1'"):
        repository.get("a", "1")
    for call in (repository.state, repository.metrics):
        with pytest.raises(UnknownModel):
            call("b")


def test_repository_opens_nothing_that_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(BadIndexFile, match="No such file"):
        Repository([tmp_path / "none.pdx"])


def test_repository_says_how_far_each_model_is(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pdx")

    async def main() -> None:
        repository = Repository([path], features=OWN)
        assert repository.state("a").state == "LOADING"
        assert not repository.ready
        await repository.start()
        assert repository.state("a") == ("READY", "")
        await repository.unload("a")
        assert repository.state("a") == ("UNAVAILABLE", "it was unloaded")
        with pytest.raises(NotReady, match="'a' is not loaded"):
            repository.get("a")
        assert repository.ready, "what was dropped on purpose is not waited for"
        await repository.load("a")
        assert repository.state("a").state == "READY"
        await repository.stop()
        assert not repository.ready

    run(main())


def test_repository_replaces_an_index_while_requests_are_under_way(
    tmp_path: Path,
) -> None:
    path = save(tmp_path / "a.pdx")

    async def main() -> None:
        async with started(path) as repository:
            old = repository.get()
            asking = [asyncio.ensure_future(ask(repository)) for _ in range(5)]
            save(path, 0.9)
            reloading = asyncio.ensure_future(repository.reload())
            while not reloading.done():
                version = (await ask(repository)).index_version
                assert version in (old.version, repository.get().version)
            new = repository.get()
            assert reloading.result() == {"a": new.version} != {"a": old.version}
            assert (await ask(repository)).expected_accuracy == 0.9
            for answer in await asyncio.gather(*asking):
                assert answer.index_version == old.version
            assert new.metrics is old.metrics
            assert repository.metrics("a").reloads["ok"] == 1

    run(main())


def test_repository_opens_no_file_twice_that_has_not_changed(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pdx")

    async def main() -> None:
        async with started(path) as repository:
            served = repository.get()
            assert await repository.reload("a") == {"a": served.version}
            assert repository.get() is served

    run(main())


def test_repository_keeps_what_it_has_where_the_new_file_is_bad(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = save(tmp_path / "good.pdx"), save(tmp_path / "bad.pdx")

    async def main() -> None:
        async with started(bad, good) as repository:
            old = repository.get("bad")
            bad.with_suffix(".tmp").write_bytes(b"no index")
            bad.with_suffix(".tmp").replace(bad)
            save(good, 0.9)
            with pytest.raises(ReloadFailed) as caught:
                await repository.reload()
            assert str(caught.value) == (
                "model 'bad': its file cannot be served (bad_index_file); the log "
                "says why"
            )
            assert repository.get("bad") is old
            assert repository.state("bad").state == "READY"
            assert repository.metrics("bad").reloads["failed"] == 1
            assert (await ask(repository, "good")).expected_accuracy == 0.9
            await repository.unload("bad")
            with pytest.raises(ReloadFailed):
                await repository.load("bad")
            assert "bad_index_file" in repository.state("bad").reason

    run(main())
    assert str(bad) in caplog.text


def save_of_records(path: Path) -> None:
    """Write an index for other items, which breaks callers of the tiny index."""
    records.make_index().save(path)


def test_repository_refuses_an_index_that_would_break_callers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save(tmp_path / "a.pdx")

    async def main() -> None:
        async with started(path) as repository:
            old = repository.get()
            save_of_records(path)
            for call in (repository.reload, lambda: repository.load("a")):
                with pytest.raises(ChangedContract) as caught:
                    await call()
            said = str(caught.value)
            assert said == (
                "model 'a': the new index would break callers: its items are of the "
                "kind record, not text; it has the new labels stays, flies; it lacks "
                "the labels ham, spam (--allow-changes, or allow_changes=true, lets it "
                "in)"
            )
            assert said in caplog.text
            assert repository.get() is old
            assert repository.state("a") == ("READY", "")
            assert repository.metrics("a").reloads["refused"] == 2
            assert (await ask(repository)).expected_accuracy == 0.95
            await repository.unload("a")
            with pytest.raises(ChangedContract):
                await repository.load("a")
            assert "would break callers" in repository.state("a").reason
            await repository.reload("a", allow_changes=True)
            assert repository.get().planner.package.kind == "record"
            save(path)
            with pytest.raises(ChangedContract):
                await repository.reload()

    run(main())


def test_repository_replaces_anything_where_the_operator_allows_it(
    tmp_path: Path,
) -> None:
    path = save(tmp_path / "a.pdx")

    async def main() -> None:
        settings = Settings(allow_changes=True)
        repository = Repository([path], features=OWN, settings=settings)
        await repository.start()
        save_of_records(path)
        await repository.reload()
        assert repository.get().planner.package.kind == "record"
        await repository.stop()

    run(main())


def test_repository_of_a_parent_keeps_what_workers_keep(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pdx")
    repository = Repository([path], features=OWN)
    old = repository.get().version
    save_of_records(path)
    repository.reopen()
    assert repository.get().version == old
    repository.orders.path = tmp_path / "orders.json"
    repository.orders.allow(Index.load(path).version)
    repository.reopen()
    assert repository.get().planner.package.kind == "record"


def test_repository_forgets_an_index_that_was_replaced(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pdx")

    async def main() -> None:
        async with started(path) as repository:
            await ask(repository)
            old = weakref.ref(repository.get().planner)
            save(path, 0.9)
            gc.disable()
            try:
                await repository.reload()
                await asyncio.sleep(0)
                assert old() is None, "its pages would stay mapped"
            finally:
                gc.enable()

    run(main())


def test_repository_counts_together_what_waits_for_any_of_its_indexes(
    tmp_path: Path,
) -> None:
    paths = [save(tmp_path / "a.pdx"), save(tmp_path / "b.pdx")]

    async def main() -> None:
        repository = Repository(paths, features=OWN)
        for name in repository.names():
            repository.get(name).ready = True
        # nobody computes yet
        asking = [asyncio.ensure_future(ask(repository, n)) for n in ("a", "b", "b")]
        await asyncio.sleep(0)
        waiting = {n: repository.get(n).queue.waiting for n in repository.names()}
        assert waiting == {"a": 3, "b": 3}
        await repository.start()
        await asyncio.gather(*asking)
        await repository.stop()
        assert repository.queue.waiting == 0

    run(main())


def test_work_that_is_patient_gives_its_result_or_its_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(save(tmp_path / "a.pdx")) as repository:
            assert await repository.queue.compute(lambda: math.pi) == math.pi
            with pytest.raises(ZeroDivisionError):
                await repository.queue.compute(lambda: 1 // 0)

    run(main())

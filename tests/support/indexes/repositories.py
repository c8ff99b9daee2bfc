"""A repository of small indexes that runs while a test asks it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from polydom.server.runtime.repository import Repository
from tests.support.indexes.served import FEATURES_FILE

T = TypeVar("T")
OWN = [FEATURES_FILE]
WAIT_S = 30


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, WAIT_S))


@asynccontextmanager
async def started(*paths: Path) -> AsyncIterator[Repository]:
    repository = Repository(paths, features=OWN)
    await repository.start()
    try:
        yield repository
    finally:
        await repository.stop()

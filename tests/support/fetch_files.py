"""A fetch of a .toml file, loaded, and asked in an event loop of its own."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polydom.features.fetches.fetch import Fetch, Key
from polydom.features.fetches.load import load_fetches


def load_text(folder: Path, text: str) -> dict[str, Fetch]:
    """The fetches of a .toml file with this text."""
    file = folder / "fetches.toml"
    file.write_text(text, "utf-8")
    return load_fetches([file])


def load_one(folder: Path, **terms: object) -> Fetch:
    """The fetch `orders` with these terms, each a text, a number or a list of texts."""
    lines = [f"{term} = {value!r}" for term, value in terms.items()]
    return load_text(folder, "\n".join(["[orders]", *lines]))["orders"]


def bring(fetch: Fetch, *keys: Key) -> list[Mapping[str, Any] | None]:
    """What a fetch brings for keys; its connections are closed then."""
    return [*asyncio.run(_bring(fetch, keys))]


async def _bring(fetch: Fetch, keys: Sequence[Key]) -> Any:
    try:
        return await asyncio.wait_for(fetch.bring(keys, 1.0), 60)
    finally:
        if fetch.close is not None:
            await fetch.close()

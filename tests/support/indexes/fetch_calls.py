"""Fetches for the index in `fetched`, which wait as long as their keys say.

A key is the seconds until its values come, a space, and any other text. If this text is
"raises", the call fails. The call of `employer` takes many keys, and lasts as long as
the longest says; `orders` takes one key in a call.
"""

from pathlib import Path

from polydom.server.settings import Settings

FETCHES = """
import asyncio
from pathlib import Path
from polydom.features import fetch

CALLS = Path(__file__).with_suffix(".calls")
TERMS = {"key": ["customer_id"], "at_most_ms": 60_000}

async def wait(name, keys):
    with CALLS.open("a") as calls:
        calls.write(f"{name} {len(keys)}\\n")
    await asyncio.sleep(max(float(key.partition(" ")[0]) for (key,) in keys))
    if any(key.endswith("raises") for (key,) in keys):
        raise ValueError("the table is locked")

@fetch(columns=["job"], **TERMS)
async def employer(keys, left_s):
    await wait("employer", keys)
    return [{"job": "pilot"} for _ in keys]

@fetch(columns=["n_orders", "mean_amount"], batch=1, at_once=1000, **TERMS)
async def orders(keys, left_s):
    await wait("orders", keys)
    return [[9, 75.5] for _ in keys]
"""
GIVEN = {"age": 52.5, "height": 1.8}  # columns of a record whose others are fetched
BROUGHT = {"job": "pilot", "n_orders": 9, "mean_amount": 75.5}  # what fetches bring
NEVER_S = 30.0  # seconds of a key that no test waits for
SETTINGS = Settings(max_budget_s=60.0, rescale=False)


def save_fetches(folder: Path) -> Path:
    """Write the fetches into a folder; the path of their file."""
    file = folder / "fetches.py"
    file.write_text(FETCHES)
    return file


def calls_of(file: Path) -> list[str]:
    """Return the calls so far and forget them: the name and how many keys, each."""
    calls = file.with_suffix(".calls")
    lines = calls.read_text().splitlines() if calls.exists() else []
    calls.write_text("")
    return lines

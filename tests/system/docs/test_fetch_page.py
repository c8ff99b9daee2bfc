"""The how-to about fetches, from an empty folder, with a real Redis."""

from pathlib import Path

import pytest

from tests.support import documents
from tests.support.pages import read
from tests.support.redis_server import serving_redis

pytestmark = pytest.mark.jit

QUICK = {
    "# PROJECT.toml\n": (
        "# PROJECT.toml\nworkers = 1\nsearch = { budget_s = 0.3 }\n"
        "costs = { items = 12, repeats = 2 }\n"
    ),
    "range(3000)": "range(1200)",
}


class Reader(documents.Reader):
    """A reader for whom Redis runs already."""

    def _run(self, command: str) -> str:
        return "" if command.startswith("docker ") else super()._run(command)


def test_a_newcomer_gets_answers_from_redis(tmp_path: Path) -> None:
    # what has come in time depends on how busy the machine is
    page = documents.with_any_fetch_state(read("how-to/fetch.md"))
    page, _, _ = page.partition("## Given, null and absent")
    with serving_redis() as redis:
        here = page.replace("localhost:6379", f"127.0.0.1:{redis.port}")
        with Reader(tmp_path, ("payment", "orders", "risk"), QUICK) as reader:
            reader.follow(here)
        assert reader.shown == 7

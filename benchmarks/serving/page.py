"""What the page weighs, how soon it is drawn, and what its polling costs a server.

python -m benchmarks page            builds the demo's index, about 30 s
python -m benchmarks page INDEX.pdx  of one that is there

Drawn: a Chromium that keeps nothing, then the same that kept the page's files. Polled:
`/metrics` twice in four seconds, as a page does that is seen, beside one connection
that asks at a fixed rate; rounds with and without polling take turns.
"""

import http.client
import time
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from playwright.sync_api import Browser, BrowserContext

from polydom.indexer import Index
from polydom.server.page.assets import STATIC, Assets
from tests.support.browser import find_browser, launching
from tests.support.meanwhile import meanwhile
from tests.support.servers import serving

from .. import report
from .demo_index import index_file
from .one_by_one import body_of
from .open_loop import Load, latencies_s

EVERY_S, RATE, BUDGET_MS = 2.0, 50.0, 20.0


class Effort(NamedTuple):
    """How often the page is drawn and polls; rounds of requests, of some seconds."""

    drawn: int = 15
    polls: int = 400
    rounds: int = 6
    seconds: float = 15.0


QUICK = Effort(1, 10, 1, 0.2)
SKYLINE = """() => new Promise((done) => {
  const look = () => document.querySelector(".skyline circle")
    ? done(performance.now()) : requestAnimationFrame(look);
  look();
})"""
PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0].startTime"""


def weigh() -> dict[str, dict[str, float]]:
    """Bytes of what a browser loads for the page, and of all that is in the wheel."""
    assets = Assets()
    page = assets.page("index.html").decode()
    used = {"index.html": page.encode()} | {
        name: content
        for name, content in assets.files.items()
        if f"/{name}" in page or (name.endswith(".js") and "docs" not in name)
    }
    used = {n: c for n, c in used.items() if "report" not in n}
    every = {
        str(path): path.read_bytes() for path in STATIC.rglob("*") if path.is_file()
    }
    return {
        name: {
            "files": len(files),
            "kB": sum(map(len, files.values())) / 1e3,
            "deflated kB": sum(len(zlib.compress(c, 9)) for c in files.values()) / 1e3,
        }
        for name, files in (("the page", used), ("in the wheel", every))
    }


def draw(browser: Browser, address: str, times: int) -> dict[str, dict[str, float]]:
    """Milliseconds from the request to the first paint, and to the skyline drawn."""

    def once(context: BrowserContext) -> tuple[float, float]:
        page = context.new_page()
        page.goto(address)
        skyline = page.evaluate(SKYLINE)
        paint = page.evaluate(PAINT)
        page.close()
        return paint, skyline

    cold, warm = [], []
    for _ in range(times):
        with browser.new_context() as context:
            cold.append(once(context))
            warm.append(once(context))
    return {
        name: dict(
            zip(("first paint", "skyline"), np.median(took, axis=0), strict=True)
        )
        for name, took in (("nothing kept", cold), ("files kept", warm))
    }


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process and its threads have had."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def get(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    return len(connection.getresponse().read())


def poll_often(pid: int, port: int, polls: int) -> dict[str, float]:
    """What one poll costs the server, and a page that is seen of a core."""
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        size = get(connection, "/metrics")
        time.sleep(polls / 200)
        began_s, before_s = time.perf_counter(), processor_s(pid)
        time.sleep(polls / 100)
        idle = (processor_s(pid) - before_s) / (time.perf_counter() - began_s)
        began_s, before_s = time.perf_counter(), processor_s(pid)
        for _ in range(polls):
            get(connection, "/metrics")
            time.sleep(0.005)
        passed_s = time.perf_counter() - began_s
    each_s = (processor_s(pid) - before_s - idle * passed_s) / polls
    return {"bytes": size, "ms": each_s * 1e3, "% of a core": each_s / EVERY_S * 100}


def ask(port: int, requests: list[bytes], seconds: float) -> list[float]:
    load = Load(port, requests, 1)
    return [1e3 * one for one in latencies_s(load.open(RATE, seconds)).tolist()]


def beside(
    port: int, requests: list[bytes], effort: Effort
) -> dict[str, dict[str, float]]:
    """Milliseconds of answers with and without a page that polls, rounds in turn."""
    took: dict[str, list[float]] = {"no page": [], "a page": []}
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        ask(port, requests, effort.seconds)
        for _ in range(effort.rounds):
            took["no page"] += ask(port, requests, effort.seconds)
            with meanwhile(lambda: get(connection, "/metrics"), EVERY_S):
                took["a page"] += ask(port, requests, effort.seconds)
    shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    return {
        name: {k: float(np.quantile(all_of_them, q)) for k, q in shares.items()}
        for name, all_of_them in took.items()
    }


def request_of(kind: str, sample: Any) -> bytes:
    body = body_of(kind, sample, BUDGET_MS)
    head = (
        "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def measure(path: Path, effort: Effort) -> dict[str, Any]:
    package = Index.load(path).package
    assert package is not None
    requests = [request_of(package.kind, one) for one in package.meta["samples"]]
    found: dict[str, Any] = {"bytes": weigh()}
    with serving(path) as (process, port):
        executable = find_browser()
        if executable is not None:
            address = f"http://127.0.0.1:{port}/"
            with launching(executable) as browser:
                found["ms, medians"] = draw(browser, address, effort.drawn)
        found["one poll"] = poll_often(process.pid, port, effort.polls)
        found["answers, ms"] = beside(port, requests, effort)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("index", nargs="?", type=Path)
    given = parser.parse_args(arguments)
    with index_file(given.index, given.quick) as path:
        report.tell(measure(path, QUICK if given.quick else Effort()), given)

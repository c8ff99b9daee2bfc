"""What items of other kinds, workers, and a proxy in front make of the rate.

The record of `requests`, by itself, behind nginx, which keeps connections to the
server and gives every request an id, and by two and four workers; a text and an image.
All as JSON, each request with an id of its own. `hello` is bare ASGI without a model,
alone and behind the same nginx. One server at a time; workers and nginx are on all
cores, which they share with the generator, other servers have one.
"""

import argparse
import base64
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polydom.indexer import BudgetClassifier, Index

from .. import report
from . import record_index
from .demo_index import built
from .saturation import CONNECTIONS, Contender, free_port, saturate, wait_for

TEXTS, IMAGES = "texts.pdx", "digits.pdx"
# its name, its index or none for hello, options of `serve`, whether nginx is before
SETUPS: list[tuple[str, str, list[str], bool]] = [
    ("hello", "", [], False),
    ("hello behind nginx", "", [], True),
    ("a record", record_index.INDEX, [], False),
    ("a record behind nginx", record_index.INDEX, [], True),
    ("a record, 2 workers", record_index.INDEX, ["--workers", "2"], False),
    ("a record, 4 workers", record_index.INDEX, ["--workers", "4"], False),
    ("a text of 5 to 120 words", TEXTS, [], False),
    ("an image of 32 to 256 pixels", IMAGES, [], False),
]
WORDS, LONGEST = 3000, 120
NGINX = """
daemon off; worker_processes 1;
pid %(folder)s/nginx.pid; error_log %(folder)s/nginx.log;
events { worker_connections 1024; }
http {
  access_log off;
  upstream server { server 127.0.0.1:%(to)d; keepalive 64; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:%(port)d backlog=511;
    keepalive_requests 1000000;
    location / {
      proxy_pass http://server;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Request-Id $request_id;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }
  }
}
"""


def write_indexes(folder: Path) -> dict[str, list[bytes]]:
    """Build an index of texts and the demo's; bodies to ask each for, by its name."""
    built(folder)
    texts, labels = draw_texts(1500)
    model = BudgetClassifier(kind="text", search_budget_s=20).fit(texts, labels)
    model.save(folder / TEXTS)
    package = Index.load(folder / IMAGES).package
    assert package is not None
    images = [base64.b64encode(one).decode() for one in package.meta["samples"]]
    return {
        TEXTS: bodies_of("text", draw_texts(300)[0]),
        IMAGES: bodies_of("image_base64", images),
    }


def draw_texts(count: int) -> tuple[list[str], list[str]]:
    """Texts of drawn words, some of them likelier in one of two classes."""
    draw = np.random.default_rng(count)
    labels = draw.integers(0, 2, count)
    texts = []
    for label in labels:
        words = draw.zipf(1.3, draw.integers(5, LONGEST)) % WORDS
        words = np.append(words, draw.integers(0, 40, 3) + 40 * label)
        texts.append(" ".join(f"w{word}" for word in words))
    return texts, [("ham", "spam")[label] for label in labels]


def bodies_of(name: str, items: list[str]) -> list[bytes]:
    """Requests for items, each with the largest budget."""
    return [json.dumps({name: item, "budget_ms": 1000}).encode() for item in items]


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Medians of each setup, at one connection and at 32."""
    record_index.write(folder, given.rows, given.quick)
    asked = {} if given.quick else write_indexes(folder)
    rows = json.loads((folder / record_index.ROWS).read_text())
    asks = [{"record": record_index.record(row), "budget_ms": 50} for row in rows]
    asked[record_index.INDEX] = [json.dumps(ask).encode() for ask in asks]
    table = []
    for name, index, options, proxied in SETUPS[:1] if given.quick else SETUPS:
        if proxied and shutil.which("nginx") is None:
            continue
        bodies = asked[index or record_index.INDEX]
        with contextlib.ExitStack() as stack:
            port = free_port()
            command = command_of(index, options, folder, port)
            server = Contender(name, port, bodies, "/v1/predict")
            stack.enter_context(server.started(command, folder))
            shares = proxied or bool(options)
            pin_to(server.process.pid, every=shares)
            report.unpin() if shares else report.pin(0)
            if proxied:
                server.port = stack.enter_context(behind_nginx(server.port, folder))
                wait_for(server)
            for _ in range(given.rounds):
                for connections in CONNECTIONS:
                    saturate(server, connections, given.seconds, folder)
        table += [summary(name, count, runs) for count, runs in server.runs.items()]
    return {"what is around a request": table}


def command_of(
    index: str, options: Sequence[str], folder: Path, port: int
) -> list[str]:
    """What starts a server at a port."""
    if not index:
        script = Path(__file__).parents[1] / "peers" / "peer_servers.py"
        return [sys.executable, str(script), "hello", str(port), str(folder)]
    own = [sys.executable, "-m", "polydom", "serve", str(folder / index)]
    return [*own, *options, "--port", str(port)]


@contextlib.contextmanager
def behind_nginx(to: int, folder: Path) -> Iterator[int]:
    """Proxy a server; the port to ask."""
    port, config = free_port(), folder / "nginx.conf"
    config.write_text(NGINX % {"folder": folder, "to": to, "port": port})
    process = subprocess.Popen(["nginx", "-c", str(config)])
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def pin_to(pid: int, every: bool) -> None:
    """Have a process on the last core, or on every one, where that can be said."""
    if report.CORES:
        os.sched_setaffinity(pid, report.CORES if every else {max(report.CORES)})


def summary(
    name: str, connections: int, runs: list[dict[str, float]]
) -> dict[str, Any]:
    """Medians of runs."""
    line: dict[str, Any] = {"setup": name, "connections": connections}
    for key in ("rate", "p50_us", "p99_us", "cpu_us"):
        line[key] = statistics.median(run[key] for run in runs)
    return line | {"wrong": sum(run["wrong"] for run in runs)}

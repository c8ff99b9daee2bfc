"""Build an index of digits, serve it, and ask it at several budgets.

python docs/demo/demo.py [FOLDER]    leaves the server up

FOLDER gets the index, and the digits that it was not built of, for `polydom evaluate`.
"""

import http.client
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from polydom.features.items import Item
from polydom.indexer import Index
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.data.split import split
from polydom.indexer.building.project import Project

HERE = Path(__file__).resolve().parent
POLYDOM = [sys.executable, "-m", "polydom.server"]
PORT = 8000
ASKED = 200
WAIT_S = 60.0
GENEROUS_MS = 1000.0
BUDGETS = 6

console = Console()


def main(folder: Path) -> int:
    """Build, serve, ask, and print what came back."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "digits.pdx"
    cache = folder / ".polydom-cache"
    run(["build", str(HERE / "PROJECT.toml"), f"--cache={cache}", "-o", str(path)])
    index = Index.load(path)
    server = serve(path, folder / "server.log")
    items, labels = held_out(Project.load(HERE / "PROJECT.toml"))
    keep(items, labels, folder / "held-out")
    answers = [ask(item, GENEROUS_MS) for item in items]
    floor_ms = max(own_ms(answer) for answer in sorted(answers, key=own_ms)[:-2])
    table = Table(
        title=f"{len(items)} held-out digits, asked one at a time over HTTP", box=None
    )
    for name in ("budget ms", "accuracy", "in time", "predicted us", "actual us"):
        table.add_column(name, justify="right")
    table.add_column("bought most often")
    for budget_ms in budgets(index, floor_ms):
        answers = [ask(item, budget_ms) for item in items]
        table.add_row(*summarise(budget_ms, answers, labels))
    console.print(table)
    console.print(
        f"The server itself takes up to {floor_ms:.2f} ms of each budget, here and "
        "now,\nfor reading, queueing and answering. What is left buys features; where\n"
        "nothing is, the most frequent class answers. A busy machine needs more."
    )
    console.print(
        f"the server is up: pid {server.pid}, http://127.0.0.1:{PORT} (open it)\n"
        f"stop it with: kill {server.pid}"
    )
    return 0


def run(arguments: list[str]) -> None:
    """Run a polydom command as a user would, showing it."""
    console.print(f"[bold]$ polydom {' '.join(arguments)}[/bold]")
    subprocess.run([*POLYDOM, *arguments], check=True)


def serve(index: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a server that outlives this script, and wait until it is ready."""
    arguments = ["serve", str(index), "--port", str(PORT)]
    console.print(f"[bold]$ polydom {' '.join(arguments)} &[/bold]")
    start = time.monotonic()
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*POLYDOM, *arguments],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    while time.monotonic() - start < WAIT_S:
        if server.poll() is not None:
            raise SystemExit(f"the server stopped:\n{log.read_text()}")
        if ready():
            console.print(f"ready after {time.monotonic() - start:.1f} s")
            return server
        time.sleep(0.05)
    server.kill()
    raise SystemExit(f"the server is not ready after {WAIT_S:.0f} s; see {log}")


def ready() -> bool:
    """Say whether the server answers that it is warm."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=1)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def held_out(project: Project) -> tuple[list[Item], list[str]]:
    """Items that no model was trained on, and their labels."""
    dataset: Dataset = load_data(project)
    search = project.search
    ((_, rows),) = split(
        dataset, seed=project.seed, held_out=search.held_out, folds=search.folds
    )
    rows = rows[:: max(1, len(rows) // ASKED)][:ASKED]
    return (
        [dataset.items[row] for row in rows],
        [dataset.labels[dataset.codes[row]] for row in rows],
    )


def keep(items: list[Item], labels: list[str], folder: Path) -> None:
    """Write items to a folder for each label."""
    for number, (item, label) in enumerate(zip(items, labels, strict=True)):
        path = folder / label / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(item.payload)


def budgets(index: Index, floor_ms: float) -> list[float]:
    """Milliseconds: one that buys nothing, then ones up to twice what buys all."""
    low, high = index.sizes
    dearest_s = max(
        index.cost_s(int(index.skyline(size)[-1]), size) for size in (low, high)
    )
    enough_ms = floor_ms + dearest_s * 1e3
    return [
        floor_ms / 4,
        *np.geomspace(1.5 * floor_ms, 2 * enough_ms, BUDGETS).tolist(),
    ]


def own_ms(answer: dict[str, Any]) -> float:
    """Milliseconds of an answer that went into anything but its plan."""
    return float(answer["elapsed_us"] - answer["actual_us"]) / 1e3


def ask(item: Item, budget_ms: float) -> dict[str, Any]:
    """Send one image; the answer is the server's JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
    assert isinstance(item.payload, bytes)
    headers = {"Content-Type": "image/png", "X-Budget-Ms": str(budget_ms)}
    connection.request("POST", "/v1/predict", item.payload, headers)
    answer: dict[str, Any] = json.load(connection.getresponse())
    connection.close()
    return answer


def summarise(
    budget_ms: float, answers: list[dict[str, Any]], labels: list[str]
) -> list[str]:
    """One row of the table: how right, how punctual, and by which plans."""
    right = sum(a["label"] == b for a, b in zip(answers, labels, strict=True))
    met = sum(a["budget_met"] for a in answers)
    plans = Counter(", ".join(a["features"]) or "class prior" for a in answers)
    return [
        f"{budget_ms:.2f}",
        f"{right / len(labels):.3f}",
        f"{met / len(labels):.1%}",
        f"{statistics.median(a['predicted_us'] for a in answers):.0f}",
        f"{statistics.median(a['actual_us'] for a in answers):.0f}",
        "\n".join(f"{n}x {plan}" for plan, n in plans.most_common(2)),
    ]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")))

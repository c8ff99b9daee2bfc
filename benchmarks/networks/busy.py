"""Whether budgets hold with a network on a busy machine, and what its steps take there.

python -m benchmarks busy                  builds an index, some minutes
python -m benchmarks busy --cache FOLDER   keeps it, as `headline` does

Idle, and then beside a process on each core that does nothing but count: milliseconds
of each step of the chains of the network, by the wall, of photographs that no build has
seen; and the same photographs asked for over HTTP within budgets, one at a time, the
server on one core and the client on another. In time and right are by the client's
clock; `spent` is the p99 of the server's time as a part of the budget.
"""

import contextlib
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polydom.features.feature import Feature, Step
from polydom.features.items import Item
from polydom.indexer import Index
from polydom.server.settings import Settings

from .. import report
from ..serving.headline import ENOUGH_MS, Way, ask
from ..serving.headline_table import POLYDOM
from ..serving.indexes.image_sets import ImageSet
from ..serving.served import serving
from .photo_index import options, photos

BUDGETS_MS = (2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0)
STEPPED, WARM = 200, 5


def burn(core: int) -> None:
    """Count on one core, for ever."""
    report.pin(core)
    while True:
        pass


@contextlib.contextmanager
def burning() -> Iterator[None]:
    """Have a process on every core that takes what it gets."""
    context = multiprocessing.get_context("spawn")
    cores = sorted(report.CORES) or [0]
    processes = [context.Process(target=burn, args=(core,)) for core in cores]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def chains(index: Index) -> list[Feature]:
    """The features that are pieces of networks, and that an index uses."""
    package = index.package
    assert package is not None
    features = package.extractor().features
    return [features[k] for k in package.used if package.features[k].stage]


def times_ms(features: Sequence[Feature], items: Sequence[Item]) -> dict[str, Any]:
    """Median and p99 of each step, by its name, the feature's function at its end."""
    taken: dict[str, list[float]] = {}

    def value(step: Feature | Step, item: Item, known: dict[Any, Any]) -> Any:
        if id(step) not in known:
            needs = [value(need, item, known) for need in step.needs]
            began_s = time.perf_counter()
            known[id(step)] = step.function(*(needs or [item.payload]))
            took_ms = 1e3 * (time.perf_counter() - began_s)
            taken.setdefault(step.name, []).append(took_ms)
        return known[id(step)]

    for item in [*items[:WARM], *items]:
        known: dict[Any, Any] = {}
        for feature in features:
            value(feature, item, known)
    kept = {name: own[WARM:] for name, own in taken.items()}
    return {name: np.quantile(own, (0.5, 0.99)).tolist() for name, own in kept.items()}


def over_http(images: ImageSet, budgets_ms: Sequence[float]) -> list[dict[str, float]]:
    """Share in time, share right and in time, and the time spent, by budget."""
    with serving(
        {POLYDOM: images.path}, Settings(max_budget_s=ENOUGH_MS / 1e3)
    ) as port:
        ways = [Way(POLYDOM, budget_ms, port) for budget_ms in budgets_ms]
        answers = ask(ways, images, 1)
    report.unpin()
    rows = []
    for number, budget_ms in enumerate(budgets_ms):
        right, in_time = answers.within(number, budget_ms)
        spent = np.quantile(answers.server_ms[..., number], 0.99) / budget_ms
        rows.append({"in time": in_time, "right": right, "spent": float(spent)})
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    given = options(__name__).parse_args(arguments)
    budgets_ms = BUDGETS_MS[::3] if given.quick else BUDGETS_MS
    steps: dict[str, dict[str, float]] = {}
    budgets = [{"budget ms": budget_ms} for budget_ms in budgets_ms]
    with photos(given) as made:
        images = made.with_network
        features = chains(Index.load(images.path))
        for how, beside in (("idle", contextlib.nullcontext()), ("busy", burning())):
            with beside:
                report.pin()
                for name, (p50, p99) in times_ms(
                    features, images.items[:STEPPED]
                ).items():
                    told = {f"{how} p50 ms": p50, f"{how} p99 ms": p99}
                    steps[name] = {**steps.get(name, {}), **told}
                report.unpin()
                for row, found in zip(
                    budgets, over_http(images, budgets_ms), strict=True
                ):
                    row |= {f"{how}, {key}": value for key, value in found.items()}
    report.tell({"steps": steps, "over HTTP": budgets}, given)

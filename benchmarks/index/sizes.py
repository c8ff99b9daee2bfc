"""What sizes of two numbers gain over one, and what they cost.

python -m benchmarks sizes

Predictions: features are timed on drawn images from very wide to very high, and on
texts of short and long words and sentences; cost curves of one number and of two are
fitted to the same times, and asked for the times of fresh items. Look-ups: candidates
are drawn as sums of features; nanoseconds of one look-up in compiled code, with random
sizes and budgets, the index's bytes without the candidates' curves, and seconds to
build it.
"""

import io
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from polydom.features.costs.curve import CostCurve
from polydom.features.costs.measure import Timings, measure
from polydom.features.extract import Extractor
from polydom.features.feature import Feature, feature
from polydom.features.items import Item, image_item, text_item
from polydom.features.loading import load_features
from polydom.features.ready_made.image_header import open_picture
from polydom.indexer.index.size_lookup import SizeLookup
from polydom.indexer.index.size_pair_lookup import SizePairLookup

from .. import report
from .kernels.lookups import cell_ranks, naive_pair_ranks, naive_ranks, polydom_ranks

Floats = NDArray[np.float64]
Table = list[dict[str, Any]]

IMAGES = ("thumbnail", "intensity_histogram", "moments", "projections", "dct")
TEXTS = ("text_length", "punctuation", "casing", "hashed_words", "readability")
ITEMS, REPEATS, QUANTILE = 60, 3, 0.99  # as many again are fresh
QUICK_ITEMS = 16
SIDES, MOST_PIXELS, QUICK_PIXELS = (16, 4096), 1_000_000, 20_000
CHARACTERS, QUICK_CHARACTERS = 100_000, 5_000
CANDIDATES = (100, 1_000, 10_000)
QUERIES, ROUNDS = 20_000, 7
LOW, HIGH = 16.0, 4096.0
# Seconds of drawn features: at most these, 1, a, b, a^2, ab, b^2
PAIR_COSTS = np.array([1e-3, 1e-6, 1e-6, 2e-10, 1e-9, 2e-10])
COSTS = np.array([1e-3, 1e-9, 1e-16])  # the same of pixels: 1, n, n^2


@feature(kind="image", name="rows")
def per_row(data: bytes) -> list[float]:
    """Work in proportion to the height alone, as of a list of lines or of edges."""
    total = 0
    for row in range(20 * open_picture(data).size[1]):
        total ^= row
    return [float(total)]


def draw_image(random: np.random.Generator, most: int) -> bytes:
    """A PNG of smooth noise with log-uniform sides, of at most so many pixels."""
    while True:
        sides = np.geomspace(*SIDES, 1000)[random.integers(1000, size=2)].astype(int)
        if sides.prod() <= most:
            break
    small = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(small).resize(tuple(sides.tolist())).save(file, "PNG")
    return file.getvalue()


def draw_text(random: np.random.Generator, most: int) -> str:
    """A text whose length, words' and sentences' lengths are log-uniform."""
    length = int(np.exp(random.uniform(np.log(100), np.log(most))))
    word, sentence = np.exp(random.uniform(np.log(2), np.log(20), 2)).astype(int)
    letters = np.array(list("etaoinshr"))
    words: list[str] = []
    while sum(map(len, words)) < length:
        own = "".join(random.choice(letters, word))
        words.append(own + (". " if len(words) % sentence == 0 else " "))
    return "".join(words)


def predict(quick: bool) -> Table:
    """Fit and compare, for images and for texts."""
    random = np.random.default_rng(0)
    count, few = (QUICK_ITEMS, 1) if quick else (2 * ITEMS, None)
    pixels = QUICK_PIXELS if quick else MOST_PIXELS
    characters = QUICK_CHARACTERS if quick else CHARACTERS
    images = [draw_image(random, pixels) for _ in range(count)]
    texts = [draw_text(random, characters) for _ in range(count)]
    return [
        *compare("images", [*load_features(IMAGES[:few]), per_row], images, image_item),
        *compare("texts", load_features(TEXTS[:few]), texts, text_item),
    ]


def compare(
    name: str,
    features: list[Feature] | tuple[Feature, ...],
    payloads: list[Any],
    make: Callable[..., Item],
) -> Table:
    """Time half of the items for fitting, and the other half for judging."""
    pairs = [make(payload, pair=True) for payload in payloads]
    extractor = Extractor.probe(features, pairs[0])
    # All in one go, so that both halves are timed on the machine as it then is.
    timings = measure(extractor, pairs, repeats=REPEATS)
    # rounds of all, without those that only looked at single features again
    whole = ~np.isnan(np.hstack([timings.feature_s, timings.step_s])).any(axis=1)
    timings = some_rows(timings, whole)
    for_fitting = {pair.size for pair in pairs[: len(pairs) // 2]}
    half = np.array([tuple(size) in for_fitting for size in timings.sizes.tolist()])
    fitted, judged = some_rows(timings, half), some_rows(timings, ~half)
    one = {
        pair.size: make(payload).size
        for pair, payload in zip(pairs, payloads, strict=True)
    }
    table = []
    for label, position in [
        *((f.name, k) for k, f in enumerate(features)),
        ("all", -1),
    ]:
        row: dict[str, Any] = {"items": name, "set": label}
        for numbers in (1, 2):
            ratios = judge(
                extractor, position, fitted, judged, one if numbers == 1 else None
            )
            for quantile in (0.5, 0.99):
                row[f"p{quantile * 100:g} of {numbers}"] = float(
                    np.quantile(ratios, quantile)
                )
        table.append(row)
    return table


def some_rows(timings: Timings, own: Any) -> Timings:
    """Keep the times of some rows."""
    return Timings(*(times[own] for times in timings))


def judge(
    extractor: Extractor,
    position: int,
    fitted: Timings,
    judged: Timings,
    one: dict[Any, Any] | None,
) -> Floats:
    """Actual over predicted seconds of one feature and its steps, -1 for all."""

    def of_set(timings: Timings) -> list[Floats]:
        if position < 0:
            return [*timings.feature_s.T, *timings.step_s.T]
        steps = [timings.step_s[:, step] for step in extractor.needs[position]]
        return [timings.feature_s[:, position], *steps]

    def sizes(timings: Timings) -> Floats:
        if one is None:
            return timings.sizes
        return np.array([one[tuple(size)] for size in timings.sizes.tolist()])

    predicted = np.zeros(len(judged.sizes))
    for seconds in of_set(fitted):
        curve = CostCurve.fit(sizes(fitted), seconds, quantile=QUANTILE)
        predicted += curve(sizes(judged))
    ratios: Floats = np.sum(of_set(judged), axis=0) / predicted
    return ratios


def look_up(counts: tuple[int, ...]) -> Table:
    """Time look-ups by number of candidates."""
    return [time_lookups(count, numbers) for count in counts for numbers in (1, 2)]


def draw_candidates(count: int, numbers: int) -> tuple[Floats, Floats]:
    """Sums of features of which each pays for some of the terms only."""
    random = np.random.default_rng(count)
    m = math.ceil(math.log2(count)) + 2
    limits = COSTS if numbers == 1 else PAIR_COSTS
    features = random.random((m, len(limits))) * limits
    features[:, 1:] *= random.random((m, len(limits) - 1)) < 0.4
    masks = random.choice(1 << m, count, replace=False)
    bits = (masks[:, np.newaxis] >> np.arange(m)) & 1
    gains = 1 - np.prod(1 - bits * random.random(m) * 0.3, axis=1)
    return bits @ features, gains


def time_lookups(count: int, numbers: int) -> dict[str, Any]:
    """One line of the table."""
    coefficients, gains = draw_candidates(count, numbers)
    random = np.random.default_rng(0)
    pairs = np.exp(random.uniform(np.log(LOW), np.log(HIGH), (QUERIES, 2)))
    sizes = pairs.prod(axis=1) if numbers == 1 else pairs
    budgets = 10 ** random.uniform(-4, -1, QUERIES)
    started_s = time.perf_counter()
    lookup: SizeLookup | SizePairLookup
    if numbers == 1:
        lookup = SizeLookup.build(coefficients, gains, (LOW**2, HIGH**2))
    else:
        lookup = SizePairLookup.build(coefficients, gains, ((LOW, LOW), (HIGH, HIGH)))
    build_s = time.perf_counter() - started_s
    arrays = lookup.arrays()
    searched = tuple(array for name, array in arrays.items() if name != "rows")
    fast, slow = (
        (polydom_ranks, naive_ranks) if numbers == 1 else (cell_ranks, naive_pair_ranks)
    )
    ranks, checked = np.empty(QUERIES, np.int64), np.empty(QUERIES, np.int64)
    order = np.argsort(gains, kind="stable")
    everyone = np.ascontiguousarray(coefficients[order])
    found_ns = nanoseconds(lambda: fast(*searched, sizes, budgets, ranks))
    naive_ns = nanoseconds(lambda: slow(everyone, sizes, budgets, checked), rounds=1)
    best = np.where(ranks < 0, -1, gains[lookup.rows[ranks]])
    assert np.array_equal(best, np.where(checked < 0, -1, gains[order[checked]]))
    own = ("coefficients", "rows")
    return {
        "candidates": count,
        "numbers": numbers,
        "kept": len(lookup.rows),
        "mean skyline": float(
            np.mean([len(lookup.skyline(size)) for size in map(as_size, sizes[:500])])
        ),
        **lookup.facts(),
        "ns": found_ns,
        "ns Naive": naive_ns,
        "bytes": sum(a.nbytes for name, a in arrays.items() if name not in own),
        "build s": build_s,
    }


def as_size(size: Any) -> Any:
    return float(size) if np.ndim(size) == 0 else tuple(size.tolist())


def nanoseconds(run: Callable[[], None], rounds: int = ROUNDS) -> float:
    """Least time of one query, over the rounds."""
    run()
    times = []
    for _ in range(rounds):
        started_ns = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - started_ns) / QUERIES)
    return min(times)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    given = report.options(__name__).parse_args(arguments)
    found = {
        "look-ups": look_up(CANDIDATES[: 1 if given.quick else None]),
        "actual over predicted": predict(given.quick),
    }
    report.tell(found, given)

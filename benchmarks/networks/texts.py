"""Where a network of texts pays: with few labels; and where the search leaves it out.

python -m benchmarks texts                        about half an hour
python -m benchmarks texts --only "10 reviews"    one case

Reviews of films and short messages, by what `polydom init` writes, without and with a
small network of sentences (all-MiniLM-L6 in 8 bits, its pieces at 32 and 128 tokens):
built of ten labelled texts a class, drawn anew for each of three rounds, and of all
texts. The last cases are a table made of the messages: the text itself, and how many
characters and how many digits it has; few rows are learned by `learner = "auto"`.

Texts that no build has seen are asked for one at a time in this process: told is the
share that is right and in time within each budget, the mean of the classes' shares, its
mean over the rounds, and the median time within the largest. Most messages are no spam,
so that a plain share would hide who finds what is. `plans` is how many plans the index
has, `with it` how many of these need the network; `best` is what the most accurate plan
expects, and `by it` 1 if it needs the network. `build s` is what the build took in one
process.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polydom.features.networks.terms import NetworkTerms
from polydom.features.threads import one_thread
from polydom.indexer import Index
from polydom.indexer.building.project_tables.features import Features
from polydom.indexer.building.project_tables.search import Search
from polydom.indexer.building.template import default_features
from polydom.server.engine.loading import load_index
from polydom.server.evaluation.labelled_items import read_labelled
from polydom.server.evaluation.predictors import IndexWithin
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Terms

from .. import report
from ..learners.default_sets import QUICK, SETS, Divided, Items, cut
from ..learners.defaults import ENDINGS, Kind, ask_all, build_default, write_items
from ..places import data_folder

BUDGETS_MS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
FILE, TOKENIZER = "all-minilm-l6-v2-int8.onnx", "all-minilm-l6-v2-tokenizer.json"
FEW = 10
ROUNDS, ASKED = 3, 400
SEARCH_S = 120.0  # what `polydom init --network` writes
QUICK_ASKED = 20


@dataclass(frozen=True)
class Case:
    """Texts, or rows of a table, and how many of each class are labelled."""

    kind: Kind
    load: Callable[[], Divided]
    folder: str | None = None  # Its name among the data sets
    few: bool = False  # True for `FEW` of each class


class Built(NamedTuple):
    """An index, and what it is built of."""

    path: Path
    build_s: float


def as_table(divided: Divided) -> Divided:
    """Make records of texts: the text, its characters, and its digits."""
    own, kept = (
        [
            (
                {
                    "message": text,
                    "characters": len(text),
                    "digits": sum(map(str.isdigit, text)),
                },
                label,
            )
            for text, label in items
        ]
        for items in divided
    )
    return own, kept


REVIEWS, MESSAGES = SETS["texts"]["reviews"], SETS["texts"]["messages"]
CASES = {
    "10 reviews": Case("texts", REVIEWS.load, REVIEWS.folder, few=True),
    "10 messages": Case("texts", MESSAGES.load, MESSAGES.folder, few=True),
    "all reviews": Case("texts", REVIEWS.load, REVIEWS.folder),
    "all messages": Case("texts", MESSAGES.load, MESSAGES.folder),
    "10 rows": Case(
        "tables", lambda: as_table(MESSAGES.load()), MESSAGES.folder, few=True
    ),
    "all rows": Case("tables", lambda: as_table(MESSAGES.load()), MESSAGES.folder),
}
DRAWN = {"drawn": Case("texts", QUICK["texts"]["drawn"].load, few=True)}


def network(quick: bool, folder: Path) -> NetworkTerms:
    """The network of texts; one with drawn weights for `--quick`."""
    place, names = data_folder() / "networks", (FILE, TOKENIZER)
    if quick:
        from tests.support.networks.small_networks import of_texts, tokenizer

        place = folder
        (place / FILE).write_bytes(of_texts().SerializeToString())
        (place / TOKENIZER).write_bytes(tokenizer())
    file, own = (str(place / name) for name in names)
    return NetworkTerms("minilm", file, "text", tokenizer=own)


def drawn(items: Items, count: int, seed: int) -> Items:
    """Draw so many items of each class."""
    random, chosen = np.random.default_rng(seed), list[int]()
    labels = np.array([label for _, label in items])
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        chosen += random.choice(rows, count, replace=False).tolist()
    return [items[row] for row in sorted(chosen)]


def built(
    case: Case, items: Items, networks: list[NetworkTerms], folder: Path, quick: bool
) -> Built:
    """Build what `polydom init` writes, and the networks beside it."""
    kind = case.kind
    folder.mkdir()
    use = default_features("text" if kind == "texts" else "record")
    features = Features(use=use, networks=networks)
    began_s = time.perf_counter()
    # What `init` writes for tables cannot split so few rows: it needs 20 in a leaf.
    learner = {"name": "auto"} if case.few and kind == "tables" else None
    search = Search(budget_s=SEARCH_S if networks else None)
    changes = {"features": features, "search": search}
    path = build_default(kind, items, 0, folder, quick, learner, **changes)
    return Built(path, time.perf_counter() - began_s)


def plans(path: Path) -> dict[str, Any]:
    """How many plans an index has, and how many of them need a network."""
    index = Index.load(path)
    assert index.package is not None
    pieces = {n for n, one in enumerate(index.package.features) if one.stage}
    needs = [bool(pieces & {*order}) for order in index.package.orders]
    best = int(index.qualities.argmax())
    return {
        "plans": len(needs),
        "with it": sum(needs),
        "best": float(index.qualities[best]),
        "by it": float(needs[best]),
    }


def right(case: Case, path: Path, kept: Items, folder: Path) -> dict[str, float]:
    """Ask for all kept items within each budget."""
    place = folder / f"kept{ENDINGS[case.kind]}"
    write_items(case.kind, kept, place)
    index, package = load_index(path)
    items = read_labelled(place, index, package, whole=True).items
    at_once = AtOnce(open_translator(index, []))
    within = [IndexWithin(at_once.answer, Terms(budget_ms=one)) for one in BUDGETS_MS]
    asked = ask_all(within, items, 0)
    labels = np.array([one.label for one in items])
    rows = [labels == label for label in np.unique(labels)]
    rights = {
        f"{budget_ms:g} ms": float(
            np.mean([(found & (took_ms <= budget_ms))[own].mean() for own in rows])
        )
        for budget_ms, (found, took_ms) in zip(BUDGETS_MS, asked, strict=True)
    }
    return rights | {"p50 ms": float(np.median(asked[-1][1]))}


def compare(case: Case, quick: bool) -> dict[str, dict[str, Any]]:
    """Build and ask without and with the network; means over the rounds."""
    own, kept = case.load()
    kept = cut(kept, QUICK_ASKED if quick else ASKED)
    found: dict[str, list[dict[str, Any]]] = {"without": [], "with": []}
    for seed in range(ROUNDS if case.few and not quick else 1):
        items = drawn(own, FEW, seed) if case.few else own
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            for name, rows in found.items():
                terms = [network(quick, folder)] if name == "with" else []
                path, build_s = built(case, items, terms, folder / name, quick)
                row = right(case, path, kept, folder) | plans(path)
                rows.append({"items": len(items), **row, "build s": build_s})
    return {
        name: {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        for name, rows in found.items()
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--only", nargs="+", choices=CASES, default=[*CASES])
    given = parser.parse_args(arguments)
    cases = DRAWN if given.quick else {name: CASES[name] for name in given.only}
    lines = []
    with one_thread():
        for name, case in cases.items():
            if case.folder is not None:
                report.need(given, case.folder, "networks")
            for which, row in compare(case, given.quick).items():
                lines.append({"labels": name, "network": which, **row})
    report.tell({"right within": lines}, given)

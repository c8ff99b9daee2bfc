"""How much time do cheap features save before a classifier that somebody already has?

python -m benchmarks existing                 builds some indexes, asks; some minutes
python -m benchmarks existing --cache FOLDER  keeps the indexes there

The classifier is one ONNX file, from pixels to probabilities: a network that was
trained on other images, and a logistic regression on its output. It says whether a
scene is nature, or built by people. A third of the images was its training; from the
others polydom builds an index: "told" knows their classes from the classifier alone,
"true" from people. Early exits are calibrated on the classifier's own images, too,
without their labels, and their index prefers the set that has cheap features before the
classifier to the classifier alone. All are asked for images that neither has seen, one
by one in this process; `agrees` is the share of answers that are the classifier's.

The second table is about the model on top of a classifier's columns, for all kinds of
scenes: columns that are probabilities or raw scores, many or few items, and what a
learner makes of them. `agrees` is for labels that the classifier told, `right` for true
ones.
"""

import csv
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polydom.features.extract import Extractor
from polydom.features.items import make_item
from polydom.features.networks.open_network import open_network
from polydom.features.networks.terms import network
from polydom.indexer import build
from polydom.indexer.building.project import Project
from polydom.models.selection.learners import make_learner
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Terms

from .. import report
from ..data import digits, scenes
from ..data.kept_items import kept
from ..peers.whole_network import MEAN, STD
from ..serving.indexes.image_sets import network_file

NATURE = {"Coast", "Forest", "Mountain", "OpenCountry"}
QUICK_NATURE = {"0", "1", "2", "3", "4"}
CHEAP = ["thumbnail", "colour_histogram", "small_hog", "intensity_histogram"]
SIDE, QUICK_SIDE = 224, 32
BUDGETS_MS, ENOUGH_MS = (2.0, 3.0, 5.0, 8.0, 12.0), 1000.0
ALPHAS = (0.02, 0.05)
BEFORE_US = 10_000.0  # What cheap features may take before the classifier
ASKED, QUICK_ASKED = 600, 20
WARM = 30
C, QUICK_C = 0.1, 100.0  # of the regression
NAME = "mine"  # of the classifier
ON_TOP, FEW = ("logistic", "lda", "forest"), 300

Labels = NDArray[np.str_]
Floats = NDArray[np.floating[Any]]
Answers = tuple[Labels, NDArray[np.bool_], Floats]  # labels, came early, milliseconds


class Photos(NamedTuple):
    """Images, the name of what they show, and whether that is nature."""

    images: list[bytes]
    names: Labels
    labels: Labels


class Parts(NamedTuple):
    """Images in three parts."""

    training: Photos  # Of the classifier
    own: Photos  # Of the index
    fresh: Photos


def parts(quick: bool) -> Parts:
    """Divide the scenes, or a few digits."""
    nature = QUICK_NATURE if quick else NATURE
    rows: tuple[list[tuple[bytes, str]], ...] = ([], [], [])
    labelled = digits.few(lambda group: True) if quick else scenes.load()
    for number, (image, name, group) in enumerate(labelled):
        rows[2 if kept(group) else number % 3 > 0].append((image, name))
    made = []
    for part in rows:
        names = np.array([name for _, name in part])
        labels = np.where(np.isin(names, [*nature]), "nature", "built")
        made.append(Photos([image for image, _ in part], names, labels))
    return Parts(*made)


def terms_of(side: int) -> dict[str, Any]:
    """What a project says of a network of photographs, beside its name and file."""
    return {"kind": "image", "sides": [side], "mean": [*MEAN], "std": [*STD]}


class Whole:
    """An ONNX file of images that is asked whole, as its owner's program asks it."""

    def __init__(self, file: Path, side: int) -> None:
        made = open_network(network(NAME, file, outputs="end", **terms_of(side)))
        width = made.facts.pieces[0].width
        self._extractor = Extractor([made.feature(0, 0)], [width])

    def __call__(self, image: bytes) -> NDArray[np.float32]:
        """Return the columns of the network's output."""
        return self._extractor.extract(make_item(image))


def with_head(embedding: Path, X: Floats, labels: Labels, c: float) -> Any:
    """Return the network with a head: probabilities of two classes, in their order.

    X (N, W) is its output for N images, and `c` the C of the regression.
    """
    fitted = make_pipeline(StandardScaler(), LogisticRegression(C=c)).fit(X, labels)
    scaler, regression = (step for _, step in fitted.steps)
    weights = regression.coef_[0] / scaler.scale_
    bias = regression.intercept_[0] - scaler.mean_ @ weights
    model = onnx.load(embedding)
    names = [model.graph.output[0].name, "head weights", "head bias"]
    arrays = np.stack([0 * weights, weights], axis=1), np.array([0, bias])
    model.graph.initializer.extend(
        numpy_helper.from_array(array.astype(np.float32), name)
        for array, name in zip(arrays, names[1:], strict=True)
    )
    model.graph.node.append(helper.make_node("Gemm", names, ["logits"]))
    softmax = helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1)
    model.graph.node.append(softmax)
    del model.graph.output[:]
    output = helper.make_tensor_value_info("probabilities", 1, ["n", 2])
    model.graph.output.append(output)
    return model


def write(folder: Path, own: Photos, told: Labels, others: Sequence[bytes]) -> None:
    """Write images, two files with their labels, told and true, and other images."""
    files = [f"{number:05}.jpg" for number in range(len(own.images))]
    for place, images in (("photos", own.images), ("others", others)):
        (folder / place).mkdir(exist_ok=True)
        for number, image in enumerate(images):
            (folder / place / f"{number:05}.jpg").write_bytes(image)
    for name, labels in (("told", told), ("true", own.labels)):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            rows = zip(files, labels.tolist(), strict=True)
            csv.writer(file).writerows([("file", "label"), *rows])


def project(
    file: Path, side: int, labels: Path, alpha: float | None, quick: bool
) -> Project:
    """Return the project of an index that has the classifier's pieces as features."""
    terms = {"name": NAME, "file": str(file), **terms_of(side)}
    content: dict[str, Any] = {
        "data": {"images": "photos", "labels": labels.name},
        "features": {"use": CHEAP, "networks": [terms]},
        "learner": {"name": "logistic"},
        "exits": "off" if alpha is None else {"alpha": alpha},
        "search": {"held_out": 0.4},
    }
    if alpha is not None:
        content["data"]["unlabelled"] = "others"
        content["search"]["negligible_us"] = BEFORE_US
    if quick:
        content |= {"workers": 1, "costs": {"items": 12, "repeats": 1}}
        content["features"]["use"] = CHEAP[:1]
        content["search"] |= {"budget_s": 1.0}
    return Project.from_mapping(content, folder=labels.parent)


def asked(ask: Callable[[bytes], tuple[str, bool]], images: Sequence[bytes]) -> Answers:
    """Ask for all images, after a few that warm the caches."""
    for image in images[:WARM]:
        ask(image)
    labels, early, took_ms = [], [], []
    for image in images:
        began_s = time.perf_counter()
        label, stopped = ask(image)
        took_ms.append((time.perf_counter() - began_s) * 1e3)
        labels.append(label)
        early.append(stopped)
    return np.array(labels), np.array(early), np.array(took_ms)


def line(answers: Answers, right: Labels, own: Labels, budget_ms: float) -> Any:
    """What is told of answers; `own` are the classifier's."""
    labels, early, took_ms = answers
    inside = took_ms <= budget_ms
    return {
        "budget ms": budget_ms,
        "right, in time": float(((labels == right) & inside).mean()),
        "in time": float(inside.mean()),
        "right": float((labels == right).mean()),
        "agrees": float((labels == own).mean()),
        "early": float(early.mean()),
        "mean ms": float(took_ms.mean()),
        "p99 ms": float(np.quantile(took_ms, 0.99)),
    }


def of_index(
    path: Path, fresh: Photos, own: Labels, budgets_ms: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """Ask an index within each of the budgets."""
    at_once = AtOnce(open_translator(path, []))
    for budget_ms in budgets_ms:
        terms = Terms(budget_ms=budget_ms)

        def ask(image: bytes, terms: Terms = terms) -> tuple[str, bool]:
            answer = at_once.answer(terms, image)
            return str(answer.label), answer.early is True

        yield line(asked(ask, fresh.images), fresh.labels, own, budget_ms)


def on_top(
    training: tuple[Floats, Labels],
    own: tuple[Floats, Labels],
    fresh: tuple[Floats, Labels],
    learners: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """Fit learners to the columns of a classifier of all kinds of scenes.

    Each part is the network's output (N, W), and names (N,).
    """
    head = make_pipeline(StandardScaler(), LogisticRegression(C=C)).fit(*training)
    told, fresh_told = head.predict(own[0]), head.predict(fresh[0])
    drawn = np.random.default_rng(0).permutation(len(told))
    for columns, give in (
        ("probabilities", head.predict_proba),
        ("raw scores", head.decision_function),
    ):
        X, fresh_X = give(own[0]), give(fresh[0])
        for items in sorted({min(FEW, len(X)), len(X)}):
            rows = drawn[:items]
            for name in learners:
                found = [
                    make_learner(name, 0).fit(X[rows], labels[rows]).predict(fresh_X)
                    for labels in (told, own[1])
                ]
                yield {
                    "columns": columns,
                    "items": items,
                    "learner": name,
                    "agrees": float((found[0] == fresh_told).mean()),
                    "right": float((found[1] == fresh[1]).mean()),
                    "alone right": float((fresh_told == fresh[1]).mean()),
                }


def with_indexes(
    folder: Path, side: int, found: Parts, quick: bool
) -> Iterator[dict[str, Any]]:
    """Ask the classifier, and the indexes, which are built if they are not there."""
    file = folder / "classifier.onnx"
    alone = Whole(file, side)

    def ask(image: bytes) -> tuple[str, bool]:
        return ("built", "nature")[int(alone(image).argmax())], False

    fresh = found.fresh
    answers = asked(ask, fresh.images)
    budgets_ms = BUDGETS_MS[:1] if quick else BUDGETS_MS
    for budget_ms in (*budgets_ms, ENOUGH_MS):
        facts = line(answers, fresh.labels, answers[0], budget_ms)
        yield {"who": "the classifier", **facts}
    if not (folder / "true.csv").exists():
        told = asked(ask, found.own.images)[0]
        write(folder, found.own, told, found.training.images)
    cases = [("told", None), *(("told", alpha) for alpha in ALPHAS), ("true", None)]
    if quick:
        cases = [("told", ALPHAS[0])]
    for labels, alpha in cases:
        who = labels if alpha is None else f"{labels}, exits {alpha:g}"
        path = folder / f"{who}.pdx"
        if not path.exists():
            terms = project(file, side, folder / f"{labels}.csv", alpha, quick)
            build(terms, output=path, cache=folder / "cache")
        within = (*budgets_ms, ENOUGH_MS) if alpha is None else (ENOUGH_MS,)
        for facts in of_index(path, fresh, answers[0], within):
            yield {"who": who, **facts}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--cache", type=Path, help="keep the indexes here")
    given = parser.parse_args(arguments)
    if not given.quick:
        report.need(given, "scene15", "networks")
    count, side = (QUICK_ASKED, QUICK_SIDE) if given.quick else (ASKED, SIDE)
    found = parts(given.quick)
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        embedding = network_file("few" if given.quick else "scenes", folder)
        network_of = Whole(embedding, side)
        outputs = [np.stack([*map(network_of, part.images)]) for part in found]
        c = QUICK_C if given.quick else C
        model = with_head(embedding, outputs[0], found.training.labels, c)
        onnx.save(model, folder / "classifier.onnx")
        learners = ON_TOP[:1] if given.quick else ON_TOP
        first, own, fresh = (
            (X, part.names) for X, part in zip(outputs, found, strict=True)
        )
        facts = {"on top of its columns": [*on_top(first, own, fresh, learners)]}
        drawn = np.random.default_rng(0).permutation(len(found.fresh.images))[:count]
        images = [found.fresh.images[row] for row in drawn]
        rest = found.fresh.names[drawn], found.fresh.labels[drawn]
        found = found._replace(fresh=Photos(images, *rest))
        asked_all = [*with_indexes(folder, side, found, given.quick)]
    report.tell({"existing": asked_all, **facts}, given)


if __name__ == "__main__":
    main()

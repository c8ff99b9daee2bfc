"""Indexes of images, and the images kept from their builds to ask for.

`digits` are scikit-learn's, enlarged to 96 to 768 pixels an edge and turned; `scenes`
are ICSP's photographs at four sizes, which have to be got. `few` is for --quick. With a
network of images, its pieces are features beside the usual ones.
"""

import functools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polydom.features.items import Item, make_item
from polydom.indexer import Index, build
from polydom.indexer.building.costs.cost_curves import cost_curves
from polydom.indexer.building.prepare import prepare_data
from polydom.indexer.building.project import Project
from polydom.indexer.building.resources import open_resources
from polydom.indexer.building.template import default_features
from polydom.indexer.progress import Progress
from polydom.models import compile
from polydom.models.scoring.model import Model
from polydom.models.selection.learners import make_learner

from ...data.kept_items import KEPT
from ...peers.whole_network import MEAN, SIDES, STD
from ...places import ROOT, data_folder

NAMES = ("scenes", "digits")
DEFAULT = "digits"  # needs no download
NETWORK = "efficientnet-lite0-embedding.onnx"
# What an index tells of all its candidates together.
OF_ALL = ("pace", "observed", "refitted", "exits")
FEW = {
    "features": {"use": ["thumbnail", "moments"]},
    "costs": {"items": 20, "repeats": 1},
    "search": {"method": "poly-dom", "held_out": 0.25},
    "exits": "off",
    "workers": 1,
}


class ImageSet(NamedTuple):
    """An index, what it was built by, and images that its build has not seen."""

    path: Path
    project: Project
    items: list[Item]
    labels: list[str]


def prepare(
    name: str,
    folder: Path,
    count: int,
    progress: Progress | None = None,
    network: Path | None = None,
) -> ImageSet:
    """Build the index of a set, if it is not in the folder; draw images to ask for.

    `network` is a file of a network, whose pieces are features too.
    """
    project = project_of(name, network)
    path = folder / f"{name}{'-network' if network else ''}.pdx"
    if name == "few":
        path.write_bytes(few_index(with_network=network is not None))
    elif not path.exists():
        build(project, output=path, cache=folder / name, progress=progress)
    kept = [*KEPT[name]()]
    rows = np.random.default_rng(0).permutation(len(kept))[:count].tolist()
    items = [make_item(kept[row][0]) for row in rows]
    return ImageSet(path, project, items, [kept[row][1] for row in rows])


@functools.cache
def few_index(*, with_network: bool = False) -> bytes:
    """The file of an index that is built in a second or two, once a process."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        network = network_file("few", folder) if with_network else None
        path = folder / "few.pdx"
        build(project_of("few", network), output=path, cache=folder)
        return path.read_bytes()


def network_file(name: str, folder: Path) -> Path:
    """The network of a set's images: a small one is drawn for `few`."""
    if name != "few":
        return data_folder() / "networks" / NETWORK
    from tests.support.networks.small_networks import of_images

    path = folder / "few.onnx"
    path.write_bytes(of_images().SerializeToString())
    return path


def as_bytes(item: Item) -> bytes:
    """The bytes of an image."""
    assert isinstance(item.payload, bytes)
    return item.payload


def project_of(name: str, network: Path | None = None) -> Project:
    """Say it as PROJECT.toml would: as init writes it, but for the learner."""
    content: dict[str, Any] = {
        "data": {"items": f"benchmarks.data.kept_items:build_{name}"},
        "features": {"use": default_features("image")},
        "learner": {"name": "lda"},
        "seed": 0,
    }
    content |= FEW if name == "few" else {}
    if network is not None:
        terms: dict[str, Any] = {"name": "lite0", "file": str(network), "kind": "image"}
        terms |= {"sides": [*SIDES], "mean": [*MEAN], "std": [*STD]}
        terms |= {"outputs": "end"} if name == "few" else {}
        content["features"] = {**content["features"], "networks": [terms]}
        if name != "few":
            content["search"] = {"budget_s": 120}  # as init writes with a network
    return Project.from_mapping(content, folder=ROOT)


def best_alone(index: Index) -> Index:
    """Make an index of nothing but the most accurate set, beside the prior."""
    return _row_alone(index, int(index.qualities.argmax()))


def cheapest_alone(index: Index, items: Sequence[Item]) -> Index:
    """Make one of the cheapest set with features, at the median size of the items."""
    assert index.package is not None
    size = float(np.median([item.size for item in items]))
    rows = [row for row in index.skyline(size).tolist() if index.package.orders[row]]
    return _row_alone(index, rows[0])


def all_alone(index: Index, project: Project, cache: Path) -> Index:
    """Make one of all features, with a model of the project's learner.

    It is trained on all items that the index was built of.
    """
    assert index.package is not None
    table = prepare_data(project, open_resources(project, cache=cache)).table
    learner = make_learner(project.learner, project.seed, "classes")
    fitted = learner.fit(table.values, table.dataset.codes)
    model_s = float(index.package.model_s.max())
    order = tuple(range(len(index.package.features)))
    return _alone(index, order, compile(fitted).classifier, model_s)


def _row_alone(index: Index, row: int) -> Index:
    package = index.package
    assert package is not None
    own = package.orders[row], package.models[row], float(package.model_s[row])
    return _alone(index, *own)


def _alone(index: Index, order: tuple[int, ...], model: Model, model_s: float) -> Index:
    """Make an index of one set, which every request gets that has the time."""
    package = index.package
    assert package is not None
    prior = package.masks.tolist().index(0)
    masks = np.array([0, sum(1 << feature for feature in order)], np.uint64)
    small = replace(
        package,
        masks=masks,
        orders=((), order),
        fallbacks=((0,), (*[0] * len(order), 1)),
        models=(package.models[prior], model),
        model_s=np.array([package.model_s[prior], model_s]),
        meta={key: fact for key, fact in package.meta.items() if key not in OF_ALL},
        margins=(),
        early_exits=(),
        whole_s=np.empty(0),
        mean_s=np.empty(0),
        ends=(),
    )
    curves = cost_curves(package.costs, masks, small.model_s)
    return Index.from_candidates(curves, [0.1, 0.9], index.sizes, small)

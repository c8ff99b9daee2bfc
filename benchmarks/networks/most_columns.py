"""What a reduction of networks' columns costs in accuracy, and gives in training time.

python -m benchmarks most_columns --cache FOLDER      some minutes; the scenes
python -m benchmarks most_columns --learners lda

The pieces of a network of images, at two sides, with `most_columns` of 32 to 256 and of
0, which keeps all: told are the share of right answers for the quarter of the scenes
that is held out, for the network's last piece and for all pieces together, and the
processor's seconds that training takes. +- is the standard error of a share.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from polydom.features.threads import one_thread
from polydom.indexer.building.features.feature_values import FeatureTable
from polydom.indexer.building.prepare import prepare_data
from polydom.indexer.building.project import Project
from polydom.indexer.building.resources import open_resources
from polydom.models.selection.learners import make_learner

from .. import report
from ..serving.indexes.image_sets import network_file, project_of

MOST = (32, 64, 128, 256, 0)
LEARNERS = ("lda", "logistic")


def with_most(project: Project, most: int) -> Project:
    """The network's pieces alone, with at most so many columns each."""
    (terms,) = project.features.networks
    terms = msgspec.structs.replace(terms, most_columns=most)
    features = msgspec.structs.replace(project.features, use=[], networks=[terms])
    search = msgspec.structs.replace(project.search, held_out=0.25)
    return msgspec.structs.replace(project, features=features, search=search)


def compare(
    table: FeatureTable, train: Any, test: Any, learner: str
) -> dict[str, float]:
    """Train on the columns of the last piece, and on those of all."""
    values, codes = table.values.astype(np.float64), table.dataset.codes
    last = table.features.starts[-2]
    found: dict[str, float] = {}
    for name, columns in (("last", values[:, last:]), ("all", values)):
        fitting = make_learner(learner, 0)
        began_s = time.process_time()
        fitting.fit(columns[train], codes[train])
        took_s = time.process_time() - began_s
        right = float((fitting.predict(columns[test]) == codes[test]).mean())
        own = {"columns": columns.shape[1], "right": right, "train s": took_s}
        found |= {f"{name}, {key}": value for key, value in own.items()}
    found["+-"] = float(np.sqrt(right * (1 - right) / len(test)))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--cache", type=Path, help="keep the columns here")
    parser.add_argument("--learners", nargs="+", default=[*LEARNERS])
    given = parser.parse_args(arguments)
    name = "few" if given.quick else "scenes"
    if not given.quick:
        report.need(given, "scene15", "networks")
    lines = []
    with tempfile.TemporaryDirectory() as made, one_thread():
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        project = project_of(name, network_file(name, folder))
        for most in (3, 0) if given.quick else MOST:
            own = with_most(project, most)
            data = prepare_data(own, open_resources(own, cache=folder / name))
            ((train, test),) = data.splits
            for learner in given.learners:
                row = compare(data.table, train, test, learner)
                lines.append({"learner": learner, "most_columns": most, **row})
    report.tell({"right by columns": lines}, given)

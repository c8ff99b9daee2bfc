"""Three indexes, one for each kind of item: of texts, of records, of images."""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.tree import DecisionTreeClassifier

from polydom.features.costs.curve import CostTable
from polydom.features.extract import Extractor
from polydom.features.fingerprint import fingerprint
from polydom.features.items import image_item
from polydom.features.loading import load_features
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredFeature
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.prior import Prior
from tests.support.indexes.free_records import save_records
from tests.support.indexes.served import save_index

CELLS = 64


def save_three(folder: Path) -> dict[str, Path]:
    """Write the indexes into a folder; their paths by name."""
    return {
        "texts": save_index(folder),
        "records": save_records(folder),
        "images": save_images(folder),
    }


def save_images(folder: Path) -> Path:
    """An index that tells dark images from bright ones, by their 8 x 8 cells."""
    (thumbnail,) = load_features(["thumbnail"])
    extractor = Extractor([thumbnail], [CELLS])
    rows = [extractor.extract(image_item(picture(grey))) for grey in (20, 220)]
    tree = DecisionTreeClassifier().fit(np.array(rows, float), [0, 1])
    package = Package(
        kind="image",
        labels=("dark", "bright"),
        features=(StoredFeature("thumbnail", CELLS, fingerprint(thumbnail), True),),
        costs=CostTable(np.zeros((1, 1)), np.zeros((1, 1)), [(0,)], np.zeros(1)),
        masks=np.array([0, 1], np.uint64),
        orders=((), (0,)),
        fallbacks=((0,), (0, 1)),
        models=(Prior.fit(np.array([0, 0, 1])), compile_model(tree, np.arange(CELLS))),
        model_s=np.zeros(2),
        overhead_s=0.0,
        meta={"unit": "s", "samples": []},
    )
    index = Index.from_candidates([[0.0], [1e-6]], [0.5, 0.9], (1, 10_000), package)
    path = folder / "images.pdx"
    index.save(path)
    return path


def picture(grey: int) -> bytes:
    """A PNG of one grey."""
    out = io.BytesIO()
    Image.new("RGB", (32, 32), (grey, grey, grey)).save(out, "PNG")
    return out.getvalue()

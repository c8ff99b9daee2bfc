"""Items, the features that describe them, and what those cost."""

from .columns import Columns, columns, learn_vocabularies
from .costs.curve import CostCurve, CostTable
from .costs.measure import Timings, measure
from .extract import Extraction, Extractor
from .feature import Feature, Step, feature, step
from .fingerprint import fingerprint
from .items import Item, Kind, Value, image_item, record_item, text_item
from .loading import load_features

__all__ = [
    "Columns",
    "CostCurve",
    "CostTable",
    "Extraction",
    "Extractor",
    "Feature",
    "Item",
    "Kind",
    "Step",
    "Timings",
    "Value",
    "columns",
    "feature",
    "fingerprint",
    "image_item",
    "learn_vocabularies",
    "load_features",
    "measure",
    "record_item",
    "step",
    "text_item",
]

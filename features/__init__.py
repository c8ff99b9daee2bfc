"""Items, the features that describe them, and what those cost."""

from .cost import CostCurve, CostTable
from .extract import Extraction, Extractor
from .feature import Feature, Step, feature, step
from .fingerprint import fingerprint
from .items import Item, Kind, Value, image_item, record_item, text_item
from .loading import load_features
from .measure import Timings, measure
from .record import Columns, columns, learn_vocabularies

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

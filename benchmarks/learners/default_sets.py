"""Texts, tables and images on which what `polydom init` writes is judged.

Each is divided in two: what is built of, and what is kept, which no build and no
baseline sees. Sets with a division of their own keep it; of others every different
item comes once, and a third of them is kept, by checksum.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..data.kept_items import films, thyroid_rows
from ..data.scenes import manifest
from ..data.tables import read_adult, read_covtype, read_higgs, read_mnist
from ..places import data_folder

KEPT = 86  # of 256 checksums
BUILT_OF = "what is built of"
MNIST = {"train": 6000, "t10k": 2000}
ADULT = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
]

Items = list[tuple[Any, str]]  # a text, an image's bytes or a record, and its class
Divided = tuple[Items, Items]  # to build of, and kept


@dataclass(frozen=True)
class DefaultSet:
    """One data set."""

    load: Callable[[], Divided]  # Reads it, divided
    seen: str = "nothing"  # What of it the defaults were chosen by
    folder: str | None = None  # Its name among the data sets, if it has files


def divide(items: Iterable[tuple[Any, str]]) -> Divided:
    """Take every different item once, and keep a third."""
    known = set[bytes]()
    own: Items = []
    kept: Items = []
    for item, label in items:
        digest = hashlib.sha256(_content(item)).digest()
        if digest not in known:
            known.add(digest)
            (kept if digest[0] < KEPT else own).append((item, label))
    return own, kept


def cut(items: Items, count: int) -> Items:
    """Draw so many items, always the same."""
    rows = np.random.default_rng(0).permutation(len(items))[:count]
    return [items[row] for row in sorted(rows.tolist())]


def _content(item: Any) -> bytes:
    if isinstance(item, bytes):
        return item
    text = item if isinstance(item, str) else json.dumps([*item.values()])
    return text.encode()


def _messages() -> Divided:
    """5,574 short messages, spam or not."""
    path = data_folder() / "sms_spam" / "SMSSpamCollection"
    lines = [line.split("\t", 1) for line in path.read_text("utf-8").splitlines()]
    return divide((text, label) for label, text in lines)


def _reviews() -> Divided:
    """2,000 reviews of films, for or against."""
    return divide((str(text), label) for text, label, _ in films())


def _drawn_texts() -> Divided:
    """Words of which a tenth are more frequent in one of two classes."""
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(10, 310)
    shares = []
    for code in range(2):
        shifted = weights * np.where(np.arange(300) % 20 == 10 * code, 8, 1)
        shares.append(shifted / shifted.sum())

    def text(code: int) -> str:
        count = int(rng.integers(4, 30))
        return " ".join(f"word{k}" for k in rng.choice(300, count, p=shares[code]))

    return divide((text(k % 2), f"class{k % 2}") for k in range(400))


def _adult() -> Divided:
    """Incomes of 48,842 persons: 6 numbers and 8 categories, their own division."""
    own, kept = (
        [
            (dict(zip(ADULT, row, strict=False)), row[-1])
            for row in read_adult(data_folder(), p)
        ]
        for p in ("data", "test")
    )
    return own, kept


def _thyroid() -> Divided:
    """7,200 patients, 21 columns, 3 classes, their own division; no declared costs."""
    own, kept = (
        [(dict(record), label) for record, label, _ in thyroid_rows(part)]
        for part in ("train", "test")
    )
    return own, kept


def _covertype() -> Divided:
    """20,000 fields of forest, 54 columns, 7 classes."""
    return divide(_records(*read_covtype(data_folder())))


def _higgs() -> Divided:
    """18,484 simulated collisions, 28 columns."""
    return divide(_records(*read_higgs(data_folder())))


def _bundled(loader: str) -> Callable[[], Divided]:
    """Read a table that comes with scikit-learn."""

    def load() -> Divided:
        from sklearn import datasets

        found = getattr(datasets, loader)()
        return divide(_records(found.data, found.target))

    return load


def _records(X: NDArray[Any], y: NDArray[Any]) -> Iterator[tuple[dict[str, Any], str]]:
    names = [f"x{j}" for j in range(X.shape[1])]
    for row, code in zip(X.tolist(), y.tolist(), strict=True):
        values = [int(value) if value == int(value) else value for value in row]
        yield dict(zip(names, values, strict=True)), f"class{code}"


def _scenes() -> Divided:
    """4,467 photographs of 15 kinds of places, their own division.

    What comes in both of its parts is only built of.
    """
    own: Items = []
    kept: Items = []
    for path, label, _ in manifest():
        part = path.parent.parent.name
        (own if part == "train" else kept).append((path.read_bytes(), label))
    return own, kept


def _mnist() -> Divided:
    """6,000 and 2,000 written digits, 28 x 28 grey pixels."""
    parts = []
    for part, count in MNIST.items():
        pixels, digits = read_mnist(data_folder(), part)
        shown = zip(pixels[:count], digits[:count].tolist(), strict=True)
        parts.append([(_png(one), str(digit)) for one, digit in shown])
    return parts[0], parts[1]


def _digits() -> Divided:
    """1,797 written digits, 8 x 8 grey pixels."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    shown = zip(found.images, found.target.tolist(), strict=True)
    return divide((_png(one * (255 / 16)), str(digit)) for one, digit in shown)


def _png(grey: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(grey.astype(np.uint8)).save(file, "png")
    return file.getvalue()


SETS: dict[str, dict[str, DefaultSet]] = {
    "texts": {
        "messages": DefaultSet(_messages, BUILT_OF, folder="sms_spam"),
        "reviews": DefaultSet(_reviews, BUILT_OF, folder="polarity"),
    },
    "tables": {
        "adult": DefaultSet(_adult, "all of it", folder="adult"),
        "covertype": DefaultSet(_covertype, folder="covtype20k"),
        "thyroid": DefaultSet(_thyroid, folder="ann_thyroid_costs"),
        "higgs": DefaultSet(_higgs, folder="higgs"),
        "breast cancer": DefaultSet(_bundled("load_breast_cancer")),
        "wine": DefaultSet(_bundled("load_wine")),
    },
    "images": {
        "scenes": DefaultSet(_scenes, "all of it", folder="scene15"),
        "mnist": DefaultSet(_mnist, BUILT_OF, folder="mnist"),
        "digits": DefaultSet(_digits),
    },
}
QUICK: dict[str, dict[str, DefaultSet]] = {
    "texts": {"drawn": DefaultSet(_drawn_texts)},
    "tables": {"wine": SETS["tables"]["wine"]},
    "images": {"digits": SETS["images"]["digits"]},
}

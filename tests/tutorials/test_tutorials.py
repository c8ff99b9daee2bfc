"""Each tutorial, from an empty folder: what it runs works and prints what it shows."""

from pathlib import Path

import pytest

from polydom.indexer.building.template import default_features
from tests.support.documents import Reader
from tests.support.pages import read

pytestmark = pytest.mark.jit

# Fewer and smaller items, and less time spent on them, make what the pages show.
QUICK = {
    "# workers = 2": "workers = 1",
    "# budget_s = 120": "budget_s = 1",
    "# items = 48": "items = 12",
    "# repeats = 5": "repeats = 2",
}
FEWER_PHOTOS = QUICK | {
    "enumerate(order[:750])": "list(enumerate(order[:750]))[2::5]",
    "(48, 96, 192, 384)": "(24, 32, 48, 64)",
}
QUICK_FEATURE = {
    "# PROJECT.toml\n": (
        "workers = 1\nsearch = { budget_s = 1 }\ncosts = { items = 12, repeats = 2 }\n"
    )
}
FEWER_TEXTS = QUICK | {"range(1000)": "range(250)", "number < 800": "number < 200"}
QUICK_TABLE = {
    "# PROJECT.toml\n": "workers = 1\n",
    "[costs]\n": "[costs]\nitems = 12\nrepeats = 2\n",
}

QUICK_MAILS = {
    "# PROJECT.toml\n": (
        "workers = 1\nsearch = { budget_s = 1 }\ncosts = { items = 12, repeats = 2 }\n"
    ),
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of whoever did the first tutorial."""
    folder = tmp_path_factory.mktemp("photos")
    with Reader(folder, default_features("image"), FEWER_PHOTOS) as reader:
        reader.follow(read("tutorials/images.md"))
    return folder


def test_images(photos: Path) -> None:
    assert (photos / "digits.pdx").is_file()


def test_own_feature_goes_on_with_images(photos: Path) -> None:
    names = [*default_features("image"), "cut_out"]
    with Reader(photos, names, QUICK_FEATURE) as reader:
        reader.follow(read("tutorials/own-feature.md"))


def test_texts(tmp_path: Path) -> None:
    with Reader(tmp_path, default_features("text"), FEWER_TEXTS) as reader:
        reader.follow(read("tutorials/texts.md"))


def test_table(tmp_path: Path) -> None:
    names = ["outline", "texture", "surface", "shape"]
    with Reader(tmp_path, names, QUICK_TABLE) as reader:
        reader.follow(read("tutorials/table.md"))


def test_mail(tmp_path: Path) -> None:
    of_texts = ("text_length", "learned_opening", "learned_words", "learned_ngrams")
    on_columns = [f"{column}: {n}" for column in ("subject", "body") for n in of_texts]
    with Reader(
        tmp_path, [*on_columns, "sender", "attachments"], QUICK_MAILS
    ) as reader:
        reader.follow(read("tutorials/mail.md"))

"""Each tutorial, from an empty folder: what it runs works and prints what it shows."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from polydom.indexer.building.template import default_features
from tests.support.documents import Reader
from tests.support.networks.small_networks import of_images
from tests.support.pages import read

pytestmark = pytest.mark.jit

# Fewer and smaller items, and less time spent on them, make what the pages show.
QUICK = {
    "# workers = 2": "workers = 1",
    "# budget_s = 120": "budget_s = 0.3",
    "# items = 48": "items = 12",
    "# repeats = 5": "repeats = 2",
}
FEWER_PHOTOS = QUICK | {
    "enumerate(order[:750])": "list(enumerate(order[:750]))[2::5]",
    "(48, 96, 192, 384)": "(24, 32, 48, 64)",
}
QUICK_FEATURE = {
    "# PROJECT.toml\n": (
        "workers = 1\nsearch = { budget_s = 0.3 }\n"
        "costs = { items = 12, repeats = 2 }\n"
    )
}
FEW_FEATURES = {
    "sides = [128, 224]": "sides = [24, 32]",
    '    "edge_density", "hog", "spectrum", "lines", "cooccurrence",\n': "",
    '    "local_binary_patterns",\n': "",
}
FEWER_TEXTS = QUICK | {"range(1000)": "range(250)", "number < 800": "number < 200"}
QUICK_TABLE = {
    "# PROJECT.toml\n": "workers = 1\n",
    "[costs]\n": "[costs]\nitems = 12\nrepeats = 2\n",
}

QUICK_MAILS = {
    "# PROJECT.toml\n": (
        "workers = 1\nsearch = { budget_s = 0.3 }\n"
        "costs = { items = 12, repeats = 2 }\n"
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


def test_network(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path, dirs_exist_ok=True)  # with the values of features
    (tmp_path / "PROJECT.toml").unlink()
    shutil.copy(next(tmp_path.glob("held-out/*/*")), tmp_path / "beach.jpg")
    (tmp_path / "lite0.onnx").write_bytes(small_lite().SerializeToString())
    pieces = [f"{side}_{piece}" for side in (24, 32, 128, 224) for piece in range(1, 6)]
    names = [*default_features("image"), *(f"lite0_{piece}" for piece in pieces)]
    longer = "# budget_s = 120"  # the project of a network says so without a mark
    quick = {k: v for k, v in QUICK.items() if k != longer}
    quick |= {longer.removeprefix("# "): QUICK[longer]}
    with Reader(tmp_path, names, quick | FEW_FEATURES) as reader:
        reader.follow(read("tutorials/network.md"))


def small_lite() -> Any:
    """A network whose tensors have names as in the page's network."""
    model = of_images(4, channels=8)
    graph = model.graph
    names = {"pixels": "image"}
    names |= {f"block_{k}": f"/_blocks.{k}/Add_output_0" for k in range(1, 5)}
    mean = helper.make_node(
        "ReduceMean", ["block_4"], ["embedding"], axes=[2, 3], keepdims=0
    )
    graph.node.pop(), graph.node.pop(), graph.node.pop()  # the pool, and the classes
    graph.node.append(mean)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    graph.input[0].name = "image"
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("embedding", 1, ["n", 8]))
    return model


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

"""The README: its commands are run as they stand there, and it stays short."""

import io
import re
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from tests.support.documents import Reader, commands
from tests.support.places import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PER_CLASS = 10
# Less time is spent on processes, and on finding out what features cost.
QUICK = {
    "# workers = 2": "workers = 1",
    "# items = 48": "items = 12",
    "# repeats = 5": "repeats = 2",
}


def photo(label: str, number: int) -> bytes:
    """A disc or a square somewhere on a photo of its own size."""
    edge = 64 + 16 * number
    image = Image.new("L", (edge, edge), 40 + 5 * number)
    box = (edge // 8 + number, edge // 6, edge // 2 + number, edge // 2 + edge // 10)
    draw = ImageDraw.Draw(image)
    (draw.ellipse if label == "Coast" else draw.rectangle)(box, fill=220)
    file = io.BytesIO()
    image.save(file, "jpeg")
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a reader has: photos in a folder per class, and one more."""
    for label in ("Coast", "OpenCountry"):
        place = tmp_path / "photos" / label
        place.mkdir(parents=True)
        for number in range(PER_CLASS):
            (place / f"{number}.jpg").write_bytes(photo(label, number))
    (tmp_path / "beach.jpg").write_bytes(photo("Coast", 3))
    return tmp_path


@pytest.mark.jit
def test_commands_do_what_is_shown(folder: Path) -> None:
    with Reader(folder, changes=QUICK) as reader:
        reader.follow(README)
    ran = [command.split()[:2] for command in reader.ran]
    assert [words[1] for words in ran if words[0] == "polydom"] == [
        "init",
        "build",
        "serve",
    ]
    assert ran[-1][0] == "curl"
    assert reader.shown == 1


def test_other_commands_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"`make (\w+)`", README)
    assert targets == ["demo", "test"]
    for target in targets:
        assert f"\n{target}:" in makefile
    assert all(not command.startswith("make") for command in commands(README))


def test_it_is_short() -> None:
    assert 60 <= len(README.splitlines()) <= 90

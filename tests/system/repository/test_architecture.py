"""The map of the code is that of the code: pictures, and the files that it names."""

import re

import pytest

from tests.support.places import DOCS, ROOT
from tools import draw_architecture
from tools.generated_parts import outdated

PAGE = (DOCS / "explanation/architecture.md").read_text("utf-8")


def test_pictures_are_up_to_date() -> None:
    why = "run python -m tools.draw_architecture"
    assert not outdated(draw_architecture.PAGES), why
    for name, draw in draw_architecture.PICTURES.items():
        assert (DOCS / "pictures" / name).read_text("utf-8") == draw(), why


def test_every_file_it_names_is_there() -> None:
    places = [ROOT, *(ROOT / room for room in draw_architecture.ROOMS)]
    named = set(re.findall(r"`(\w+/[\w/]*(?:\.py|\.toml)?)`", PAGE)) - {"kernels/"}
    assert len(named) > 40
    for name in named:
        assert any((place / name).exists() for place in places), name


def test_a_hop_that_nothing_imports_is_refused() -> None:
    known = draw_architecture.modules()
    with pytest.raises(SystemExit, match=r"server\.settings is not imported"):
        draw_architecture.way(["features.items", "server.settings"], known)


def test_every_folder_is_on_a_floor() -> None:
    for room, rows in draw_architecture.floors().items():
        folders = {path.parent.name for path in (ROOT / room).glob("*/__init__.py")}
        assert {name for row in rows for name in row} == folders, room

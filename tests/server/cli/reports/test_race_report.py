"""Pictures are refused before anything is computed for them, or drawn."""

import sys
from pathlib import Path

import pytest

from polydom.features.errors import BadInput
from polydom.server.cli.reports.race_report import import_figure, refuse_picture

pytest.importorskip("matplotlib")


def test_what_cannot_be_drawn_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, message in (
        (tmp_path / "x.txt", r"one of \.png, \.svg, \.pdf is needed"),
        (tmp_path / "no" / "x.png", "there is no folder"),
    ):
        with pytest.raises(BadInput, match=message):
            refuse_picture(path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BadInput, match=r"pip install 'polydom\[plot\]'"):
        refuse_picture(tmp_path / "x.png")


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_replaces_another_that_was_drawn_and_no_photo(
    tmp_path: Path, ending: str
) -> None:
    drawn, photo = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    figure = import_figure()()
    figure.subplots().plot([1, 2])
    figure.savefig(drawn)
    refuse_picture(drawn)
    photo.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    with pytest.raises(BadInput, match=r"is not replaced by a figure, as it is a PNG"):
        refuse_picture(photo)

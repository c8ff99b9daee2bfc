"""An index's features are found again, with the steps they share."""

from pathlib import Path

import pytest

from polydom.features.errors import BadFeature
from polydom.features.fingerprint import fingerprint
from polydom.features.items import text_item
from polydom.features.registry import load_features
from polydom.indexer.stored import StoredFeature, load_extractor

from .served import FEATURES_FILE, WIDTHS

OWN = [
    StoredFeature(one.name, width, fingerprint(one), False)
    for one, width in zip(load_features([], [FEATURES_FILE]), WIDTHS, strict=True)
]


def test_features_of_one_file_share_its_steps() -> None:
    extractor = load_extractor(OWN, [FEATURES_FILE])
    assert [step.name for step in extractor.steps] == ["lowered"]
    assert extractor.needs == ((), (0,), (0,))


def test_files_are_run_once(tmp_path: Path) -> None:
    counted = tmp_path / "counted.py"
    counted.write_text(
        FEATURES_FILE.read_text()
        + f"\nwith open({str(tmp_path / 'runs')!r}, 'a') as f:\n    f.write('x')\n"
    )
    extractor = load_extractor(OWN, [counted])
    assert (tmp_path / "runs").read_text() == "x"
    assert extractor.extract(text_item("WIN $!")).tolist() == [6, 1, 1, 1]


def test_ready_made_features_need_no_file() -> None:
    names = ["text_length", "punctuation"]
    stored = [
        StoredFeature(one.name, 1, fingerprint(one), True)
        for one in load_features(names)
    ]
    assert [one.name for one in load_extractor(stored).features] == names


def test_a_feature_without_its_file_is_refused() -> None:
    with pytest.raises(BadFeature, match="'length' is the user's own and no file"):
        load_extractor(OWN)


def test_a_feature_with_other_code_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(FEATURES_FILE.read_text().replace("[len(text)]", "[len(text), 0]"))
    with pytest.raises(BadFeature, match="'length' is not the code"):
        load_extractor(OWN, [other])

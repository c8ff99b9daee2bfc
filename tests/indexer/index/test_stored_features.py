"""An index's features are found again, with the steps they share."""

from pathlib import Path

import pytest

from polydom.features.errors import BadFeature
from polydom.features.fingerprint import fingerprint
from polydom.features.items import text_item
from polydom.features.loading import load_features
from polydom.indexer.index.stored_features import StoredFeature, load_extractor
from tests.support.indexes.served import FEATURES_FILE, WIDTHS

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
    with pytest.raises(BadFeature, match="'length' is not what the index"):
        load_extractor(OWN, [other])


VECTORS = """
from polydom.features import feature
from sklearn.feature_extraction.text import HashingVectorizer
V = HashingVectorizer(n_features=4, norm=None)

@feature(kind="text")
def hashed(text):
    return V.transform([text]).toarray()[0]
"""


def test_a_feature_whose_object_is_another_is_refused(tmp_path: Path) -> None:
    """It would be as wide, and mean something else."""
    file = tmp_path / "mine.py"
    file.write_text(VECTORS)
    (hashed,) = load_features([], [file])
    stored = [StoredFeature("hashed", 4, fingerprint(hashed), False)]
    extractor = load_extractor(stored, [file])
    assert load_extractor(stored, [file]).features[0].name == "hashed"
    extractor.extract(text_item("one two"))
    assert load_extractor(stored, [file])  # also after it has been used
    file.write_text(VECTORS.replace("norm=None", "norm=None, alternate_sign=False"))
    with pytest.raises(BadFeature, match=r"'hashed' is not what .* global variable"):
        load_extractor(stored, [file])

"""What tests of the online commands share."""

from pathlib import Path

import pytest

from tests.support.indexes.served import save_index


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return save_index(tmp_path)

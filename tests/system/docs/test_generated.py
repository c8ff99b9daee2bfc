"""Parts of pages that are made from the code are what the code makes."""

from tools import write_reference
from tools.generated_parts import outdated


def test_reference_is_up_to_date() -> None:
    why = "run python -m tools.write_reference"
    assert not outdated(write_reference.PAGES), why

"""The words that stand for an empty cell of a table."""

from polydom.features.tables.written_numbers import EMPTY


def parts() -> dict[str, str]:
    """List the words."""
    return {"empty": ", ".join(f"`{word}`" for word in EMPTY) + "."}

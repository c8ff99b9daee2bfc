"""The three text features of tiny_features.py, which fail where a text says so."""

from polydom.features import feature, step


@step(kind="text")
def lowered(text: str) -> str:
    return text.lower()


@feature(kind="text")
def length(text: str) -> list[int]:
    """Refuse the item where it fails."""
    return [len(text)] if "length fails" not in text else fail("length")


@feature(needs=[lowered], fails="without")
def marks(text: str) -> list[int]:
    return [text.count("!"), text.count("$")]


@feature(needs=[lowered], fails="without")
def words(text: str) -> list[int]:
    counted = [text.count("free") + text.count("win")]
    return counted if "words fail" not in text else fail("words")


def fail(what: str) -> list[int]:
    raise LookupError(f"{what}: /secret/path/of/the/server")

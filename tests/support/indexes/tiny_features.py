"""Three text features of a user's own, for the index that the server tests serve."""

from polydom.features import feature, step


@step(kind="text")
def lowered(text: str) -> str:
    return text.lower()


@feature(kind="text")
def length(text: str) -> list[int]:
    return [len(text)]


@feature(needs=[lowered])
def marks(text: str) -> list[int]:
    return [text.count("!"), text.count("$")]


@feature(needs=[lowered])
def words(text: str) -> list[int]:
    if "\x00" in text:
        raise ValueError("/secret/path/of/the/server")
    return [text.count("free") + text.count("win")]

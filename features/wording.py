"""Parts of error messages: suggestions of names, and readable errors of decoders."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args, get_origin

import msgspec

LISTED = 20  # names in a message
SHOWN = 80  # characters of a name that somebody sent

# A message of msgspec, and the place named in it: `... - at `$.inner.count``.
PLACE = re.compile(
    r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$\.?(?P<where>.*)`)?", re.S
)
FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.S)
NO_CHOICE = re.compile(r"Invalid enum value (.*)", re.S)
STOPPED = re.compile(r"\(byte (\d+)\)")  # where a decoder stopped
# Values as other languages write them, and as JSON does.
NO_VALUE = re.compile(rb"-?\b(NaN|nan|Infinity|inf|None|undefined|True|False)\b")
GAPS = ("NaN", "nan", "Infinity", "inf")
UTF8_MARK = b"\xef\xbb\xbf"


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the known name most similar to `name`, or None if no name is similar.

    `cutoff` is the minimum similarity, between 0 and 1. The comparison ignores case,
    underscores, hyphens and spaces.
    """
    plain = {_plain(one): one for one in reversed([*known])}
    close = difflib.get_close_matches(_plain(name[:80]), plain, n=1, cutoff=cutoff)
    return plain[close[0]] if close else None


def hint(name: str, known: Sequence[str], cutoff: float = 0.5) -> str:
    """Return a question with the most similar known name, or a list of all names."""
    near = nearest(name, known, cutoff)
    return f"did you mean {near!r}?" if near else f"there are {listed(known)}"


def listed(names: Sequence[str]) -> str:
    """Join names with commas; of many names, show only the first."""
    if not names:
        return "none"
    more = len(names) - LISTED
    shown = ", ".join(name[:80] for name in names[:LISTED])
    return f"{shown} and {more} more" if more > 0 else shown


def describe_decode_error(
    error: Exception, form: Any = None, document: bytes = b""
) -> str:
    """Describe a decoder's error: where in the data it is, and the reason.

    If a field is unknown, the message suggests the most similar field of the struct
    `form`. If a value is not one of the allowed choices, the message lists the choices.
    If `document` is broken JSON, the message names the likely mistake. `error` may also
    be a UnicodeDecodeError or a RecursionError.

    Examples
    --------
    >>> describe_decode_error(msgspec.ValidationError("Expected `int`, got `str`"))
    'expected int, got str'
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {error.start})"
    found = PLACE.fullmatch(str(error))
    assert found is not None
    where = (found["where"] or "")[:SHOWN]
    said = _reworded(found["what"], where, form) + _likely_mistake(str(error), document)
    if found["key"]:
        where = f"a key of {where}" if where else "a key"
    return f"{where}: {said}" if where else said


def _reworded(message: str, where: str, form: Any) -> str:
    """Reword a message of msgspec; add the field names or choices allowed there."""
    if match := FIELD.fullmatch(message):
        name = match[2][:SHOWN]
        if match[1] == "missing required":
            return f"{name!r} is missing"
        known = list(_fields(_at(form, where)))
        return f"{name!r} is unknown" + (f"; {hint(name, known)}" if known else "")
    if match := NO_CHOICE.fullmatch(message):
        return f"{match[1][:SHOWN]} came; {_choices(form, where)} is needed"
    if message.startswith("Expected"):
        message = "e" + message[1:].replace("`", "")
    return message


def _likely_mistake(message: str, document: bytes) -> str:
    """Return a note on the likely mistake in broken JSON, or "" if none is known."""
    found = STOPPED.search(message)
    if found is None:
        is_twice = message.startswith("Expected `object`, got `str`")
        is_twice = is_twice and document.lstrip()[1:2] in (b"{", b"[")
        return ": this JSON was made JSON once more" if is_twice else ""
    if document[:2] == b"\x1f\x8b":
        return "; it begins as gzip does, which a content encoding has to say"
    if b"\0" in document[:4]:
        return "; it looks like UTF-16: send UTF-8"
    at = int(found[1])
    if document[at : at + 1] == b"'":
        return "; JSON has double quotes, not single ones"
    if document[at : at + 1] in (b"\n", b"\r", b"\t"):
        return "; in a text of JSON a line end is \\n, a tab \\t"
    for value in NO_VALUE.finditer(document, max(at - 4, 0), at + 16):
        if value.start() <= at:
            name = value[1].decode()
            other = name.lower() if name in ("True", "False") else "null"
            gap = f"{other} is a gap" if name in GAPS else f"it has {other}"
            return f"; {name} is no JSON: {gap}"
    return ""


def without_mark(document: bytes) -> bytes:
    """Remove the byte order mark with which some editors begin a file in UTF-8."""
    return document.removeprefix(UTF8_MARK)


def _choices(form: Any, where: str) -> str:
    kind = _at(form, where)
    for part in (kind, *get_args(kind)):
        if get_origin(part) is Literal:
            return "one of " + ", ".join(map(repr, get_args(part)))
    return "another value"


def _at(form: Any, where: str) -> Any:
    """Return the type of the field at a path such as `inner.count`, or None."""
    for name in filter(None, where.split(".")):
        form = _fields(form).get(name.partition("[")[0])
    return form


def _fields(form: Any) -> dict[str, Any]:
    """Map a struct's fields to their types; `form` may be a union with a struct."""
    for part in (form, *get_args(form)):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            return {field.name: field.type for field in msgspec.structs.fields(part)}
    return {}


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))

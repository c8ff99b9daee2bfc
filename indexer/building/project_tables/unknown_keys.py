"""Unknown keys of PROJECT.toml, and keys of older projects."""

from collections.abc import Mapping
from typing import Any, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields as fields_of

from polydom.features.errors import BadProject
from polydom.features.wording import nearest

# Keys of older projects, and what to write now.
REMOVED = {
    "cluster.retries": "a call whose worker is lost is tried again twice",
    "cluster.in_flight": "each core has one call under way and one that waits",
    "cluster.call_s": "calls that do many things in one take about a second",
    "cluster.wait_s": "a build waits 10 s for workers",
    "cluster.memory_gb": "`RayExecutor(memory=...)`, given to `build`, asks for it",
}


def refuse_unknown(content: Any, table: type[Struct], where: str) -> None:
    """Raise BadProject for the first unknown key, and name the nearest known key."""
    if not isinstance(content, Mapping):
        return
    fields = {field.encode_name: field.type for field in fields_of(table)}
    fields.pop("folder", None)
    for key, value in content.items():
        place = where + str(key)
        if why := REMOVED.get(place):
            raise BadProject(f"key {place!r} was removed: {why}; take it out")
        if key not in fields:
            near = nearest(str(key), fields, 0.4)
            known = f"did you mean {near!r}?" if near else f"known: {', '.join(fields)}"
            for name, own in fields.items():
                if isinstance(own, type) and key in getattr(
                    own, "__struct_fields__", ()
                ):
                    known = f"it belongs in [{name}]"
            raise BadProject(f"unknown key {place!r}; {known}")
        inner, many = fields[key], isinstance(value, list)
        named = get_origin(inner) is dict and isinstance(value, Mapping)
        inner = get_args(inner)[-1] if named or get_origin(inner) is list else inner
        if not isinstance(inner, type) or not issubclass(inner, Struct):
            continue
        if named:
            for name, one in value.items():
                refuse_unknown(one, inner, f"{where}{key}.{name}.")
            continue
        for one in value if many else [value]:
            refuse_unknown(one, inner, f"{where}{key}.")

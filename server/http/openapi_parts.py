"""Functions that build an OpenAPI document from operations, responses and schemas."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import msgspec

from ..errors import STATUSES, Failure

Schema = dict[str, Any]
# Meaning of each error status, for routes that do not describe it themselves.
MEANINGS = {status.number: status.meaning for status in STATUSES}
ANY_OBJECT: Schema = {"type": "object"}
RAW = {"schema": {"type": "string", "format": "binary"}}
_REF = "#/components/schemas/{name}"


def document(
    paths: Mapping[str, Any], structs: Iterable[type[msgspec.Struct]]
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document with `paths` and the schemas of `structs`."""
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REF)
    for schema in schemas.values():
        _lists_for_tuples(schema)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "polydom",
            "version": version("polydom"),
            "description": "Answers inside a time budget.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _lists_for_tuples(schema: Any) -> None:
    """Replace tuples of equal types in `schema` by lists, which more tools can read."""
    if isinstance(schema, dict):
        each = schema.get("prefixItems", [])
        if each and all(one == each[0] for one in each):
            del schema["prefixItems"]
            schema["items"] = each[0]
    for inner in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(inner, dict | list):
            _lists_for_tuples(inner)


def ref(struct: type[msgspec.Struct]) -> Schema:
    """Return a `$ref` to the schema of a structure."""
    return {"$ref": _REF.format(name=struct.__name__)}


def fields(struct: type[msgspec.Struct]) -> dict[str, Schema]:
    """Return the JSON schema of each field of a structure, without default values."""
    _, schemas = msgspec.json.schema_components([struct], ref_template=_REF)
    described = schemas[struct.__name__]["properties"]
    return {
        name: {key: value for key, value in schema.items() if key != "default"}
        for name, schema in described.items()
    }


def call(
    summary: str, answer: Schema, errors: Mapping[int, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the OpenAPI description of one operation, such as `GET /livez`.

    `answer` is the schema of the response with status 200. `errors` maps each error
    status to its description.
    """
    responses = {"200": response("The answer.", answer)}
    for status, meaning in errors.items():
        responses[str(status)] = response(meaning, ref(Failure))
    return {"summary": summary, "responses": responses}


def response(description: str, schema: Schema) -> dict[str, Any]:
    """Return the OpenAPI description of a JSON response."""
    content = {"application/json": {"schema": schema}}
    return {"description": description, "content": content}


def in_query(name: str, schema: Schema, **more: str) -> dict[str, Any]:
    """Return the OpenAPI description of a query parameter; `more` has further keys."""
    return {"name": name, "in": "query", **more, "schema": schema}


def in_path(name: str) -> dict[str, Any]:
    """Return the OpenAPI description of a path parameter."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}

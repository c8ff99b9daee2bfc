"""The OpenAPI document, from the same structures that the wire uses."""

from importlib.metadata import version
from typing import Any

import msgspec

from .errors import (
    Failure,
)
from .oip_openapi import OIP_STRUCTS, describe_oip
from .schema_batch import (
    BatchBody,
    BatchItem,
    BatchTerms,
    Entry,
    ErrorEntry,
    Totals,
)
from .schema_facts import (
    Health,
    IndexFacts,
    ModelsFacts,
)
from .schema_predict import (
    MSGPACK,
    Answer,
    Ask,
)
from .schema_streams import (
    JSON_LINES,
)

_REF = "#/components/schemas/{name}"
_TERMS = {
    "model": "Name of the model that is asked; without one, the first that is served.",
    "budget_ms": "Milliseconds from the request's first byte to the answer's last.",
    "budget": "For an index that counts another unit than time: what may be spent.",
    "on_infeasible": "What to answer when nothing that was asked for fits.",
    "min_accuracy": "Expected accuracy below which an answer is of no use.",
}
_ERRORS = {
    400: "The request, its terms or its item cannot be used.",
    408: "The request did not come in whole within 10 s.",
    401: "The server wants a token, and this is none that it knows.",
    404: "No model has that name.",
    413: "The body is over the limit.",
    415: "The body is compressed in another way than gzip or deflate.",
    422: "A feature cannot be computed on this item.",
    429: "Too many requests wait already; try again after `Retry-After` seconds.",
    503: "The index is still being warmed up, or the server stops.",
    504: "Nothing that was asked for fits, and `on_infeasible` is `error`.",
}

_NOTHING_ELSE = "The query has something else than `model`, or that twice."
_ENTRIES = (Entry, ErrorEntry, Totals)
_BATCH = (BatchTerms, BatchItem, BatchBody, *_ENTRIES)
_METRICS = {
    "summary": "What was counted, for Prometheus.",
    "responses": {
        "200": {
            "description": "Prometheus's text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
}


def describe_routes() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of every route."""
    structs = (
        Ask,
        Answer,
        Failure,
        Health,
        IndexFacts,
        ModelsFacts,
        *_BATCH,
        *OIP_STRUCTS,
    )
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "polydom",
            "version": version("polydom"),
            "description": "Answers inside a time budget.",
        },
        "paths": {
            "/v1/predict": {"post": _predict(schemas["Ask"]["properties"])},
            "/v1/batch": {"post": _batch(schemas["BatchTerms"]["properties"])},
            "/v1/index": {"get": _show_index()},
            "/v1/models": {"get": _get("Which models are served.", "ModelsFacts")},
            "/v1/admin/reload": {"post": _reload()},
            "/metrics": {"get": _METRICS},
            "/livez": {"get": _get("Whether the process answers.", "Health")},
            "/readyz": {
                "get": _get("Whether the index is warm.", "Health", {503: _ERRORS[503]})
            },
            **describe_oip(),
        },
        "components": {"schemas": schemas},
    }


def _predict(terms: dict[str, Any]) -> dict[str, Any]:
    query = [
        _in_query(name, {k: v for k, v in terms[name].items() if k != "default"})
        for name in _TERMS
    ]
    header = {
        "name": "x-budget-ms",
        "in": "header",
        "description": _TERMS["budget_ms"],
        "schema": {"type": "number"},
    }
    raw = {"schema": {"type": "string", "format": "binary"}}
    return {
        "operationId": "predict",
        "summary": "Classify one item inside its budget.",
        "description": (
            "The item and its terms as JSON, or the item's own bytes with the terms in "
            "the query. The budget starts at the request's first byte."
        ),
        "parameters": [*query, header],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": _REF.format(name="Ask")}},
                "application/msgpack": {"schema": {"$ref": _REF.format(name="Ask")}},
                "image/*": raw,
                "text/plain": {"schema": {"type": "string"}},
                "application/octet-stream": raw,
            },
        },
        "responses": _responses("Answer", _ERRORS),
    }


def _batch(terms: dict[str, Any]) -> dict[str, Any]:
    query = [
        {
            "name": name,
            "in": "query",
            "schema": {k: v for k, v in terms[name].items() if k != "default"},
        }
        for name in terms
    ]
    item, body = ({"$ref": _REF.format(name=n)} for n in ("BatchItem", "BatchBody"))
    entry = {"anyOf": [{"$ref": _REF.format(name=s.__name__)} for s in _ENTRIES]}
    streams = (*JSON_LINES, *MSGPACK)
    whole = {
        "type": "object",
        "properties": {
            "answers": {"type": "array", "items": entry},
            "totals": {"$ref": _REF.format(name="Totals")},
        },
    }
    errors = {k: v for k, v in _ERRORS.items() if k != 422}
    responses = _responses("Totals", errors | {415: "The body is compressed."})
    responses["200"] = {
        "description": "An entry for each item, and the totals.",
        "content": {
            "application/json": {"schema": whole},
            **{kind: {"schema": entry} for kind in streams},
        },
    }
    return {
        "operationId": "batch",
        "summary": "Classify many items under one budget, as they stream in.",
        "parameters": query,
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": body},
                **{kind: {"schema": item} for kind in streams},
            },
        },
        "responses": responses,
    }


def _reload() -> dict[str, Any]:
    described = _get(
        "Load the files of all models again, or of one; the old answer meanwhile.",
        "ModelsFacts",
        {
            400: _NOTHING_ELSE,
            401: _ERRORS[401],
            404: "No model has that name; or the server has no admin token, and this "
            "route does not exist.",
            422: "A file cannot be served; what answered before still does.",
        },
    )
    return {**described, "parameters": [_in_query("model", {"type": "string"})]}


def _show_index() -> dict[str, Any]:
    errors = {400: _NOTHING_ELSE, 404: _ERRORS[404], 503: _ERRORS[503]}
    described = _get("What is being served under a name.", "IndexFacts", errors)
    return {**described, "parameters": [_in_query("model", {"type": "string"})]}


def _in_query(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    described = {"name": name, "in": "query", "description": _TERMS[name]}
    return {**described, "schema": schema}


def _get(
    summary: str, answer: str, errors: dict[int, str] | None = None
) -> dict[str, Any]:
    return {"summary": summary, "responses": _responses(answer, errors or {})}


def _responses(answer: str, errors: dict[int, str]) -> dict[str, Any]:
    responses = {"200": _response("The answer.", answer)}
    for status, description in errors.items():
        responses[str(status)] = _response(description, "Failure")
    return responses


def _response(description: str, name: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name=name)}
    return {
        "description": description,
        "content": {"application/json": {"schema": schema}},
    }

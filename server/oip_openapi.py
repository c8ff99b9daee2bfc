"""The OpenAPI description of `/v2`, from the structures that it reads and writes."""

from typing import Any

import msgspec

from .oip_body import InferBody
from .oip_metadata import ModelIndex, ModelMetadata, ServerFacts
from .oip_statistics import ModelStatistics

_SCHEMA = "#/components/schemas/{}"
_ERRORS = {
    400: "The request, its tensors or its parameters cannot be used.",
    401: "The server wants a token, and this is none that it knows.",
    403: "The operator lets nobody do this.",
    404: "No model has that name, or that version.",
    408: "The request did not come in whole within 10 s.",
    413: "The body is over the limit.",
    415: "The body is compressed in another way than gzip or deflate.",
    422: "A feature cannot be computed on an item; or a file cannot be served.",
    429: "Too many requests wait already; try again after `Retry-After` seconds.",
    503: "Not ready: still being warmed up, not loaded, or about to stop.",
    504: "Nothing that was asked for fits, and `on_infeasible` is `error`.",
}
_RAW = {"schema": {"type": "string", "format": "binary"}}


class Live(msgspec.Struct):
    """Answer of `/v2/health/live`."""

    live: bool


class Ready(msgspec.Struct):
    """Answer of `/v2/health/ready`; the specification says `live`, clients `ready`."""

    live: bool
    ready: bool
    error: str | msgspec.UnsetType = msgspec.UNSET


class ModelReady(msgspec.Struct):
    """Answer of a model's readiness."""

    name: str
    ready: bool
    error: str | msgspec.UnsetType = msgspec.UNSET


class OutputTensor(msgspec.Struct):
    """One output; its data are here, or behind the JSON, of `binary_data_size`."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    data: list[float | bool | str] | msgspec.UnsetType = msgspec.UNSET


class InferAnswer(msgspec.Struct):
    """Answer of an inference request."""

    model_name: str
    model_version: str
    parameters: dict[str, bool | float | str]
    outputs: list[OutputTensor]
    id: str | msgspec.UnsetType = msgspec.UNSET


class ModelsStatistics(msgspec.Struct):
    """Answer of a statistics request."""

    model_stats: list[ModelStatistics]


OIP_STRUCTS = (
    InferAnswer,
    InferBody,
    Live,
    ModelIndex,
    ModelMetadata,
    ModelReady,
    ModelsStatistics,
    Ready,
    ServerFacts,
)


def describe_oip() -> dict[str, Any]:
    """Return the paths below `/v2`; those of models with and without a version."""
    paths: dict[str, Any] = {
        "/v2": {"get": _call("What this server is.", ServerFacts)},
        "/v2/health/live": {"get": _call("Whether the process answers.", Live)},
        "/v2/health/ready": {"get": _ready("Whether every model is ready.", Ready)},
        "/v2/models/stats": {
            "get": _call("What was counted for every model.", ModelsStatistics)
        },
    }
    for base, names in (
        ("/v2/models/{name}", ["name"]),
        ("/v2/models/{name}/versions/{version}", ["name", "version"]),
    ):
        for path, described in _model_paths(base).items():
            ((_, call),) = described.items()
            call["parameters"] = [_in_path(name) for name in names]
            paths[path] = described
    return paths | _repository_paths()


def _model_paths(base: str) -> dict[str, dict[str, Any]]:
    known = (404, 503)
    return {
        base: {"get": _call("Which tensors a model takes.", ModelMetadata, known)},
        f"{base}/ready": {
            "get": _ready("Whether a model is ready.", ModelReady, (404,))
        },
        f"{base}/config": {"get": _call("A model's configuration.", None, known)},
        f"{base}/stats": {
            "get": _call("What was counted for a model.", ModelsStatistics, known)
        },
        f"{base}/infer": {"post": _infer()},
    }


def _repository_paths() -> dict[str, Any]:
    body = {"content": {"application/json": {"schema": {"type": "object"}}}}
    listed = _call("Every model, and whether it answers.", None, (400, 408, 413, 415))
    schema = {"type": "array", "items": {"$ref": _SCHEMA.format("ModelIndex")}}
    listed["responses"]["200"]["content"]["application/json"]["schema"] = schema
    paths = {"/v2/repository/index": {"post": {**listed, "requestBody": body}}}
    errors = (400, 401, 403, 404, 408, 413, 415, 422)
    for verb, summary in (
        ("load", "Load a model's file as it is now."),
        ("unload", "Let a model answer no more."),
    ):
        call = {
            **_call(summary, None, errors),
            "parameters": [_in_path("name")],
            "requestBody": body,
        }
        paths[f"/v2/repository/models/{{name}}/{verb}"] = {"post": call}
    return paths


def _infer() -> dict[str, Any]:
    errors = tuple(status for status in _ERRORS if status not in (401, 403))
    call = _call("Classify items inside one budget.", InferAnswer, errors)
    call["responses"]["200"]["content"]["application/octet-stream"] = _RAW
    schema = {"$ref": _SCHEMA.format("InferBody")}
    call["requestBody"] = {
        "required": True,
        "description": "JSON. With the header inference-header-content-length, that "
        "many bytes of it, and behind them the tensors that have a binary_data_size; "
        "no schema can say that.",
        "content": {"application/json": {"schema": schema}},
    }
    return call


def _ready(
    summary: str, answer: type[msgspec.Struct], errors: tuple[int, ...] = ()
) -> dict[str, Any]:
    call = _call(summary, answer, errors)
    responses = call["responses"]
    responses["503"] = {**responses["200"], "description": _ERRORS[503]}
    return call


def _call(
    summary: str, answer: type[msgspec.Struct] | None, errors: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Describe a call; where `answer` is None, by any object."""
    schema = {"type": "object"}
    if answer is not None:
        schema = {"$ref": _SCHEMA.format(answer.__name__)}
    responses = {"200": _response("The answer.", schema)}
    for status in errors:
        failure = {"$ref": _SCHEMA.format("Failure")}
        responses[str(status)] = _response(_ERRORS[status], failure)
    return {"summary": summary, "responses": responses}


def _response(description: str, schema: dict[str, str]) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/json": {"schema": schema}},
    }


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}

"""The OpenAPI description of `/v2`, generated from the classes of its bodies."""

from typing import Any

import msgspec

from ..http.openapi_parts import ANY_OBJECT, MEANINGS, RAW, call, in_path, ref
from .metadata import (
    Live,
    ModelIndex,
    ModelMetadata,
    ModelReady,
    ModelsStatistics,
    Ready,
    ServerFacts,
)
from .rest_body import InferAnswer, InferBody

_MEANINGS = MEANINGS | {
    400: "The request, its tensors or its parameters cannot be used."
}


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
    """Return the OpenAPI paths under `/v2`, with and without a model's version."""
    paths: dict[str, Any] = {
        "/v2": {"get": call("Describe this server.", ref(ServerFacts))},
        "/v2/health/live": {"get": call("Check that the process answers.", ref(Live))},
        "/v2/health/ready": {"get": _ready("Check that every model is ready.", Ready)},
        "/v2/models/stats": {
            "get": call("Count the requests of every model.", ref(ModelsStatistics))
        },
    }
    for base, names in (
        ("/v2/models/{name}", ["name"]),
        ("/v2/models/{name}/versions/{version}", ["name", "version"]),
    ):
        for path, described in _model_paths(base).items():
            ((_, one),) = described.items()
            one["parameters"] = [in_path(name) for name in names]
            paths[path] = described
    return paths | _repository_paths()


def _model_paths(base: str) -> dict[str, dict[str, Any]]:
    known, tensors = _errors(404, 503), ref(ModelMetadata)
    counted = ref(ModelsStatistics)
    return {
        base: {"get": call("Describe a model's tensors.", tensors, known)},
        f"{base}/ready": {"get": _ready("Check if a model is ready.", ModelReady, 404)},
        f"{base}/config": {
            "get": call("Show a model's configuration.", ANY_OBJECT, known)
        },
        f"{base}/stats": {"get": call("Count a model's requests.", counted, known)},
        f"{base}/infer": {"post": _infer()},
    }


def _repository_paths() -> dict[str, Any]:
    schema = {"type": ["object", "null"]}
    body = {"content": {"application/json": {"schema": schema}}}
    listed = call(
        "List the models with their states.",
        {"type": "array", "items": ref(ModelIndex)},
        _errors(400, 408, 413, 415),
    )
    paths = {"/v2/repository/index": {"post": {**listed, "requestBody": body}}}
    errors = _errors(400, 401, 403, 404, 408, 413, 415, 422)
    for verb, summary in (
        ("load", "Load a model's file again."),
        ("unload", "Unload a model: it no longer answers."),
    ):
        paths[f"/v2/repository/models/{{name}}/{verb}"] = {
            "post": {
                **call(summary, ANY_OBJECT, errors),
                "parameters": [in_path("name")],
                "requestBody": body,
            }
        }
    return paths


def _infer() -> dict[str, Any]:
    errors = _errors(400, 404, 408, 413, 415, 422, 429, 503, 504)
    described = call("Classify items inside one budget.", ref(InferAnswer), errors)
    described["responses"]["200"]["content"]["application/octet-stream"] = RAW
    described["requestBody"] = {
        "required": True,
        "description": "JSON. With the header inference-header-content-length, that "
        "many bytes of it, and behind them the tensors that have a binary_data_size; "
        "no schema can say that.",
        "content": {"application/json": {"schema": ref(InferBody)}},
    }
    return described


def _errors(*statuses: int) -> dict[int, str]:
    return {status: _MEANINGS[status] for status in statuses}


def _ready(summary: str, answer: type[msgspec.Struct], *errors: int) -> dict[str, Any]:
    described = call(summary, ref(answer), _errors(*errors))
    responses = described["responses"]
    # clients read the same body if the answer is "not ready"
    responses["503"] = {**responses["200"], "description": _MEANINGS[503]}
    return described

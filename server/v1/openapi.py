"""The OpenAPI description of `/v1` and the health probes."""

from typing import Any

import msgspec

from ..errors import Failure
from ..http.openapi_parts import (
    ANY_OBJECT,
    MEANINGS,
    RAW,
    call,
    fields,
    in_path,
    in_query,
    ref,
)
from ..schema.facts import CurvesFacts, Health, IndexFacts, InputsFacts, ModelsFacts
from ..schema.rollout import RolloutAsk, RolloutFacts, RolloutsFacts
from ..schema.streams import JSON_LINES
from ..schema.wire import (
    MSGPACK,
    Answer,
    BatchBody,
    BatchItem,
    BatchTerms,
    Entry,
    ErrorEntry,
    PredictRequest,
    Totals,
)

_TERMS = {
    "model": "Name of the model that answers; default the first model of the server.",
    "budget_ms": "Milliseconds from the request's first byte to the answer's last.",
    "budget": "Budget in the index's unit, if this unit is not time.",
    "on_infeasible": "What to answer if no feature set fits into the budget.",
    "min_quality": "Lowest expected quality of an answer that the caller can use.",
    "exact": "If true, models do not stop early: scores are those of whole models.",
    "threshold": "Score from which an answer is the index's positive class, of two.",
}
_MEANINGS = MEANINGS | {
    404: "No model has that name.",
    422: "A feature cannot be computed on this item.",
    503: "The index is being warmed up, or the server is stopping.",
}
_PREDICT_ERRORS = {
    status: _MEANINGS[status]
    for status in (400, 408, 401, 404, 413, 415, 422, 429, 503, 504)
}
_NOTHING_ELSE = "The query has another parameter than `model`, or `model` twice."
_ENTRIES = (Entry, ErrorEntry, Totals)
V1_STRUCTS = (
    PredictRequest,
    Answer,
    Failure,
    Health,
    IndexFacts,
    CurvesFacts,
    InputsFacts,
    ModelsFacts,
    RolloutAsk,
    RolloutFacts,
    RolloutsFacts,
    BatchTerms,
    BatchItem,
    BatchBody,
    *_ENTRIES,
)
_METRICS = {
    "summary": "Get the metrics, for Prometheus.",
    "responses": {
        "200": {
            "description": "Prometheus's text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
}


def describe_v1() -> dict[str, Any]:
    """Return the OpenAPI descriptions of all routes except `/v2`, by path."""
    models, live, cold = ref(ModelsFacts), ref(Health), {503: _MEANINGS[503]}
    return {
        "/v1/predict": {"post": _predict()},
        "/v1/batch": {"post": _batch()},
        "/v1/index": {"get": _show("Describe the index of a model.", IndexFacts)},
        "/v1/index/curves": {
            "get": _show("Show features' costs by item size.", CurvesFacts)
        },
        "/v1/index/inputs": {
            "get": _show("Show how items differ from the build's.", InputsFacts)
        },
        "/v1/index/samples/{number}": {"get": _show_sample()},
        "/v1/models": {"get": call("List the models that are served.", models)},
        "/v1/admin/reload": {"post": _reload()},
        "/v1/admin/rollout": {"get": _rollout(asks=False), "post": _rollout(asks=True)},
        "/metrics": {"get": _METRICS},
        "/livez": {"get": call("Check that the process answers.", live)},
        "/readyz": {"get": call("Check that the index is warm.", live, cold)},
    }


def _predict() -> dict[str, Any]:
    schemas, text = fields(PredictRequest), {"schema": {"type": "string"}}
    header = {
        "name": "x-budget-ms",
        "in": "header",
        "description": _TERMS["budget_ms"],
        "schema": {"type": "number"},
    }
    structured = {"schema": ref(PredictRequest)}
    return {
        **call("Classify one item inside its budget.", ref(Answer), _PREDICT_ERRORS),
        "operationId": "predict",
        "description": (
            "The item and its terms as JSON, or the item's own bytes with the terms in "
            "the query. The budget starts at the request's first byte."
        ),
        "parameters": [
            *(in_query(n, schemas[n], description=_TERMS[n]) for n in _TERMS),
            header,
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": structured,
                "application/msgpack": structured,
                "image/*": RAW,
                "text/plain": text,
                "application/octet-stream": RAW,
            },
        },
    }


def _batch() -> dict[str, Any]:
    entry = {"anyOf": [ref(struct) for struct in _ENTRIES]}
    streams = (*JSON_LINES, *MSGPACK)
    whole = {
        "type": "object",
        "properties": {
            "answers": {"type": "array", "items": entry},
            "totals": ref(Totals),
        },
    }
    errors = _PREDICT_ERRORS | {415: "The body is compressed."}
    del errors[422]  # in a batch, the item's entry has this error
    described = call("Classify a stream of items inside one budget.", whole, errors)
    answer = described["responses"]["200"]
    answer["description"] = "An entry for each item, and the totals."
    answer["content"] |= {kind: {"schema": entry} for kind in streams}
    return {
        **described,
        "operationId": "batch",
        "parameters": [in_query(*field) for field in fields(BatchTerms).items()],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": ref(BatchBody)},
                **{kind: {"schema": ref(BatchItem)} for kind in streams},
            },
        },
    }


def _reload() -> dict[str, Any]:
    described = _of_a_model(
        "Load one model's file again, or all files; old indexes answer meanwhile.",
        ref(ModelsFacts),
        {
            401: _MEANINGS[401],
            404: "No model has that name; or the server has no admin token, and this "
            "route does not exist.",
            422: "A file cannot be served, or would break callers; the index of before "
            "still answers.",
        },
    )
    allowed = in_query(
        "allow_changes",
        {"type": "boolean"},
        description="true to let the new index change what callers rely on.",
    )
    return {**described, "parameters": [*described["parameters"], allowed]}


def _rollout(*, asks: bool) -> dict[str, Any]:
    errors = {
        401: _MEANINGS[401],
        404: "No model has that name; or the server has no admin token, and this route "
        "does not exist.",
    }
    if not asks:
        shown = "Show the candidates of models, and what they are used for."
        return call(shown, ref(RolloutsFacts), errors)
    errors[400] = "The order is not understood, or there is no candidate."
    errors[422] = "The files cannot be moved, or the index cannot be served."
    said = "Try a candidate, promote it, drop it, or go back to the index of before."
    body = {"application/json": {"schema": ref(RolloutAsk)}}
    described = call(said, ref(RolloutsFacts), errors)
    return {**described, "requestBody": {"required": True, "content": body}}


def _show(summary: str, facts: type[msgspec.Struct]) -> dict[str, Any]:
    errors = {404: _MEANINGS[404], 503: _MEANINGS[503]}
    return _of_a_model(summary, ref(facts), errors)


def _show_sample() -> dict[str, Any]:
    errors = {
        404: "No model has that name, or no sample has that number: there are as many "
        "as `/v1/index` says.",
        503: _MEANINGS[503],
    }
    described = _of_a_model("Get an example item of an index.", {}, errors)
    described["parameters"].insert(
        0, {**in_path("number"), "schema": {"type": "integer", "minimum": 0}}
    )
    described["responses"]["200"]["content"] = {
        "application/octet-stream": RAW,
        "text/plain": {"schema": {"type": "string"}},
        "application/json": {"schema": ANY_OBJECT},
    }
    return described


def _of_a_model(
    summary: str, answer: dict[str, Any], errors: dict[int, str]
) -> dict[str, Any]:
    model = in_query("model", {"type": "string"}, description=_TERMS["model"])
    described = call(summary, answer, {400: _NOTHING_ELSE, **errors})
    return {**described, "parameters": [model]}

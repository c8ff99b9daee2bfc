"""KServe's own clients against a server, with their defaults; prints what came back.

python -m tests.support.kubernetes.kserve_calls HTTP_PORT GRPC_PORT

In a process of its own: its messages and those of Triton's client have the same names,
which protobuf keeps apart only between processes.
"""

import asyncio
import json
import sys
from typing import Any

import httpx
import numpy as np
from kserve import (
    InferenceGRPCClient,
    InferenceRESTClient,
    InferInput,
    InferRequest,
    RESTConfig,
)

from tests.support.indexes.served import HAM, SPAM

TEXTS = [SPAM, HAM]


def request(
    model: str, *inputs: InferInput, parameters: dict[str, Any] | None = None
) -> InferRequest:
    return InferRequest(
        model_name=model, infer_inputs=list(inputs), parameters=parameters
    )


def typed() -> InferInput:
    """Texts as KServe's clients send them by default: JSON, or typed contents."""
    return InferInput("text", [2], "BYTES", list(TEXTS))


def binary() -> InferInput:
    """Texts behind the JSON, or as raw contents."""
    given = InferInput("text", [2], "BYTES")
    given.set_data_from_numpy(np.array([text.encode() for text in TEXTS], object))
    return given


def columns() -> list[InferInput]:
    return [
        InferInput("age", [2], "INT64", [20, 50]),
        InferInput("job", [2], "BYTES", ["baker", "clerk"]),
    ]


def facts(response: Any) -> dict[str, Any]:
    """Parts of an answer that do not depend on the clock."""
    label = response.get_output_by_name("label")
    met = response.parameters["budget_met"]
    return {
        "model": response.model_name,
        "label": [str(value) for value in decoded(label.as_numpy())],
        "scores": list(response.get_output_by_name("scores").as_numpy().shape),
        "met": getattr(met, "bool_param", met),
    }


def decoded(values: Any) -> list[str]:
    return [v.decode() if isinstance(v, bytes) else v for v in values.ravel().tolist()]


async def call_rest(port: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}"
    said: dict[str, Any] = {}
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        said["live"] = await client.is_server_live(url)
        said["ready"] = await client.is_server_ready(url)
        said["model"] = await client.is_model_ready(url, "texts")
        said["other"] = await client.is_model_ready(url, "novels")
        for name, asked in asked_for().items():
            answer = await client.infer(url, asked, model_name=asked.model_name)
            said[name] = facts(answer)
        try:
            await client.infer(url, request("novels", typed()), model_name="novels")
        except httpx.HTTPStatusError as error:
            said["error"] = str(error)
    return said


async def call_grpc(port: int) -> dict[str, Any]:
    said: dict[str, Any] = {}
    async with InferenceGRPCClient(f"127.0.0.1:{port}") as client:
        said["live"] = await client.is_server_live()
        said["ready"] = await client.is_server_ready()
        said["model"] = await client.is_model_ready("texts")
        for name, asked in asked_for().items():
            said[name] = facts(await client.infer(asked))
        try:
            await client.infer(request("novels", typed()))
        except Exception as error:
            said["error"] = str(error)
    return said


def asked_for() -> dict[str, InferRequest]:
    budget = {"timeout": 800_000}
    return {
        "typed": request("texts", typed(), parameters=budget),
        "binary": request("texts", binary(), parameters=budget),
        "records": request("records", *columns()),
    }


async def main(http_port: int, grpc_port: int) -> None:
    said = {"rest": await call_rest(http_port), "grpc": await call_grpc(grpc_port)}
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:3])))

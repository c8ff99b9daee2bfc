"""KServe's own clients ask a predictor of records; prints what came back.

python -m tests.support.kubernetes.kserve_predictor MODEL HTTP_PORT GRPC_PORT

In a process of its own, as kserve_calls.py.
"""

import asyncio
import json
import sys
from typing import Any

from kserve import InferenceGRPCClient, InferenceRESTClient, RESTConfig

from tests.support.kubernetes.kserve_calls import columns, decoded, request


def labels(response: Any) -> list[str]:
    return decoded(response.get_output_by_name("label").as_numpy())


async def main(model: str, http_port: int, grpc_port: int) -> None:
    url, asked = f"http://127.0.0.1:{http_port}", request(model, *columns())
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as rest:
        ready = [await rest.is_server_ready(url), await rest.is_model_ready(url, model)]
        said = {"rest": labels(await rest.infer(url, asked, model_name=model))}
    async with InferenceGRPCClient(f"127.0.0.1:{grpc_port}") as grpc:
        ready += [await grpc.is_server_ready(), await grpc.is_model_ready(model)]
        said["grpc"] = labels(await grpc.infer(asked))
    print(json.dumps({**said, "ready": ready}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))

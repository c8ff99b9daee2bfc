"""What is written of `/v2`, for people and machines, is what it does."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from polydom.server.app import create_app, describe_routes
from polydom.server.oip.grpc_calls import CODES
from polydom.server.oip.grpc_messages import METHODS
from polydom.server.oip.openapi import OIP_STRUCTS, describe_oip
from polydom.server.oip.parameters import KEPT_MAX_S, Parameters
from polydom.server.oip.rest_body import InferAnswer
from polydom.server.oip.tensor_items import MAX_ITEMS, Items
from polydom.server.oip.tensors import DTYPES, MAX_ELEMENTS
from polydom.server.settings import Settings
from tests.support.indexes.served import FEATURES_FILE, SPAM, make_index, save_index
from tests.support.places import DOCS
from tests.support.waiting import until_ready

OIP = (DOCS / "reference/oip.md").read_text("utf-8")
ERRORS = (DOCS / "reference/errors.md").read_text("utf-8")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    path = save_index(tmp_path_factory.mktemp("index"))
    app = create_app({"mails": path}, features=[FEATURES_FILE])
    with TestClient(app) as client:
        until_ready(client)
        yield client


def test_document_names_every_route_method_and_output() -> None:
    for path in describe_oip():
        assert f"{path}`" in OIP, path
    for method in METHODS:
        assert f"`{method}`" in OIP, method
    package = make_index().package
    assert package is not None
    for output in Items(package).outputs:
        assert f"| `{output.name}` | `{output.datatype}` " in OIP, output.name
    for code in CODES.values():
        assert f"`{code.name}`" in ERRORS, code


def test_document_has_the_limits_and_parameters_that_the_code_has() -> None:
    assert f"1 to {MAX_ITEMS:,} items" in OIP
    assert f"{MAX_ELEMENTS:,} values" in OIP
    assert f"at most {Settings().body_limit >> 20} MiB" in OIP
    assert f"at most {KEPT_MAX_S * 1e3:g} ms" in OIP
    for datatype in ("BOOL", "UINT8", "UINT64", "INT8", "INT64", "FP16", "FP64"):
        assert datatype in DTYPES
        assert f"`{datatype}`" in OIP
    for name in re.findall(r"^\| `([a-z_]+)`(?:, `([a-z_]+)`)? \| ", BUDGET, re.M):
        values: dict[str, Any] = {
            "on_infeasible": "prior",
            "explain": True,
            "fetch": "never",
        }
        for parameter in filter(None, name):
            Parameters.read({parameter: values.get(parameter, 1)}, None)


BUDGET = OIP.split("## The budget")[1].split("## Outputs")[0]


def test_schemas_are_complete() -> None:
    document = msgspec.json.encode(describe_routes()).decode()
    schemas = describe_routes()["components"]["schemas"]
    for name in re.findall(r"#/components/schemas/(\w+)", document):
        assert name in schemas
    for struct in OIP_STRUCTS:
        assert struct.__name__ in schemas


@pytest.mark.parametrize("path", describe_oip())
@pytest.mark.parametrize("method", ["get", "post"])
def test_every_status_is_described(client: TestClient, path: str, method: str) -> None:
    """Also of names that are not there and of empty bodies."""
    described = describe_oip()[path].get(method)
    (version,) = client.get("/v2/models/mails").json()["versions"]
    for name in ("mails", "novels"):
        filled = path.format(name=name, version=version)
        reply = client.request(method, filled)
        if described is None:
            assert reply.status_code == 405
            assert reply.headers["allow"] != method.upper()
        else:
            assert str(reply.status_code) in described["responses"], filled


def test_answer_is_as_described(client: TestClient) -> None:
    given = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [SPAM]}
    reply = client.post("/v2/models/mails/infer", json={"inputs": [given], "id": "7"})
    answer = msgspec.json.decode(reply.content, type=InferAnswer)
    assert (answer.id, answer.outputs[0].data) == ("7", ["spam"])

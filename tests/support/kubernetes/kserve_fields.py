"""Fields of manifests that KServe's and Kubernetes's own classes do not have.

python -m tests.support.kubernetes.kserve_fields < MANIFESTS.json

MANIFESTS.json is a list of [manifest, type].

In a process of its own, as kserve_calls.py.
"""

import json
import re
import sys
from typing import Any

import kserve.models
import kubernetes.client.models


def unknown_fields(given: Any, type_name: str) -> list[str]:
    """Fields of a manifest that KServe's and Kubernetes's own classes do not have.

    `type_name` is as in their `openapi_types`: a class, or `list[...]` of one.
    """
    if inner := re.fullmatch(r"list\[(.*)\]", type_name):
        return [field for item in given for field in unknown_fields(item, inner[1])]
    name = type_name.removeprefix("K8sIoApiCore").removeprefix("K8sIoApi")
    known = next(
        (
            found
            for module in (kserve.models, kubernetes.client.models)
            if (found := getattr(module, name, None)) is not None
        ),
        None,
    )
    if known is None or not isinstance(given, dict):
        return []
    keys = {key: attribute for attribute, key in known.attribute_map.items()}
    unknown = [f"{name}.{key}" for key in given.keys() - keys.keys()]
    for key in given.keys() & keys.keys():
        unknown += unknown_fields(given[key], known.openapi_types[keys[key]])
    return unknown


if __name__ == "__main__":
    print(json.dumps([unknown_fields(*given) for given in json.load(sys.stdin)]))

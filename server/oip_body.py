"""Bodies of the Open Inference Protocol over HTTP: JSON, and tensors behind it."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ..features.errors import BadInput
from ..features.wording import in_words
from .json_keys import Twice, refuse_twice, twice_in_json
from .oip import Inference, Inferred
from .oip_items import Requested
from .oip_terms import Parameter
from .tensors import Tensor, from_json, from_raw, to_raw
from .wire import encode

Parameters = dict[str, Parameter]


class InputBody(msgspec.Struct, forbid_unknown_fields=True):
    """One input tensor; its data are here, or behind the JSON."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters | None = None
    data: list[Any] | UnsetType = UNSET


class OutputBody(msgspec.Struct, forbid_unknown_fields=True):
    """One output that is asked for."""

    name: str
    parameters: Parameters | None = None


class InferBody(msgspec.Struct, forbid_unknown_fields=True):
    """An inference request; model and version count as the path says them."""

    inputs: list[InputBody]
    outputs: list[OutputBody] | None = None
    parameters: Parameters | None = None
    id: str = ""
    model_name: str | None = None
    model_version: str | None = None


_decode = msgspec.json.Decoder(InferBody).decode


class Decoded:
    """One inference request, and which of its outputs are to be binary."""

    def __init__(self, inference: Inference, binary: dict[str, bool], all_: bool):
        self.inference = inference
        self._binary = binary
        self._all = all_

    def encode(self, inferred: Inferred) -> tuple[bytes, int | None]:
        """Write the answer; its body, and the JSON's length if tensors follow it."""
        outputs, parts = [], []
        for tensor in inferred.outputs:
            facts: dict[str, Any] = {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": tensor.shape,
            }
            if self._binary.get(tensor.name, self._all):
                parts.append(to_raw(tensor))
                facts["parameters"] = {"binary_data_size": len(parts[-1])}
            else:
                facts["data"] = tensor.values
            outputs.append(facts)
        answer = {
            "model_name": inferred.model,
            "model_version": inferred.version,
            "parameters": inferred.parameters,
            "outputs": outputs,
        }
        if inferred.id:
            answer["id"] = inferred.id
        head = encode(answer)
        return b"".join((head, *parts)), len(head) if parts else None


def decode_infer(
    model: str, version: str, body: bytes, json_length: int | None
) -> Decoded:
    """Read the body of one inference request.

    Parameters
    ----------
    model, version
        As the path says.
    body
        JSON, and after it the tensors that say so, in their order.
    json_length
        Bytes of JSON; None where it is all.

    Raises
    ------
    BadInput
        If it is malformed, or a tensor is not what it says.
    """
    if json_length is not None and not 0 < json_length <= len(body):
        raise BadInput(
            f"inference-header-content-length is {json_length}; the body has "
            f"{len(body):,} bytes, which must begin with that much JSON"
        )
    raw = None if json_length is None else memoryview(body)[json_length:]
    document = body if json_length is None else body[:json_length]
    try:
        read = _decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"body: {in_words(error)}") from error
    if document.count(b":") > _keys_given(read):
        refuse_twice("body", Twice(twice_in_json(document).any))
    parameters = read.parameters or {}
    all_ = parameters.get("binary_data_output", False)
    if not isinstance(all_, bool):
        raise BadInput("parameter binary_data_output must be true or false")
    binary, requested = _read_outputs(read.outputs or [])
    inputs = _read_inputs(read.inputs, raw)
    inference = Inference(model, version, read.id, parameters, inputs, requested)
    return Decoded(inference, binary, all_)


def _keys_given(read: InferBody) -> int:
    """Count the keys that were given for certain, each with a colon."""
    outputs = read.outputs or []
    holders: list[Any] = [read, *read.inputs, *outputs]
    objects = [holder.parameters for holder in holders]
    keys = 1 + (read.outputs is not None) + (read.id != "")
    keys += sum(3 + (given.data is not UNSET) for given in read.inputs)
    keys += len(outputs)
    return keys + sum(1 + len(found) for found in objects if found is not None)


def _read_inputs(inputs: list[InputBody], raw: memoryview | None) -> list[Tensor]:
    tensors, start = [], 0
    for given in inputs:
        parameters = given.parameters or {}
        refuse_shared_memory(given.name, parameters)
        size = parameters.get("binary_data_size")
        if size is None:
            data = [] if given.data is UNSET and 0 in given.shape else given.data
            if data is UNSET:
                raise BadInput(f"input {given.name[:80]!r} has no 'data'")
            tensors.append(from_json(given.name, given.datatype, given.shape, data))
            continue
        if raw is None or given.data is not UNSET:
            raise BadInput(
                f"input {given.name[:80]!r} is said to be binary: it needs the header "
                "inference-header-content-length, and no 'data'"
            )
        if type(size) is not int or not 0 <= size <= len(raw) - start:
            raise BadInput(
                f"input {given.name[:80]!r}: binary_data_size is {size!r}; "
                f"{len(raw) - start:,} bytes are left behind the JSON"
            )
        piece = bytes(raw[start : start + size])
        tensors.append(from_raw(given.name, given.datatype, given.shape, piece))
        start += size
    if raw is not None and start != len(raw):
        raise BadInput(f"{len(raw) - start:,} bytes behind the JSON belong to no input")
    return tensors


def _read_outputs(
    outputs: list[OutputBody],
) -> tuple[dict[str, bool], list[Requested]]:
    binary, requested = {}, []
    for output in outputs:
        parameters = output.parameters or {}
        wanted = parameters.get("binary_data")
        if isinstance(wanted, bool):
            binary[output.name] = wanted
        elif wanted is not None:
            raise BadInput(f"output {output.name[:80]!r}: binary_data is no boolean")
        requested.append(read_requested(output.name, parameters))
    return binary, requested


def read_requested(name: str, parameters: Parameters) -> Requested:
    """Read what an output's parameters ask for, but for how it is sent.

    Raises
    ------
    BadInput
        If it is shared memory, or no number of classes.
    """
    refuse_shared_memory(name, parameters)
    classes = parameters.get("classification", 0)
    if type(classes) is not int or classes < 0:
        raise BadInput(f"output {name[:80]!r}: classification is no number of classes")
    return Requested(name, classes)


def refuse_shared_memory(name: str, parameters: Parameters) -> None:
    """Refuse a tensor that is in the caller's memory.

    Raises
    ------
    BadInput
        If it is.
    """
    if "shared_memory_region" in parameters:
        raise BadInput(f"tensor {name[:80]!r}: shared memory is not offered")

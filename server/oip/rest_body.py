"""Bodies of the Open Inference Protocol over HTTP: JSON, then binary tensors.

A body that is malformed or contradicts itself raises BadInput.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from polydom.features.errors import BadInput
from polydom.features.wording import describe_decode_error, without_mark

from ..schema.bounds import LARGE, TERMS, strings_at_most
from ..schema.wire import encode
from .service import InferRequest, InferResponse
from .tensor_items import MAX_ITEMS, Requested
from .tensors import Declared, Tensor, to_raw

# Parameters by name; null means that a parameter is not given.
ParameterMap = dict[str, Any]


class InputBody(msgspec.Struct, forbid_unknown_fields=True):
    """An input tensor; its data is in the JSON, or in binary form after the JSON."""

    name: str
    shape: list[int]
    datatype: str
    parameters: ParameterMap | None = None
    data: list[Any] | None = None


class OutputBody(msgspec.Struct, forbid_unknown_fields=True):
    """An output tensor that the request asks for."""

    name: str
    parameters: ParameterMap | None = None


class InferBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON of an inference request; the path has the model and the version."""

    inputs: list[InputBody]
    outputs: list[OutputBody] | None = None
    parameters: ParameterMap | None = None
    id: str | None = None
    model_name: str | None = None
    model_version: str | None = None


class OutputTensor(msgspec.Struct):
    """An output tensor; its data is in the JSON, or in binary form after the JSON.

    A tensor with binary data has a parameter `binary_data_size`.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: dict[str, int] | UnsetType = UNSET
    data: Sequence[float | bool | str] | UnsetType = UNSET


class InferAnswer(msgspec.Struct):
    """The JSON that answers an inference request."""

    model_name: str
    model_version: str
    parameters: Mapping[str, bool | float | str]
    outputs: list[OutputTensor]
    id: str | UnsetType = UNSET


class _LargeInput(msgspec.Struct, forbid_unknown_fields=True):
    """An input like `InputBody`, but parts that may be long are not decoded."""

    name: str
    shape: Raw
    datatype: str
    parameters: Raw | UnsetType = UNSET
    data: Raw | UnsetType = UNSET


class _LargeBody(InferBody, forbid_unknown_fields=True, kw_only=True):
    """A request like `InferBody`, but parts that may be long are not decoded."""

    inputs: list[_LargeInput]  # type: ignore[assignment]
    outputs: Raw | UnsetType = UNSET  # type: ignore[assignment]
    parameters: Raw | UnsetType = UNSET  # type: ignore[assignment]


_decode = msgspec.json.Decoder(InferBody).decode
_decode_large = msgspec.json.Decoder(_LargeBody).decode
_decode_parameters = msgspec.json.Decoder(ParameterMap | None).decode
_decode_outputs = msgspec.json.Decoder(list[OutputBody] | None).decode
_decode_shape = msgspec.json.Decoder(list[int]).decode


class Decoded:
    """A decoded inference request; it remembers which outputs must be binary."""

    def __init__(self, inference: InferRequest, binary: dict[str, bool], all_: bool):
        self.inference = inference
        self._binary = binary
        self._all = all_

    def encode(self, inferred: InferResponse) -> tuple[bytes, int | None]:
        """Encode an answer; return the body, and the length of the JSON in it.

        The length is None if the body has no binary data.
        """
        outputs, parts = [], []
        for tensor in inferred.outputs:
            output = OutputTensor(tensor.name, tensor.datatype, tensor.shape)
            if self._binary.get(tensor.name, self._all):
                parts.append(to_raw(tensor))
                output.parameters = {"binary_data_size": len(parts[-1])}
            else:
                output.data = cast(Any, tensor.values)
            outputs.append(output)
        model, version, id_ = inferred.model, inferred.version, inferred.id or UNSET
        answer = InferAnswer(model, version, inferred.parameters, outputs, id_)
        head = encode(answer)
        return b"".join((head, *parts)), len(head) if parts else None


def decode_infer(
    model: str, version: str, body: bytes, json_length: int | None, widest: int
) -> Decoded:
    """Decode and check the body of an inference request.

    The body has `json_length` bytes of JSON, followed by the binary tensors in their
    order. If `json_length` is None, the whole body is JSON. `widest` is the maximum
    number of values per item in one input.
    """
    if json_length is not None and not 0 < json_length <= len(body):
        raise BadInput(
            f"inference-header-content-length is {json_length}; the body has "
            f"{len(body):,} bytes, which must begin with that much JSON"
        )
    raw = None if json_length is None else memoryview(body)[json_length:]
    document = body if json_length is None else body[:json_length]
    document = without_mark(document)
    if not document.strip():
        raise BadInput("body: it is empty")
    try:
        large = len(document) > LARGE
        read = _read_large(document, widest) if large else _decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = describe_decode_error(error, InferBody, document)
        raise BadInput(f"body: {why}") from error
    parameters = read.parameters or {}
    all_ = parameters.get("binary_data_output") or False
    if not isinstance(all_, bool):
        raise BadInput("parameter binary_data_output must be true or false")
    binary, requested = _read_outputs(read.outputs or [])
    inputs = _read_inputs(read.inputs, raw, widest)
    inference = InferRequest(
        model, version, read.id or "", parameters, inputs, requested
    )
    return Decoded(inference, binary, all_)


def _read_large(head: bytes, widest: int) -> InferBody:
    """Decode a large body, except the data of its tensors.

    Raises BadInput if a shape, the parameters or the outputs are too long.
    """
    # a string element has two quotes; the rest of an input has less than 64
    most = 2 * MAX_ITEMS * widest + 64 * (widest + 64)
    if strings_at_most(head) > most:
        raise BadInput("the body holds more strings and names than items can have")
    large = _decode_large(head)
    return InferBody(
        inputs=[
            InputBody(
                given.name,
                _decode_shape(_short(given.shape, "a shape")),
                given.datatype,
                _decode_parameters(_short(given.parameters, "parameters")),
                _unless_null(given.data),
            )
            for given in large.inputs
        ],
        outputs=_decode_outputs(_short(large.outputs, "outputs")),
        parameters=_decode_parameters(_short(large.parameters, "parameters")),
        id=large.id,
    )


def _unless_null(raw: Raw | UnsetType) -> Any:
    return None if raw is UNSET or bytes(raw) == b"null" else raw


def _short(raw: Any, what: str) -> bytes:
    """Return the bytes of a part of the JSON; raise BadInput if it is too long.

    `what` names the part in the error message.
    """
    if raw is UNSET:
        return b"null"
    data = bytes(raw)
    if len(data) > TERMS:
        raise BadInput(f"{what} of {len(data):,} bytes; up to {TERMS:,} are read")
    return data


def _read_data(given: InputBody, data: Any, widest: int) -> Tensor:
    """Check an input's shape, then decode its JSON data."""
    declared = Declared.read(given.name, given.datatype, given.shape)
    if not isinstance(data, Raw):
        return declared.from_json(data)
    _refuse_many(declared, widest)
    return declared.from_raw_json(data)


def _refuse_many(declared: Declared, widest: int) -> None:
    """Raise BadInput if a tensor has more values than a request's items can have."""
    if len(declared.shape) > 2 or declared.size > MAX_ITEMS * widest:
        raise BadInput(
            f"input {declared.name[:80]!r} has shape {list(declared.shape)}; up to "
            f"{MAX_ITEMS:,} items of up to {widest:,} values can be in a request"
        )


def _read_inputs(
    inputs: list[InputBody], raw: memoryview | None, widest: int
) -> list[Tensor]:
    tensors, start = [], 0
    for given in inputs:
        parameters = given.parameters or {}
        refuse_shared_memory(given.name, parameters)
        size = parameters.get("binary_data_size")
        if size is None:
            data = [] if given.data is None and 0 in given.shape else given.data
            if data is None:
                raise BadInput(f"input {given.name[:80]!r} has no 'data'")
            tensors.append(_read_data(given, data, widest))
            continue
        if raw is None or given.data is not None:
            raise BadInput(
                f"input {given.name[:80]!r} is said to be binary: it needs the header "
                "inference-header-content-length, and no 'data'"
            )
        if type(size) is not int or not 0 <= size <= len(raw) - start:
            raise BadInput(
                f"input {given.name[:80]!r}: binary_data_size is {size!r}; "
                f"{len(raw) - start:,} bytes are left behind the JSON"
            )
        declared = Declared.read(given.name, given.datatype, given.shape)
        if size > LARGE:
            _refuse_many(declared, widest)
        tensors.append(declared.from_raw(bytes(raw[start : start + size])))
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


def read_requested(name: str, parameters: ParameterMap) -> Requested:
    """Return the requested output `name` with the number of classes it asks for."""
    refuse_shared_memory(name, parameters)
    classes = parameters.get("classification")
    classes = 0 if classes is None else classes
    if type(classes) is not int or classes < 0:
        raise BadInput(f"output {name[:80]!r}: classification is no number of classes")
    return Requested(name, classes)


def refuse_shared_memory(name: str, parameters: ParameterMap) -> None:
    """Raise BadInput if a tensor's parameters say that it is in shared memory."""
    if parameters.get("shared_memory_region") is not None:
        raise BadInput(f"tensor {name[:80]!r}: shared memory is not offered")

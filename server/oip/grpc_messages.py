"""Messages of the Open Inference Protocol over gRPC, to and from what the server knows.

The classes are made from a pool of their own, so that a client's messages of the same
names can be in the same process, and none depends on protobuf's version.
"""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import msgspec
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from polydom.features.errors import BadInput

from .parameters import Parameter
from .rest_body import read_requested, refuse_shared_memory
from .service import InferRequest, InferResponse
from .tensors import BYTES, Declared, Tensor, elements_of, to_raw

Message = Any  # protobuf makes its classes while running

SERVICE = "inference.GRPCInferenceService"
CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}
_FIELDS: tuple[tuple[type, str], ...] = (
    (bool, "bool_param"),
    (int, "int64_param"),
    (float, "double_param"),
    (str, "string_param"),
)

FILE = files(__package__).joinpath("inference.binpb").read_bytes()
_file: Any = DescriptorPool().AddSerializedFile(FILE)
_service: Any = _file.services_by_name["GRPCInferenceService"]
METHODS: Mapping[str, Any] = _service.methods_by_name
# Classes by name, such as `ModelInferRequest`.
MESSAGES: Mapping[str, Any] = {
    name: GetMessageClass(descriptor)
    for name, descriptor in _file.message_types_by_name.items()
}


def message_of(name: str, facts: Any) -> Message:
    """Fill a message from a struct, or a dict, with the same names."""
    return ParseDict(msgspec.to_builtins(facts), MESSAGES[name]())


def parameters_of(entries: Mapping[str, Message]) -> dict[str, Parameter]:
    """Read a map of parameters; one without a value is not there."""
    read = {}
    for name, entry in entries.items():
        if (field := entry.WhichOneof("parameter_choice")) is not None:
            read[name] = getattr(entry, field)
    return read


def inference_of(request: Message) -> InferRequest:
    """Read an inference request; BadInput where a tensor is not what it says."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise BadInput(
            f"{len(raw)} raw_input_contents came for {len(request.inputs)} inputs"
        )
    inputs = []
    for i, given in enumerate(request.inputs):
        refuse_shared_memory(given.name, parameters_of(given.parameters))
        if not raw:
            inputs.append(_typed(given))
        elif given.HasField("contents"):
            raise BadInput(
                f"input {given.name[:80]!r} has contents, although raw_input_contents "
                "are there"
            )
        else:
            inputs.append(_declared(given).from_raw(raw[i]))
    return InferRequest(
        model=request.model_name,
        version=request.model_version,
        id=request.id,
        parameters=parameters_of(request.parameters),
        inputs=inputs,
        outputs=[
            read_requested(output.name, parameters_of(output.parameters))
            for output in request.outputs
        ],
    )


def _typed(given: Message) -> Tensor:
    wanted = CONTENTS.get(given.datatype)
    filled = {field.name for field, _ in given.contents.ListFields()}
    if filled - {wanted}:
        where = f"in {wanted}" if wanted else "in raw_input_contents"
        raise BadInput(
            f"input {given.name[:80]!r}: the values of {given.datatype[:20]!r} belong "
            f"{where}, not in {min(filled - {wanted})}"
        )
    values: Iterable[Any] = getattr(given.contents, wanted) if wanted else ()
    return _declared(given).from_values(list(values))


def _declared(given: Message) -> Declared:
    return Declared.read(given.name, given.datatype, given.shape)


def response_of(inferred: InferResponse, *, raw: bool) -> Message:
    """Write the answer to an inference request, its outputs raw or typed."""
    response = MESSAGES["ModelInferResponse"](
        model_name=inferred.model, model_version=inferred.version, id=inferred.id
    )
    for name, value in inferred.parameters.items():
        field = next(field for kind, field in _FIELDS if isinstance(value, kind))
        setattr(response.parameters[name], field, value)
    for tensor in inferred.outputs:
        output = response.outputs.add(
            name=tensor.name, datatype=tensor.datatype, shape=tensor.shape
        )
        if raw:
            response.raw_output_contents.append(to_raw(tensor))
        else:
            is_bytes = tensor.datatype == BYTES
            values = elements_of(tensor) if is_bytes else tensor.values
            getattr(output.contents, CONTENTS[tensor.datatype]).extend(values)
    return response

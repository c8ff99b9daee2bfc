"""Messages of the Open Inference Protocol over gRPC: decoding and encoding.

The message classes come from a separate descriptor pool. So a client in the same
process can use messages with the same names, and the classes do not depend on
protobuf's version.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from polydom.features.errors import BadInput
from polydom.features.protobuf import LENGTH

from ..errors import TooLarge
from ..schema.bounds import LARGE, USUAL_COLUMNS
from .parameters import Parameter
from .protobuf_wire import fields, malformed, pieces, written
from .rest_body import read_requested, refuse_shared_memory
from .service import InferRequest, InferResponse
from .tensors import BYTES, MAX_ELEMENTS, Declared, Tensor, elements_of, to_raw

Message = Any  # protobuf creates its classes at run time

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

# File descriptors of the protocol and of gRPC's health checks.
FILES = {
    name: files(__package__).joinpath(f"{name}.binpb").read_bytes()
    for name in ("inference", "health")
}
_pool = DescriptorPool()
_read: dict[str, Any] = {
    name: _pool.AddSerializedFile(data) for name, data in FILES.items()
}
_service: Any = _read["inference"].services_by_name["GRPCInferenceService"]
METHODS: Mapping[str, Any] = _service.methods_by_name
# Message classes by name, such as `ModelInferRequest`.
MESSAGES: Mapping[str, Any] = {
    name: GetMessageClass(descriptor)
    for file in _read.values()
    for name, descriptor in file.message_types_by_name.items()
}
_REQUEST = MESSAGES["ModelInferRequest"]
_CONTENTS = MESSAGES["InferTensorContents"]
# Numbers and types of fields that are read before protobuf decodes the message.
_INPUTS = _REQUEST.DESCRIPTOR.fields_by_name["inputs"]
_TYPED: int = _INPUTS.message_type.fields_by_name["contents"].number
_RAW: int = _REQUEST.DESCRIPTOR.fields_by_name["raw_input_contents"].number
_PACKED: dict[int, int] = {
    field.number: {"fp32_contents": 4, "fp64_contents": 8}.get(field.name, 0)
    for field in _CONTENTS.DESCRIPTOR.fields
    if field.name != "bytes_contents"
}
# In a long request, each column's input may have FIELDS_EACH fields: name, datatype,
# shape, contents, raw contents, and some to spare. Without its data it may take
# NAMES_EACH bytes.
FIELDS_EACH, NAMES_EACH = 8, 128
# Number of inputs allowed in addition to the index's columns.
SPARE = 64
# Maximum number of fields in the contents of one input: strings, or numbers that are
# not packed.
MOST_CONTENTS = 1 << 16
# Maximum number of outputs of a request; an index has fewer.
MOST_OUTPUTS = 64
# Maximum size in bytes of a message that is not an inference request.
SHORT = 16 << 10
# Maximum number of values in all inputs together.
MOST_VALUES = 2 * MAX_ELEMENTS
# The received bytes are in memory COPIES times: as the message, as elements and as
# items. A value in an item takes VALUE_BYTES bytes.
COPIES, VALUE_BYTES = 3, 100


class Asked(NamedTuple):
    """A decoded inference request. If it is long, its data stays encoded."""

    message: Message  # The decoded message; for a long request without its data
    # For a long request: encoded contents by position of the input
    typed: Mapping[int, memoryview]
    raw: Sequence[bytes | memoryview]  # Elements of `raw_input_contents`
    size: int  # Size of the received message, in bytes

    @property
    def weight(self) -> int:
        """Size in bytes, or a larger number if there are many inputs and outputs.

        It estimates the work of processing the request.
        """
        entries = len(self.message.inputs) + len(self.message.outputs)
        return max(self.size, LARGE // 1024 * entries)


def read_short(name: str, data: bytes) -> Message:
    """Decode a message of type `name`; raise TooLarge above `SHORT` bytes.

    Inference requests may be longer: use `read_asked` for them.
    """
    if len(data) > SHORT:
        raise TooLarge(
            f"the message has {len(data):,} bytes; one that is no inference has at "
            f"most {SHORT:,}"
        )
    return _decoded(MESSAGES[name], data)


def read_asked(data: bytes, columns: int = USUAL_COLUMNS) -> Asked:
    """Decode an inference request; leave the data of a long request encoded.

    A request is long above `LARGE` bytes. `columns` is the maximum number of columns of
    a record. Raises BadInput if a long request has more fields than these columns need.
    """
    if len(data) <= LARGE:
        message = _decoded(_REQUEST, data)
        return Asked(message, {}, message.raw_input_contents, len(data))
    whole, left = memoryview(data), FIELDS_EACH * (columns + SPARE)
    kept: list[bytes | memoryview] = []
    typed: dict[int, memoryview] = {}
    raw: list[memoryview] = []
    inputs = size = 0
    for field in fields(whole, left):
        part = whole[field.begin : field.end]
        value = whole[field.value : field.end]
        if (field.number, field.kind) == (_RAW, LENGTH):
            raw.append(value)
            continue
        if (field.number, field.kind) == (_INPUTS.number, LENGTH):
            said, contents, count = _split_input(value, left)
            left -= count
            if contents is not None:
                typed[inputs] = contents
            inputs += 1
            part = memoryview(written(_INPUTS.number, said))
        kept.append(part)
        size += len(part)
        if size > (most := NAMES_EACH * (columns + SPARE)):
            raise BadInput(f"the request has more than {most:,} bytes beside its data")
    return Asked(_decoded(_REQUEST, b"".join(kept)), typed, raw, len(data))


def _split_input(given: memoryview, most: int) -> tuple[bytes, memoryview | None, int]:
    """Split an encoded input into its description and its contents.

    Returns the description, the contents (None if absent), and the number of fields.
    Raises BadInput for more than `most` fields.
    """
    kept: list[memoryview] = []
    held: list[memoryview] = []
    count = 0
    for field in fields(given, most):
        count += 1
        if (field.number, field.kind) == (_TYPED, LENGTH):
            held.append(given[field.value : field.end])
        else:
            kept.append(given[field.begin : field.end])
    if len(held) > 1:
        held = [memoryview(b"".join(held))]
    return b"".join(kept), held[0] if held else None, count


def _decoded(kind: Any, data: bytes) -> Message:
    try:
        return kind.FromString(data)
    except DecodeError:
        # protobuf's message does not help, and its traceback would keep the data alive
        pass
    raise malformed()


def message_of(name: str, facts: Any) -> Message:
    """Return a message of type `name` with the fields of `facts`, a struct or dict."""
    return ParseDict(msgspec.to_builtins(facts), MESSAGES[name]())


def parameters_of(entries: Mapping[str, Message]) -> dict[str, Parameter]:
    """Return parameters as Python values; omit parameters without a value."""
    read = {}
    for name, entry in entries.items():
        if (field := entry.WhichOneof("parameter_choice")) is not None:
            read[name] = getattr(entry, field)
    return read


def declared_in(asked: Asked) -> list[Declared]:
    """Check the name, datatype and shape of each input; return them without values."""
    message, raw = asked.message, asked.raw
    if raw and len(raw) != len(message.inputs):
        raise BadInput(
            f"{len(raw)} raw_input_contents came for {len(message.inputs)} inputs"
        )
    if len(message.outputs) > MOST_OUTPUTS:
        raise BadInput(
            f"{len(message.outputs):,} outputs are asked for; there are fewer"
        )
    declared = []
    for i, given in enumerate(message.inputs):
        refuse_shared_memory(given.name, parameters_of(given.parameters))
        if raw and (i in asked.typed or given.HasField("contents")):
            raise BadInput(
                f"input {given.name[:80]!r} has contents, although raw_input_contents "
                "are there"
            )
        declared.append(Declared.read(given.name, given.datatype, given.shape))
    if (values := sum(tensor.size for tensor in declared)) > MOST_VALUES:
        raise BadInput(
            f"the inputs hold {values:,} values; at most {MOST_VALUES:,} are read"
        )
    return declared


def size_of(asked: Asked, declared: Iterable[Declared]) -> int:
    """Return the maximum bytes of memory that a request needs until it is answered."""
    return COPIES * asked.size + VALUE_BYTES * sum(tensor.size for tensor in declared)


def inference_of(asked: Asked, declared: Sequence[Declared]) -> InferRequest:
    """Decode the data of an inference request; `declared` comes from `declared_in`."""
    message = asked.message
    if asked.raw:
        inputs = list(map(Declared.from_raw, declared, asked.raw))
    else:
        inputs = [
            _typed(tensor, _contents(asked, i)) for i, tensor in enumerate(declared)
        ]
    return InferRequest(
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        parameters=parameters_of(message.parameters),
        inputs=inputs,
        outputs=[
            read_requested(output.name, parameters_of(output.parameters))
            for output in message.outputs
        ],
    )


def _contents(asked: Asked, i: int) -> Iterator[Message]:
    """Yield the contents of input `i`; long contents come in several pieces."""
    if i in asked.typed:
        for piece in pieces(asked.typed[i], _PACKED, MOST_CONTENTS):
            yield _decoded(_CONTENTS, piece)
    else:
        yield asked.message.inputs[i].contents


def _typed(declared: Declared, contents: Iterable[Message]) -> Tensor:
    wanted = CONTENTS.get(declared.datatype)
    values: list[Any] = []
    for piece in contents:
        filled = {field.name for field, _ in piece.ListFields()}
        if filled - {wanted}:
            where = f"in {wanted}" if wanted else "in raw_input_contents"
            raise declared.wrong(
                f"the values of {declared.datatype!r} belong {where}, not in "
                f"{min(filled - {wanted})}"
            )
        if wanted:
            values += getattr(piece, wanted)
        if len(values) > declared.size:
            break
    return declared.from_values(values)


def response_of(inferred: InferResponse, *, raw: bool) -> Message:
    """Return the message that answers an inference request.

    If `raw`, the outputs are encoded as bytes; otherwise they are typed values.
    """
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

"""The Open Inference Protocol over gRPC, on the event loop that serves HTTP too."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from polydom.features.errors import BadInput

from ..engine.request import Caller
from ..errors import STATUSES
from ..http.headers import Headers
from ..runtime.threads import run_off_loop
from ..settings import DRAIN_S, KEEP_ALIVE_S, GrpcAt
from .grpc_messages import (
    MESSAGES,
    METHODS,
    SERVICE,
    Message,
    inference_of,
    message_of,
    parameters_of,
    response_of,
)
from .metadata import config_of, server_facts
from .service import InferenceService, InferResponse

# Sending is watched for so long: what a caller makes it wait is not the server's time.
SENDING_S = 1e-3
# Requests under way at once, as many as connections over HTTP.
CALL_LIMIT = 4096
CODES = {s.number: grpc.StatusCode[s.grpc] for s in STATUSES if s.grpc}
INFER, STREAM = "ModelInfer", "ModelStreamInfer"
LOAD, UNLOAD = "RepositoryModelLoad", "RepositoryModelUnload"
# Those need an admin's token, these none.
CHANGES, PROBES = (LOAD, UNLOAD), ("ServerLive", "ServerReady")


class GrpcService:
    """Answers each method of the protocol; decoding, calling and encoding only."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        # methods that say what is so; the others do something
        self._facts: Mapping[str, Callable[[Message], Any]] = {
            "ServerLive": lambda _: {"live": True},
            "ServerReady": lambda _: {"ready": service.repository.ready},
            "ModelReady": lambda asked: {
                "ready": service.model_ready(asked.name, asked.version)
            },
            "ServerMetadata": lambda _: server_facts(),
            "ModelMetadata": lambda asked: service.model_metadata(
                asked.name, asked.version
            ),
            "ModelConfig": lambda asked: {
                "config": config_of(service.model_metadata(asked.name, asked.version))
            },
            "ModelStatistics": lambda asked: service.statistics(
                asked.name, asked.version
            ),
            "RepositoryIndex": lambda asked: {
                "models": service.index(ready_only=asked.ready)
            },
        }

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a gRPC server needs to call the methods."""
        handlers = {name: self._method(name) for name in METHODS}
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _method(self, name: str) -> grpc.RpcMethodHandler:
        write = MESSAGES[METHODS[name].output_type.name].SerializeToString
        if name == STREAM:
            return grpc.stream_stream_rpc_method_handler(self._stream, _receive, write)
        answer = partial(self._call, name)
        return grpc.unary_unary_rpc_method_handler(answer, _receive, write)

    async def _call(self, name: str, received: "Received", context: Any) -> Message:
        """Answer one request; an error becomes a status."""
        model = ""
        try:
            async with self._let_in(name, received, context) as asked:
                model = getattr(asked, "model_name", "")
                return await self._answer(name, asked, received.arrived_s, context)
        except Exception as error:
            status, failure = self._service.failure(error, model, received.arrived_s)
            code = CODES.get(status, grpc.StatusCode.INTERNAL)
            await context.abort(code, failure.error)

    async def _stream(
        self, stream: AsyncIterator["Received"], context: Any
    ) -> AsyncIterator[Message]:
        """Answer one request of a stream after the other; an error ends none."""
        response = MESSAGES["ModelStreamInferResponse"]
        async for received in stream:
            arrived_s, model, id_ = received.arrived_s, "", ""
            try:
                async with self._let_in(STREAM, received, context) as asked:
                    model, id_ = asked.model_name, asked.id
                    inferred = await self._inferred(asked, arrived_s, context)
                answer = _response(asked, inferred)
                handed_s = time.monotonic()
                yield response(infer_response=answer)
                inferred.sent(_written_s(handed_s))
            except Exception as error:
                _, failure = self._service.failure(error, model, arrived_s)
                yield response(error_message=failure.error, infer_response={"id": id_})

    @contextlib.asynccontextmanager
    async def _let_in(
        self, name: str, received: "Received", context: Any
    ) -> AsyncIterator[Message]:
        """Decode a request that may come in; its bytes count while it is answered."""
        if name in CHANGES:
            self._service.refuse_change(_headers(context))
        elif name not in PROBES and self._service.access.tokens is not None:
            self._service.access.tokens.check(_headers(context))
        if name in (INFER, STREAM) and self._service.admission is not None:
            await self._service.admission.wait()
        with self._service.repository.held_bytes.body() as held:
            held.hold(len(received.data))
            yield _decode(name, received.data)

    async def _answer(
        self, name: str, asked: Message, arrived_s: float, context: Any
    ) -> Message:
        if name == INFER:
            return await self._infer(asked, arrived_s, context)
        facts: Any = {}
        if name == LOAD:
            parameters = parameters_of(asked.parameters)
            await self._service.load(asked.model_name, parameters)
        elif name == UNLOAD:
            await self._service.unload(asked.model_name)
        else:
            facts = self._facts[name](asked)
        return message_of(METHODS[name].output_type.name, facts)

    async def _infer(self, asked: Message, arrived_s: float, context: Any) -> Message:
        inferred = await self._inferred(asked, arrived_s, context)
        response = _response(asked, inferred)
        handed_s = time.monotonic()
        context.add_done_callback(lambda _: inferred.sent(_written_s(handed_s)))
        return response

    async def _inferred(
        self, asked: Message, arrived_s: float, context: Any
    ) -> InferResponse:
        caller = Caller()
        inference = await run_off_loop(inference_of, asked, size=asked.ByteSize())
        waited_s = time.monotonic() - arrived_s
        patience_s = context.time_remaining()
        if patience_s is not None:
            patience_s += waited_s
        try:
            return await self._service.infer(
                inference, arrived_s, caller, patience_s, "grpc"
            )
        except asyncio.CancelledError:
            caller.gone = True
            raise


class Received(NamedTuple):
    """A request before it is decoded, and when it came on the monotonic clock."""

    arrived_s: float
    data: bytes


def _headers(context: Any) -> Headers:
    return [
        (name.encode(), value if isinstance(value, bytes) else value.encode())
        for name, value in context.invocation_metadata()
    ]


def _response(asked: Message, inferred: InferResponse) -> Message:
    return response_of(inferred, raw=bool(asked.raw_input_contents))


def _written_s(handed_s: float) -> float:
    """Say when what was handed over at `handed_s` and is sent now was written."""
    return min(time.monotonic(), handed_s + SENDING_S)


def _receive(data: bytes) -> Received:
    return Received(time.monotonic(), data)


def _decode(name: str, data: bytes) -> Message:
    try:
        return MESSAGES[METHODS[name].input_type.name].FromString(data)
    except DecodeError as error:
        raise BadInput("the request is no message of its type") from error


@contextlib.asynccontextmanager
async def serving_grpc(
    service: InferenceService, at: GrpcAt, when_stopping: list[Callable[[], None]]
) -> AsyncIterator[int]:
    """Serve at an address; the port, which 0 leaves open.

    Several processes may share the port. On leaving, what is under way is finished, in
    the time that is left since what is appended to `when_stopping` was called.

    Raises
    ------
    BadInput
        If the address cannot be listened at, or certificate and key cannot be used.
    """
    limit = service.repository.settings.body_limit
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", limit),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 1),
            # a caller that vanished without a word is found out
            ("grpc.keepalive_time_ms", KEEP_ALIVE_S * 1000),
        ],
        maximum_concurrent_rpcs=CALL_LIMIT,
    )
    server.add_generic_rpc_handlers((GrpcService(service).handler(),))
    where = f"[{at.host}]:{at.port}" if ":" in at.host else f"{at.host}:{at.port}"
    try:
        if at.certificate is None or at.key is None:
            bound: int = server.add_insecure_port(where)
        else:
            pair = (at.key.read_bytes(), at.certificate.read_bytes())
            bound = server.add_secure_port(where, grpc.ssl_server_credentials([pair]))
    except (RuntimeError, OSError) as error:
        raise BadInput(f"cannot listen for gRPC at {where}") from error
    await server.start()
    stopping: list[asyncio.Task[None]] = []

    def stop() -> None:
        stopping.append(asyncio.ensure_future(server.stop(DRAIN_S)))

    when_stopping.append(stop)
    try:
        yield bound
    finally:
        if not stopping:
            stop()
        await asyncio.gather(*stopping)

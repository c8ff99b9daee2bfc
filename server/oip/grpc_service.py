"""The Open Inference Protocol over gRPC, on the event loop that also serves HTTP."""

import asyncio
import contextlib
import ctypes
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from msgspec.structs import replace

from polydom.features.errors import BadInput, PolydomError

from ..answer_log.line import Entrance
from ..engine.request import Caller
from ..http.headers import Headers
from ..runtime.work_queue import run_in_thread, run_off_loop
from ..schema.request_ids import NAMES, RequestIds, read_ids, with_request_id
from ..settings import DRAIN_S, KEEP_ALIVE_S, GrpcAt, Settings
from .grpc_calls import Intake, abort, receive
from .grpc_health import HEALTH, GrpcHealth
from .grpc_messages import (
    MESSAGES,
    METHODS,
    SERVICE,
    Message,
    declared_in,
    inference_of,
    message_of,
    parameters_of,
    read_asked,
    read_short,
    response_of,
    size_of,
)
from .metadata import config_of, server_facts
from .service import InferenceService, InferRequest, InferResponse

if TYPE_CHECKING:
    from ..tracing.spans import Tracing

# Maximum send time to count, in seconds. A longer time measures a slow caller, not the
# server.
SENDING_S = 1e-3
# Maximum number of connections and of calls in progress; equal to the maximum number
# of connections over HTTP.
CONNECTION_LIMIT = CALL_LIMIT = 4096
# Maximum number of calls that have come and not begun. gRPC cancels further calls
# without a reason.
PENDING_LIMIT = 4096
# Maximum number of health checks whose messages may be arriving at the same time.
PROBES_AT_ONCE = 16
# Bytes of a call that gRPC receives before the server asks for them.
LOOKAHEAD = 16 << 10
# After requests of TRIM_BYTES in all, freed memory is returned to the system; TRIM_S
# are the seconds between checks.
TRIM_BYTES, TRIM_S = 16 << 20, 0.5
TRIMS = 5  # trims after such requests; at the first, the last requests are still in use
INFER, STREAM = "ModelInfer", "ModelStreamInfer"
LOAD, UNLOAD = "RepositoryModelLoad", "RepositoryModelUnload"
# CHANGES are methods that need an admin token, PROBES methods that need no token.
CHANGES, PROBES = (LOAD, UNLOAD), ("ServerLive", "ServerReady", "Check", "Watch")


class GrpcService:
    """The protocol's gRPC service: it decodes requests and encodes their answers."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        settings = service.repository.settings
        most = max(1, settings.intake_limit // settings.body_limit)
        self.intake = Intake(most, settings.body_limit)
        # so that probes do not wait for other calls
        self.probes = Intake(PROBES_AT_ONCE, settings.body_limit)
        # methods that only report; all other methods change something
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

    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return the handlers of all methods, to register with a gRPC server."""
        return {name: self._method(name) for name in METHODS}

    def stop(self) -> None:
        """End streams that are waiting for a request, so that the server can stop."""
        self.intake.streams.close()

    def _method(self, name: str) -> grpc.RpcMethodHandler:
        write = MESSAGES[METHODS[name].output_type.name].SerializeToString
        if name == STREAM:
            return grpc.stream_stream_rpc_method_handler(self._stream, receive, write)
        # on the wire this equals a unary call, but here the handler decides when to
        # read
        answer = partial(self._call, name)
        return grpc.stream_unary_rpc_method_handler(answer, receive, write)

    async def _call(self, name: str, _: object, context: Any) -> Message:
        """Answer one request of method `name`; an error ends the call with a status."""
        tracing = self._service.repository.tracing if name == INFER else None
        facts = self._facts_of(context, tracing)
        try:
            return await self._answer(name, facts, context)
        except Exception as error:
            entrance: Entrance | None = "grpc" if name == INFER else None
            given = error, facts.model, facts.arrived_s, entrance
            failed = self._service.failure(*given, facts.caller())
            if facts.ids is not None and facts.ids.trace is not None:
                facts.ids.trace.failed(failed[1], facts.model)
        await abort(context, *failed)

    async def _stream(self, _: object, context: Any) -> AsyncIterator[Message]:
        """Answer the requests of a stream one by one; their errors do not end it."""
        facts = self._facts_of(context)
        try:
            self._check_token(STREAM, context)
            with self.intake.streams.take() as readings:
                while answer := await self._next(facts, context, readings):
                    handed_s = time.monotonic()
                    yield answer.message
                    if answer.inferred is not None:
                        answer.inferred.sent(_written_s(handed_s))
            return
        except PolydomError as error:
            given = error, "", facts.arrived_s
            failed = self._service.failure(*given, "grpc", facts.caller())
        await abort(context, *failed)

    async def _answer(self, name: str, facts: "_RequestFacts", context: Any) -> Message:
        self._check_token(name, context)
        if name == INFER:
            await self._admitted()
        waited_s = time.monotonic() - facts.arrived_s
        intake = self.probes if name in PROBES else self.intake
        received = await intake.request(context)
        # the time in which we did not read must count as waiting
        facts.arrived_s = received.arrived_s - waited_s
        if name == INFER:
            message, inferred = await self._infer(received.data, facts, context)
            handed_s = time.monotonic()
            # gRPC keeps the callback in a reference cycle, so the callback must drop
            # the response
            at_end = [inferred]
            context.add_done_callback(lambda _: at_end.pop().sent(_written_s(handed_s)))
            return message
        asked = read_short(METHODS[name].input_type.name, received.data)
        reported: Any = {}
        if name == LOAD:
            parameters = parameters_of(asked.parameters)
            await self._service.load(asked.model_name, parameters)
        elif name == UNLOAD:
            await self._service.unload(asked.model_name)
        else:
            reported = self._facts[name](asked)
        return message_of(METHODS[name].output_type.name, reported)

    async def _next(
        self, facts: "_RequestFacts", context: Any, readings: "list[asyncio.Task[Any]]"
    ) -> "_Answer | None":
        """Answer the next request of a stream; return None after the last."""
        received = await self.intake.next(context, readings)
        if received is None:
            return None
        facts.arrived_s, facts.model, facts.id = received.arrived_s, "", ""
        facts.number = 0 if facts.number is None else facts.number + 1
        response = MESSAGES["ModelStreamInferResponse"]
        try:
            await self._admitted()
            message, inferred = await self._infer(received.data, facts, context)
            return _Answer(response(infer_response=message), inferred)
        except Exception as error:
            given = error, facts.model, facts.arrived_s
            _, failure = self._service.failure(*given, "grpc", facts.caller())
            message = response(
                error_message=failure.error, infer_response={"id": facts.id}
            )
            return _Answer(message, None)

    def _facts_of(
        self, context: Any, tracing: "Tracing | None" = None
    ) -> "_RequestFacts":
        """Return the facts about a call that begins, and give its ids back at its end.

        If answers are logged, a call without a request id gets one.
        """
        named = [header for header in _headers(context) if header[0] in NAMES]
        ids = read_ids(tuple(chain(*named)))
        arrived_s = time.monotonic()
        if self._service.repository.answer_log is not None:
            ids = with_request_id(ids)
        if tracing is not None:
            ids = tracing.begin(ids, arrived_s)
        if ids is not None:
            pairs = [(name.decode(), value.decode()) for name, value in ids.headers()]
            context.set_trailing_metadata(pairs)
        return _RequestFacts(arrived_s, ids)

    def _check_token(self, name: str, context: Any) -> None:
        """Raise an error if the caller lacks the token that method `name` needs."""
        if name in CHANGES:
            self._service.refuse_change(_headers(context))
        elif name not in PROBES and self._service.access.tokens is not None:
            self._service.access.tokens.check(_headers(context))

    async def _admitted(self) -> None:
        if self._service.admission is not None:
            await self._service.admission.wait()

    async def _infer(
        self, data: bytes, facts: "_RequestFacts", context: Any
    ) -> tuple[Message, InferResponse]:
        """Answer an inference request, and count its bytes as held until then."""
        repository = self._service.repository
        with repository.held_bytes.body() as held:
            held.hold(len(data))
            asked = await run_off_loop(
                read_asked, data, repository.columns, size=len(data)
            )
            facts.model, facts.id = asked.message.model_name, asked.message.id
            declared = await run_off_loop(declared_in, asked, size=asked.weight)
            held.hold(size_of(asked, declared))
            inference = await run_off_loop(
                inference_of, asked, declared, size=asked.weight
            )
            inferred = await self._inferred(inference, facts, context)
            return response_of(inferred, raw=bool(asked.raw)), inferred

    async def _inferred(
        self, inference: InferRequest, facts: "_RequestFacts", context: Any
    ) -> InferResponse:
        caller, arrived_s = facts.caller(), facts.arrived_s
        waited_s = time.monotonic() - arrived_s
        caller_timeout_s = context.time_remaining()
        if caller_timeout_s is not None:
            caller_timeout_s += waited_s
        try:
            return await self._service.infer(
                inference, arrived_s, caller, caller_timeout_s, "grpc"
            )
        except asyncio.CancelledError:
            caller.gone = True
            raise


@dataclass(slots=True)
class _RequestFacts:
    """Facts about a request that are needed to report its error."""

    arrived_s: float
    ids: RequestIds | None  # Those in the call's metadata
    model: str = ""
    id: str = ""
    number: int | None = None  # Number of the request in its stream, if it has one

    def caller(self) -> Caller:
        """Return a caller whose request has these ids; in a stream, each has its own.

        A request of a stream has the call's id, a slash and its number.
        """
        ids, number = self.ids, self.number
        if ids is None or number is None or not ids.request_id:
            return Caller(ids=ids)
        own = b"%b/%d" % (ids.request_id, number)
        return Caller(ids=replace(ids, request_id=own))


class _Answer(NamedTuple):
    """One answer of a stream.

    `inferred` is the response that the metrics count after sending; None for an error.
    """

    message: Message
    inferred: InferResponse | None


def _headers(context: Any) -> Headers:
    return [
        (name.encode(), value if isinstance(value, bytes) else value.encode())
        for name, value in context.invocation_metadata()
    ]


def _written_s(handed_s: float) -> float:
    return min(time.monotonic(), handed_s + SENDING_S)


@contextlib.asynccontextmanager
async def serving_grpc(
    service: InferenceService, at: GrpcAt, when_stopping: list[Callable[[], None]]
) -> AsyncIterator[int]:
    """Serve gRPC while the context is open; yield the port.

    For port 0, the system chooses a free port. Several processes may share a port. This
    appends a function to `when_stopping` that starts the shutdown of gRPC. Closing the
    context also stops gRPC. Open calls then have `DRAIN_S` seconds to finish.
    """
    served = GrpcService(service)
    health = GrpcHealth(service.repository, served.probes)
    server = grpc.aio.server(
        options=_options(service.repository.settings),
        maximum_concurrent_rpcs=CALL_LIMIT,
    )
    for name, handlers in ((SERVICE, served.handlers()), (HEALTH, health.handlers())):
        generic = grpc.method_handlers_generic_handler(name, handlers)
        server.add_generic_rpc_handlers((generic,))
        # gRPC queues registered methods apart from others, so probes wait behind no
        # other call
        probes = {method: handlers[method] for method in PROBES if method in handlers}
        server.add_registered_method_handlers(name, probes)
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
        served.stop()
        health.stop()
        stopping.append(asyncio.ensure_future(server.stop(DRAIN_S)))

    when_stopping.append(stop)
    giving = asyncio.ensure_future(give_back_spare(lambda: served.intake.size))
    try:
        yield bound
    finally:
        giving.cancel()
        if not stopping:
            stop()
        await asyncio.gather(*stopping)


def _options(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.body_limit),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 1),
        # detect callers that vanished
        ("grpc.keepalive_time_ms", KEEP_ALIVE_S * 1000),
        ("grpc.max_allowed_incoming_connections", CONNECTION_LIMIT),
        # limits the bytes received before a call is read
        ("grpc.http2.lookahead_bytes", LOOKAHEAD),
        ("grpc.http2.bdp_probe", 0),
        # otherwise gRPC cancels some of a thousand simultaneous calls without a reason
        ("grpc.server.max_pending_requests", PENDING_LIMIT),
        ("grpc.server.max_pending_requests_hard_limit", PENDING_LIMIT),
    ]


def _find_malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's `malloc_trim`; None for other C libraries."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


_trim = _find_malloc_trim()


async def give_back_spare(size: Callable[[], int]) -> None:
    """Return freed memory to the system from time to time, until cancelled.

    `size` returns the total bytes of all requests received so far. After many long
    requests, glibc keeps hundreds of megabytes of freed memory, in small pieces between
    pieces still in use. Returning them occupies a thread for about 0.1 ms per megabyte.
    """
    if _trim is None:
        return
    trim, before, turns = _trim, 0, 0
    while True:
        await asyncio.sleep(TRIM_S)
        came = size()
        if came - before >= TRIM_BYTES:
            before, turns = came, TRIMS
        if turns:
            turns -= 1
            await run_in_thread(lambda: trim(0))

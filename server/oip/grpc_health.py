"""gRPC's standard health checks, `grpc.health.v1.Health`; they need no token."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc

from polydom.features.errors import PolydomError

from ..errors import Overloaded, UnknownModel, describe
from ..runtime.repository import Repository
from .grpc_calls import Intake, abort, receive
from .grpc_messages import MESSAGES, SERVICE, Message, read_short

HEALTH = "grpc.health.v1.Health"
# Services that can be checked; the empty name means the whole server.
SERVICES = ("", SERVICE)
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
# WATCHES is the largest number of watching callers; LOOK_S are the seconds between
# checks for a change.
WATCHES, LOOK_S = 256, 0.5


class GrpcHealth:
    """The gRPC service that reports whether the server is ready, like `/readyz`."""

    def __init__(self, repository: Repository, intake: Intake) -> None:
        self._repository = repository
        self._intake = intake
        self._stopping = asyncio.Event()
        self._watches = 0

    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return the handlers of all methods, to register with a gRPC server."""
        check = MESSAGES["HealthCheckResponse"].SerializeToString
        listed = MESSAGES["HealthListResponse"].SerializeToString
        return {
            "Check": grpc.stream_unary_rpc_method_handler(self._check, receive, check),
            "List": grpc.stream_unary_rpc_method_handler(self._list, receive, listed),
            "Watch": grpc.stream_stream_rpc_method_handler(self._watch, receive, check),
        }

    def stop(self) -> None:
        """End all `Watch` calls, so that the server can stop."""
        self._stopping.set()

    def _status(self, service: str) -> int:
        if service not in SERVICES:
            return SERVICE_UNKNOWN
        ready = self._repository.ready and not self._stopping.is_set()
        return SERVING if ready else NOT_SERVING

    async def _asked(self, name: str, context: Any) -> Message:
        try:
            received = await self._intake.request(context)
            return read_short(name, received.data)
        except PolydomError as error:
            told = describe(error)
        await abort(context, *told)

    async def _check(self, _: object, context: Any) -> Message:
        asked = await self._asked("HealthCheckRequest", context)
        status = self._status(asked.service)
        if status == SERVICE_UNKNOWN:
            said = f"there is no service {asked.service[:80]!r}; there is {SERVICE}"
            await abort(context, *describe(UnknownModel(said)))
        return MESSAGES["HealthCheckResponse"](status=status)

    async def _list(self, _: object, context: Any) -> Message:
        await self._asked("HealthListRequest", context)
        response = MESSAGES["HealthListResponse"]()
        for service in SERVICES:
            response.statuses[service].status = self._status(service)
        return response

    async def _watch(self, _: object, context: Any) -> AsyncIterator[Message]:
        """Send a service's status now and after each change, until the server stops."""
        asked = await self._asked("HealthCheckRequest", context)
        if self._watches >= WATCHES:
            said = f"{WATCHES} callers watch already"
            await abort(context, *describe(Overloaded(said)))
        self._watches += 1
        try:
            said_before = None
            while not self._stopping.is_set() or said_before is None:
                if (status := self._status(asked.service)) != said_before:
                    yield MESSAGES["HealthCheckResponse"](status=status)
                    said_before = status
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), LOOK_S)
        finally:
            self._watches -= 1

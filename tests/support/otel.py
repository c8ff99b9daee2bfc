"""A receiver of spans, as OpenTelemetry's SDK sends them over HTTP."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import Any

from tests.support.absent import absent


def needs_otel() -> None:
    """Skip the test without the SDK; `opentelemetry` itself may be there without it."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        absent("opentelemetry-sdk is not installed")


class Receiver:
    """Keeps the spans that came, and the names of the services that sent them."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self.port = 0

    def keep(self, body: bytes) -> None:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

        sent = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
        for resource in sent.resource_spans:
            self.services.add(facts_of(resource.resource)["service.name"])
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def trace(self, trace_id: str) -> list[Any]:
        """The spans of one trace, by the time when they began."""
        found = [span for span in self.spans if span.trace_id.hex() == trace_id]
        return sorted(found, key=lambda span: span.start_time_unix_nano)


def facts_of(span: Any) -> dict[str, Any]:
    """The attributes of a span."""
    return {one.key: _value_of(one.value) for one in span.attributes}


def _value_of(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value_of(one) for one in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that listens until the context is closed."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers["content-encoding"] == "gzip":
                body = gzip.decompress(body)
            receiver.keep(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)

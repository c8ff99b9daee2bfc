"""Runs a piece of a network by ONNX Runtime, in one thread.

Only this module imports ONNX Runtime, and only to make the first session. A server
makes all sessions when it loads an index, before it forks workers. So the workers share
the weights; a session of one thread has no threads that a fork would lose.
"""

import contextlib
import hashlib
import importlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadFeature
from .terms import CPU

Bytes = NDArray[np.uint8]
Tensor = NDArray[Any]

OUTPUT = "out"  # name of a piece's output
CPU_ONLY = (CPU,)
# ONNX Runtime writes to the standard error itself; what is wrong it also raises.
SILENT = 4
# A provider that sends items to a service at an address in the model.
ELSEWHERE = "AzureExecutionProvider"
# What ONNX Runtime writes before the message of an error: its code, where in its
# source the error comes from, and which condition does not hold.
BEFORE = re.compile(
    r"^(\[ONNXRuntimeError\] : \d+ : \w+ : )?(Failed to load model with error: )?"
    r"(Non-zero status code returned while running (?P<operator>\w+) node\. "
    r"Name:'.*?' Status Message: )?"
    r"(Exception during initialization: )?"
    r"(\S*\w\.(cc|h|cpp):\d+ (.*?\)( const)? |\w+ (?=[A-Z]))?)?"
    r"(.* was false\. )?"
)


def onnxruntime() -> Any:
    """Import ONNX Runtime; raise BadFeature with the cure if it is not installed."""
    ort = import_library("onnxruntime")
    ort.set_default_logger_severity(SILENT)
    return ort


def import_library(name: str) -> Any:
    """Import a library of the extra `onnx`; raise BadFeature if it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise BadFeature(
            f"networks as features need the library {error.name or name}; "
            "pip install 'polydom[onnx]' installs it"
        ) from error


def refuse_absent(providers: Sequence[str], where: str = "") -> None:
    """Raise BadFeature if ONNX Runtime lacks an execution provider here.

    `where` begins the message.
    """
    there = [
        name for name in onnxruntime().get_available_providers() if name != ELSEWHERE
    ]
    for provider in providers:
        if provider not in there:
            raise BadFeature(
                f"{where}ONNX Runtime has no {provider!r} here; there are "
                f"{', '.join(there)}"
            )


def open_session(model: bytes, providers: Sequence[str]) -> Any:
    """Return a session of ONNX Runtime for an ONNX model, in one thread.

    Raises BadFeature if a provider is not there, or the model cannot be run.
    """
    ort = onnxruntime()
    refuse_absent(providers)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = SILENT
    for pool in ("intra_op", "inter_op"):
        options.add_session_config_entry(f"session.{pool}.allow_spinning", "0")
    try:
        # A fallback would print to the standard output, and run elsewhere. Before
        # version 1.23 this argument does not turn it off.
        with contextlib.redirect_stdout(io.StringIO()):
            session = ort.InferenceSession(
                model, options, providers=[*providers], enable_fallback=0
            )
        session.disable_fallback()
    except Exception as error:  # the library has its own kinds of errors
        raise BadFeature(f"ONNX Runtime cannot load it: {first_line(error)}") from error
    # A provider whose device is not there gives its place to the processor.
    for provider in providers:
        if provider not in session.get_providers():
            raise BadFeature(f"ONNX Runtime cannot start {provider!r} here")
    return session


def first_line(error: Exception) -> str:
    """Return the message of an error of ONNX Runtime in one line.

    It begins with the operator that failed, if one did.
    """
    line = str(error).strip().partition("\n")[0].replace("\\n", " ").strip()
    before = BEFORE.match(line)
    assert before is not None  # it matches every text
    operator = before["operator"]
    message = line[before.end() :].rstrip(".")
    return f"{operator}: {message}" if operator else message


class File:
    """The bytes of a file in an index.

    A fingerprint takes its checksum, and not its bytes. So the bytes are hashed once,
    however many features need them.
    """

    _fields = ("sha256",)  # what a fingerprint takes

    def __init__(self, content: Bytes) -> None:
        self.content = content

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.content.data).hexdigest()


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a network: an ONNX model with one output, named `OUTPUT`."""

    model: File  # The ONNX model
    providers: tuple[str, ...]  # Execution providers, the preferred one first

    @cached_property
    def session(self) -> Any:
        """Session that runs the model; made when it is first needed."""
        return open_session(self.model.content.tobytes(), self.providers)

    def run(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the output for named inputs; raise BadFeature if there is none."""
        try:
            output: Tensor = self.session.run([OUTPUT], inputs)[0]
        except Exception as error:  # the library has its own kinds of errors
            raise BadFeature(first_line(error)) from error
        return output

    def __getstate__(self) -> dict[str, Any]:
        """Leave the session out of a pickle."""
        return {"model": self.model, "providers": self.providers}

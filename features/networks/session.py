"""Runs a piece of a network by ONNX Runtime, in one thread.

Only this module imports ONNX Runtime, and only when a piece first runs. A server runs
all pieces once before it forks workers. So the workers share the weights; a session of
one thread has no threads that a fork would lose.
"""

import importlib
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
# Errors alone: warnings would fill the log of a server.
ERRORS = 3


def onnxruntime() -> Any:
    """Import ONNX Runtime; raise BadFeature with the cure if it is not installed."""
    return library("onnxruntime")


def library(name: str) -> Any:
    """Import a library of the extra `onnx`; raise BadFeature if it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise BadFeature(
            f"networks as features need the library {error.name or name}; "
            "pip install 'polydom[onnx]' installs it"
        ) from error


def open_session(model: bytes, providers: Sequence[str]) -> Any:
    """Return a session of ONNX Runtime for an ONNX model, in one thread.

    Raises BadFeature if a provider is not there, or the model cannot be run.
    """
    ort = onnxruntime()
    there = ort.get_available_providers()
    for provider in providers:
        if provider not in there:
            raise BadFeature(
                f"ONNX Runtime has no {provider!r} here; there are {', '.join(there)}"
            )
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = ERRORS
    for pool in ("intra_op", "inter_op"):
        options.add_session_config_entry(f"session.{pool}.allow_spinning", "0")
    try:
        return ort.InferenceSession(model, options, providers=[*providers])
    except Exception as error:  # the library has its own kinds of errors
        raise BadFeature(f"ONNX Runtime cannot load it: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Return the first line of an error of ONNX Runtime, without its code."""
    line = str(error).strip().partition("\n")[0]
    return line.rpartition(" : ")[2] if line.startswith("[ONNXRuntimeError]") else line


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a network: an ONNX model with one output, named `OUTPUT`."""

    model: Bytes  # (b,) uint8: Bytes of the ONNX model
    providers: tuple[str, ...]  # Execution providers, the preferred one first

    @cached_property
    def session(self) -> Any:
        """Session that runs the model; made when it is first needed."""
        return open_session(self.model.tobytes(), self.providers)

    def run(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the output for named inputs."""
        output: Tensor = self.session.run([OUTPUT], inputs)[0]
        return output

    def __getstate__(self) -> dict[str, Any]:
        """Leave the session out of a pickle."""
        return {"model": self.model, "providers": self.providers}

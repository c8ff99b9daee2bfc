"""Compiles server/inference.proto; needs grpcio-tools, which the server does not.

python -m tests.compile_proto       writes server/_inference_descriptor.py
"""

import base64
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

SERVER = Path(__file__).resolve().parents[1] / "server"
PROTO = SERVER / "inference.proto"
MODULE = SERVER / "_inference_descriptor.py"
TEMPLATE = '''\
"""The messages of `inference.proto`, compiled by `python -m tests.compile_proto`.

A descriptor and no generated classes: those check protobuf's version, and clash with a
client's own messages of the same names in one process.
"""

import base64

FILE = base64.b64decode(
    """
{code}
"""
)
'''


def compile_proto() -> FileDescriptorProto:
    """What the compiler makes of the file, without what its versions add."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        arguments = ["protoc", f"-I{SERVER}", f"--descriptor_set_out={out}", str(PROTO)]
        assert protoc.main(arguments) == 0
        (file,) = FileDescriptorSet.FromString(out.read_bytes()).file
    for message in file.message_type:
        for inner in (message, *message.nested_type):
            for field in inner.field:
                field.ClearField("json_name")
    return file


def main() -> None:
    """Write the module."""
    code = base64.b64encode(compile_proto().SerializeToString()).decode()
    MODULE.write_text(TEMPLATE.format(code="\n".join(textwrap.wrap(code, 88))))


if __name__ == "__main__":
    main()

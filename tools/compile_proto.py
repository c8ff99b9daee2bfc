"""Compiles server/oip/inference.proto; needs grpcio-tools, which the server does not.

python -m tools.compile_proto       writes server/oip/inference.binpb

A descriptor and no generated classes: those check protobuf's version, and clash with a
client's own messages of the same names in one process.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parents[1] / "server" / "oip" / "inference.proto"


def compile_proto() -> FileDescriptorProto:
    """Return what the compiler makes of the file, without what its versions add."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        arguments = ["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={out}"]
        assert protoc.main([*arguments, str(PROTO)]) == 0
        (file,) = FileDescriptorSet.FromString(out.read_bytes()).file
    for message in file.message_type:
        for inner in (message, *message.nested_type):
            for field in inner.field:
                field.ClearField("json_name")
    return file


if __name__ == "__main__":
    PROTO.with_suffix(".binpb").write_bytes(compile_proto().SerializeToString())

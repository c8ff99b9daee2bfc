"""Compiles server/oip/*.proto; needs grpcio-tools, which the server does not.

python -m tools.compile_proto       writes a .binpb beside each

A descriptor and no generated classes: those check protobuf's version, and clash with a
client's own messages of the same names in one process.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

FOLDER = Path(__file__).resolve().parents[1] / "server" / "oip"
PROTOS = (FOLDER / "inference.proto", FOLDER / "health.proto")


def compile_proto(proto: Path) -> FileDescriptorProto:
    """Return what the compiler makes of a file, without what its versions add."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        arguments = ["protoc", f"-I{proto.parent}", f"--descriptor_set_out={out}"]
        assert protoc.main([*arguments, str(proto)]) == 0
        (file,) = FileDescriptorSet.FromString(out.read_bytes()).file
    for message in file.message_type:
        for inner in (message, *message.nested_type):
            for field in inner.field:
                field.ClearField("json_name")
    return file


if __name__ == "__main__":
    for each in PROTOS:
        each.with_suffix(".binpb").write_bytes(compile_proto(each).SerializeToString())

"""Files of networks that are no ONNX files, recognised by their bytes."""

ZIP = b"PK\x03\x04"
END = 1 << 16  # last bytes of a zip archive in which the names of its files are
TORCH = "; torch.onnx.export(model, example, FILE) writes one"
TENSORFLOW = "; the library tf2onnx writes one of it"
DOWNLOAD = "; download the file itself"


def other_format(content: bytes) -> str:
    """Say what a file is that is no ONNX file, and what writes one.

    Examples
    --------
    >>> other_format(b"<!DOCTYPE html>")
    ', but a web page; download the file itself'
    """
    start = content[:512].lstrip()
    if not content:
        return ": it is empty"
    if content.startswith(ZIP):
        return _of_zip(content)
    if start[:1] == b"<":
        return f", but a web page{DOWNLOAD}"
    if start.startswith(b"version https://git-lfs"):
        return f", but the address of one in Git LFS{DOWNLOAD}, by git lfs pull"
    if content[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        return f", but a pickle of Python{TORCH}"
    if content[8:9] == b"{":
        return f", but weights in the format safetensors{TORCH}"
    if content[4:8] == b"TFL3":
        return f", but a model of TensorFlow Lite{TENSORFLOW}"
    if content[4:8] == b"ORTM":
        return ", but one that ONNX Runtime optimised; the file before that is needed"
    if content.startswith(b"\x89HDF"):
        return f", but an HDF5 file, perhaps of Keras{TENSORFLOW}"
    if content.startswith(b"GGUF"):
        return f", but a GGUF file{TORCH}"
    if content.startswith(b"\x08"):  # the version, with which ONNX files begin
        return ": it is cut off or damaged"
    return TORCH


def _of_zip(content: bytes) -> str:
    end = content[-END:]
    if b"/code/" in end:
        return f", but a network of torch.jit.save{TORCH}"
    if b"/data.pkl" in end:
        return f", but a network or weights of torch.save{TORCH}"
    if b".weights.h5" in end or b"keras_metadata" in end:
        return f", but a model of Keras{TENSORFLOW}"
    return ", but a zip archive; unpack it"

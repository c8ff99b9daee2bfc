"""What a file is by its first bytes, whatever its name says."""

START = 8192  # bytes that are looked at

# Images that are read, then those that are not.
IMAGES = frozenset({"JPEG", "PNG", "GIF", "BMP", "WEBP"})
OTHER_IMAGES = frozenset({"HEIC", "AVIF", "TIFF", "JPEG 2000", "JPEG XL", "PSD", "SVG"})

_STARTS = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"8BPS", "PSD"),
    (b"<svg", "SVG"),
    (b"%PDF", "PDF"),
    (b"PK\x03\x04", "ZIP"),
    (b"\x1f\x8b", "gzip"),
    (b"\xd0\xcf\x11\xe0", "Office"),
)
_BRANDS = {b"avif": "AVIF", b"avis": "AVIF"} | dict.fromkeys(
    (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"), "HEIC"
)
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")  # of Unicode, where a text begins
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\b\x1b"})
_FEW = 0.05  # share of control characters that a text may have


def format_of(start: bytes) -> str | None:
    """Name the format that a file's first bytes tell; None where they tell none."""
    for magic, name in _STARTS:
        if start.startswith(magic):
            return name
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "WEBP"
    if start.startswith(b"BM") and start[6:10] == bytes(4):
        return "BMP"
    if start[4:8] == b"ftyp":
        return _BRANDS.get(start[8:12], "video")
    return None


def is_text(start: bytes) -> bool:
    """Say whether a file's first bytes are a text, in whatever encoding.

    UTF-16 is known by its mark only.
    """
    if start.startswith(_MARKS):
        return True
    controls = len(start) - len(start.translate(None, _CONTROLS))
    is_readable = b"\0" not in start and controls <= _FEW * len(start)
    return is_readable and format_of(start) in (None, "SVG")


def cure_for(name: str | None) -> str:
    """Say what to do with an image that is not read; empty for anything else."""
    if name not in OTHER_IMAGES:
        return ""
    return f"{name} is not read; save it as {'PNG' if name == 'SVG' else 'JPEG'}"

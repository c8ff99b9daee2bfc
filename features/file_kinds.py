"""The format of a file, recognised by its first bytes and not by its name."""

START = 8192  # bytes of a file that are enough to tell its format

# Formats of images that polydom reads, and others that it knows and does not read.
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
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xd0\xcf\x11\xe0", "Office"),
    (b"SQLite format 3", "SQLite"),
    (b"\x89HDF", "HDF5"),
    (b"ARROW1", "Arrow"),
    (b"PAR1", "Parquet"),
    (b"\x89PDX\r\n\x1a\n", "PDX"),
)
# Formats of files that are neither images nor texts, as nouns.
_NOUNS = {
    "PDF": "a PDF document",
    "ZIP": "a spreadsheet (.xlsx, .ods) or a zip archive",
    "Office": "a spreadsheet (.xls)",
    "SQLite": "an SQLite database",
    "HDF5": "an HDF5 file",
    "Arrow": "a file of Arrow or Feather",
    "Parquet": "a Parquet file",
    "PDX": "an index",
} | {name: f"compressed ({name})" for name in ("gzip", "bzip2", "xz", "zstd")}
_BRANDS = {b"avif": "AVIF", b"avis": "AVIF"} | dict.fromkeys(
    (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"), "HEIC"
)
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")  # byte order marks of Unicode
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\b\x1b"})
_FEW = 0.05  # largest share of control characters in a text


def format_of(start: bytes) -> str | None:
    """Name the format of a file by its first bytes; None for an unknown format."""
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


def noun_of(start: bytes) -> str:
    """Describe a file by its first bytes, as `a PNG image`; "" for unknown formats."""
    name = format_of(start)
    image = f"a {name} image" if name in IMAGES | OTHER_IMAGES else ""
    return _NOUNS.get(name or "", image)


def is_text(start: bytes) -> bool:
    """Return True if the first bytes of a file are text, in any encoding.

    UTF-16 is recognised by its byte order mark only.
    """
    if start.startswith(_MARKS):
        return True
    controls = len(start) - len(start.translate(None, _CONTROLS))
    is_readable = b"\0" not in start and controls <= _FEW * len(start)
    return is_readable and format_of(start) in (None, "SVG")


def cure_for(name: str | None) -> str:
    """Return advice on an image format that polydom does not read; else ""."""
    if name not in OTHER_IMAGES:
        return ""
    return f"{name} is not read; save it as {'PNG' if name == 'SVG' else 'JPEG'}"

"""Which way up an image is to be seen: what cameras note of how they were held.

A camera stores pixels as its sensor gives them and notes how they are to be turned, in
EXIF or in XMP. Whoever looks at the image sees it turned, and so do features.
"""

import re
import struct

UPRIGHT = 1  # as are all that say nothing, or nothing that is known
# The numbers of EXIF from 1 to 8; from SIDEWAYS on width and height change places.
SIDEWAYS, LAST = 5, 8
# What is looked at: notes of an image, cameras write a tenth of that.
MOST_ENTRIES, MOST_XMP_BYTES = 1024, 1 << 17

_EXIF = b"Exif\0\0"
_ORIENTATION = 0x0112
_ORDERS = {b"II": "<", b"MM": ">"}
_WHOLE_NUMBERS = {3: "H", 8: "h", 4: "I", 9: "i"}  # types of an entry
_IN_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


def orientation_of(exif: bytes, xmp: bytes = b"") -> int:
    """Read how an image is to be turned, 1 to 8; UPRIGHT where nothing legible says so.

    Parameters
    ----------
    exif
        A TIFF file, of which the first directory counts; it may begin with `Exif`.
    xmp
        Says so where EXIF does not.
    """
    said = _in_exif(exif.removeprefix(_EXIF).removeprefix(_EXIF))
    if said is None and (found := _IN_XMP.search(xmp, 0, MOST_XMP_BYTES)):
        said = int(found[1])
    return said if said is not None and UPRIGHT <= said <= LAST else UPRIGHT


def _in_exif(tiff: bytes) -> int | None:
    """Find the number of the last entry that is an orientation; 0 if it is none."""
    order = _ORDERS.get(tiff[:2])
    if order is None or len(tiff) < 8:
        return None
    (start,) = struct.unpack_from(f"{order}I", tiff, 4)
    if start + 2 > len(tiff):
        return None
    (count,) = struct.unpack_from(f"{order}H", tiff, start)
    size = 12 * min(count, MOST_ENTRIES, (len(tiff) - start - 2) // 12)
    entries = tiff[start + 2 : start + 2 + size]
    said = None
    for tag, kind, values, value in struct.iter_unpack(f"{order}HHI4s", entries):
        if tag == _ORIENTATION:
            form = _WHOLE_NUMBERS.get(kind)
            known = form is not None and values == 1
            said = struct.unpack_from(f"{order}{form}", value)[0] if known else 0
    return said

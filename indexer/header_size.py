"""What a header would hold, counted in its bytes before anything is made of it.

One byte of msgpack can be an empty map, which takes seventy times as much memory once
decoded. So a reader first walks over the bytes, which makes nothing.
"""

MAX_HEADER_BYTES = 16 << 20
# Lists and maps, and all that they hold, themselves included. The largest real headers
# are those of many models, with two lists and seven entries for each of their arrays.
MAX_CONTAINERS = 1 << 17
MAX_ENTRIES = 1 << 19

# Of each first byte from 0xc4 on: how many bytes of a length follow, then how many
# others. Those missing here are a byte alone.
_BINARY = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0)}
_EXTENSION = {0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
_NUMBER = {0xCA: (0, 4), 0xCB: (0, 8)}
_NUMBER |= {first + k: (0, 1 << k) for first in (0xCC, 0xD0) for k in range(4)}
_FIXED = {0xD4 + k: (0, 1 + (1 << k)) for k in range(5)}
_TEXT = {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
_LEAVES = _BINARY | _EXTENSION | _NUMBER | _FIXED | _TEXT
_LISTS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}


def excess(header: bytes) -> str:
    """Say what a header has too much of; nothing where it has not.

    What follows the first value, or is cut off, is the decoder's to refuse.

    Parameters
    ----------
    header
        Msgpack, as it may come from anybody.
    """
    if len(header) > MAX_HEADER_BYTES:
        return f"a header of {len(header):,} bytes is over {MAX_HEADER_BYTES:,}"
    at, due, entries, containers = 0, 1, 1, 0
    while due and at < len(header):
        first = header[at]
        due, at = due - 1, at + 1
        if first < 0x80 or first >= 0xE0:  # a small number
            continue
        if 0xA0 <= first < 0xC0:  # a short text
            at += first & 31
            continue
        if first in _LEAVES:
            width, more = _LEAVES[first]
            at += width + more + int.from_bytes(header[at : at + width])
            continue
        if first < 0xA0:  # a short map or list
            held = (first & 15) << (first < 0x90)
        elif first in _LISTS or first in _MAPS:
            width = _LISTS.get(first) or _MAPS[first]
            held = int.from_bytes(header[at : at + width]) << (first in _MAPS)
            at += width
        else:
            continue
        due, entries, containers = due + held, entries + held, containers + 1
        if entries > MAX_ENTRIES or containers > MAX_CONTAINERS:
            return (
                f"its header holds over {MAX_ENTRIES:,} entries, or over "
                f"{MAX_CONTAINERS:,} lists and maps"
            )
    return ""

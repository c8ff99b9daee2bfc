"""Public records of which few are of the class that matters: read from their files."""

import csv
import gzip
from itertools import dropwhile
from pathlib import Path

Record = dict[str, str]
Labelled = list[tuple[Record, str]]
REST = "rest"

# attacks from within or by a stranger; floods and scans are as frequent as the rest
BREAK_INS = frozenset(
    {
        *("buffer_overflow", "ftp_write", "guess_passwd", "imap", "loadmodule"),
        *("multihop", "perl", "phf", "rootkit", "spy", "warezclient", "warezmaster"),
    }
)


def read_credit(folder: Path) -> Labelled:
    """30,000 customers of a bank, 23 columns; 22 % do not pay next month."""
    lines = (folder / "credit" / "UCI_Credit_Card.csv").read_text("utf-8").splitlines()
    named = dropwhile(lambda line: not line.startswith("ID"), lines)
    return [
        (dict([*row.items()][1:-1]), "default" if [*row.values()][-1] == "1" else REST)
        for row in csv.DictReader(named)
    ]


def read_bank(folder: Path) -> Labelled:
    """45,211 calls of a bank, 16 columns; 12 % of those called deposit money."""
    lines = (folder / "bank" / "bank-full.csv").read_text("utf-8").splitlines()
    delimiter = ";" if ";" in lines[0] else ","
    rows = [*csv.DictReader(lines, delimiter=delimiter)]
    return [(row, "deposit" if row.pop("y") == "yes" else REST) for row in rows]


def read_kddcup(folder: Path) -> Labelled:
    """88,883 different connections, 41 columns; 1 % are a break-in, others normal."""
    path = folder / "kddcup99" / "kddcup.data_10_percent.gz"
    with gzip.open(path, "rt", encoding="ascii") as file:
        lines = dict.fromkeys(file)
    found: Labelled = []
    for line in lines:
        *cells, name = line.rstrip(".\n").split(",")
        if name == "normal" or name in BREAK_INS:
            record = {f"c{k}": cell for k, cell in enumerate(cells)}
            found.append((record, REST if name == "normal" else "break-in"))
    return found

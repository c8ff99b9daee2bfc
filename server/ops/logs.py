"""The server's log on standard error: text, or one JSON object per line."""

import logging
import time
from typing import Any, Literal, get_args

import msgspec

from polydom.features.errors import BadInput

LogFormat = Literal["text", "json"]

# Attributes that every record has. Any other attribute comes from `extra` and goes into
# the JSON object, except names such as `_ray_timestamp_ns`, which libraries add to all
# records.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "color_message"}


class JsonLogFormatter(logging.Formatter):
    """Formats log records as JSON: time (UTC), level, message, extras, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one record as a line of JSON."""
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        facts: dict[str, Any] = {
            "time": f"{now}.{int(record.msecs):03d}Z",
            "pid": record.process,
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        facts |= {
            name: value
            for name, value in vars(record).items()
            if name not in _USUAL and not name.startswith("_")
        }
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(facts, enc_hook=str).decode()


def set_up_logs(log_format: str) -> None:
    """Set up logging to standard error, in place of any earlier setup.

    `log_format` is "text" or "json"; others raise BadInput. The text log has warnings,
    errors and reloads. The JSON log also has the start and the stop of the server.
    """
    if log_format not in get_args(LogFormat):
        raise BadInput(f"--log-format {log_format}: text or json is needed")
    handler = logging.StreamHandler()
    if log_format == "json":
        handler.setFormatter(JsonLogFormatter())
    else:
        handler.setFormatter(logging.Formatter("polydom: %(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("polydom").setLevel(logging.INFO)
    level = logging.INFO if log_format == "json" else logging.WARNING
    logging.getLogger("polydom.life").setLevel(level)

"""What the control plane tells its operators: log lines, for people or for machines."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class JsonLines(logging.Formatter):
    """One JSON object per line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def speak(*, verbosity: int = 0, as_json: bool = False) -> None:
    """Send log lines to standard error: warnings, with -v what is decided, with -vv everything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname).1s %(name)s: %(message)s", "%H:%M:%S")
    )
    root = logging.getLogger("trimtab")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(_LEVELS[min(verbosity, len(_LEVELS) - 1)])

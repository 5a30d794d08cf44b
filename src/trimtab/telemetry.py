"""What a process tells its operators: log lines for people or machines, and counts of what it did."""

import json
import logging
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

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


_STARTED = time.time()
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Sample(NamedTuple):
    """One number that the process can tell about itself; a name that ends in `_total` only ever grows."""

    name: str
    value: float
    labels: Mapping[str, str] = _NO_LABELS


def exposition(samples: Iterable[Sample]) -> str:
    """The samples in Prometheus' text form, those of one name together."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    lines = []
    for name, some in by_name.items():
        lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
        lines += [f"{name}{_labels(sample.labels)} {sample.value:.15g}" for sample in some]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def process_samples() -> Iterator[Sample]:
    """What every process can say."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield Sample("process_start_time_seconds", round(_STARTED, 3))
    yield Sample("process_cpu_seconds_total", round(used.ru_utime + used.ru_stime, 3))
    yield Sample("process_resident_memory_max_bytes", used.ru_maxrss * 1024)

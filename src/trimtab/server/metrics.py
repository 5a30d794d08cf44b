"""What the server counts of itself, in the words that dashboards for kube-apiserver already read."""

import resource
import time
from collections.abc import Mapping

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Requests:
    """Requests answered so far, by method and code, and how long they took."""

    def __init__(self) -> None:
        self._started = time.time()
        self._counts: dict[tuple[str, int], int] = {}
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._seconds = 0.0

    def count(self, method: str, code: int, seconds: float | None) -> None:
        """Note a request; those that go on have no duration."""
        key = (method, code)
        self._counts[key] = self._counts.get(key, 0) + 1
        if seconds is not None:
            self._seconds += seconds
            place = next((i for i, bound in enumerate(_BUCKETS) if seconds <= bound), len(_BUCKETS))
            self._buckets[place] += 1

    def text(self, objects: Mapping[str, int], watchers: int, revision: int) -> str:
        """Everything in Prometheus' text form."""
        lines = ["# TYPE apiserver_request_total counter"]
        for (method, code), count in sorted(self._counts.items()):
            lines.append(f'apiserver_request_total{{verb="{method}",code="{code}"}} {count}')
        lines += self._durations()
        lines.append("# TYPE apiserver_storage_objects gauge")
        lines += [f'apiserver_storage_objects{{resource="{name}"}} {n}' for name, n in sorted(objects.items())]
        lines += [
            "# TYPE apiserver_longrunning_requests gauge",
            f'apiserver_longrunning_requests{{verb="WATCH"}} {watchers}',
            "# TYPE trimtab_store_revision counter",
            f"trimtab_store_revision {revision}",
            "# TYPE process_start_time_seconds gauge",
            f"process_start_time_seconds {self._started:.3f}",
        ]
        used = resource.getrusage(resource.RUSAGE_SELF)
        lines += [
            "# TYPE process_cpu_seconds_total counter",
            f"process_cpu_seconds_total {used.ru_utime + used.ru_stime:.3f}",
            "# TYPE process_resident_memory_max_bytes gauge",
            f"process_resident_memory_max_bytes {used.ru_maxrss * 1024}",
        ]
        return "\n".join(lines) + "\n"

    def _durations(self) -> list[str]:
        name, total = "apiserver_request_duration_seconds", 0
        lines = [f"# TYPE {name} histogram"]
        for bound, count in zip((*_BUCKETS, "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {total}"]

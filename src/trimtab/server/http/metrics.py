"""Request metrics with the names of kube-apiserver, so that existing dashboards can read them."""

from collections.abc import Iterable, Mapping

from trimtab.telemetry import METRICS, Sample, format_metrics, process_samples

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RequestMetrics:
    """Counts of requests by method and code, and a histogram of their durations."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._seconds = 0.0

    def observe(self, method: str, code: int, seconds: float | None) -> None:
        """Count a request; watches have no duration."""
        key = (method, code)
        self._counts[key] = self._counts.get(key, 0) + 1
        if seconds is not None:
            self._seconds += seconds
            bucket = next((i for i, bound in enumerate(_BUCKETS) if seconds <= bound), len(_BUCKETS))
            self._buckets[bucket] += 1

    def render(
        self, objects: Mapping[str, int], watcher_count: int, revision: int, extra_samples: Iterable[Sample] = ()
    ) -> str:
        """All metrics in the Prometheus text format."""
        samples = [
            *(
                Sample("apiserver_request_total", count, {"verb": method, "code": str(code)})
                for (method, code), count in sorted(self._counts.items())
            ),
            *(Sample("apiserver_storage_objects", n, {"resource": name}) for name, n in sorted(objects.items())),
            Sample("apiserver_longrunning_requests", watcher_count, {"verb": "WATCH"}),
            Sample("trimtab_store_revision", revision),
            *extra_samples,
            *process_samples(),
        ]
        return format_metrics(samples) + "\n".join(self._duration_histogram()) + "\n"

    def _duration_histogram(self) -> list[str]:
        name, total = "apiserver_request_duration_seconds", 0
        lines = [f"# HELP {name} {METRICS[name].text}", f"# TYPE {name} histogram"]
        for bound, count in zip((*_BUCKETS, "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {total}"]

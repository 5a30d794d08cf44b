"""Request metrics with the names of kube-apiserver, so that existing dashboards can read them."""

from collections.abc import Iterable, Mapping

from trimtab.telemetry import Histogram, HistogramSeries, Sample, format_histograms, format_metrics, process_samples

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RequestMetrics:
    """Counts of requests by method and code, and a histogram of their durations."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._durations = Histogram(_BUCKETS)

    def observe(self, method: str, code: int, seconds: float | None) -> None:
        """Count a request; watches have no duration."""
        key = (method, code)
        self._counts[key] = self._counts.get(key, 0) + 1
        if seconds is not None:
            self._durations.observe(seconds)

    def render(
        self,
        objects: Mapping[str, int],
        watcher_count: int,
        revision: int,
        extra_samples: Iterable[Sample] = (),
        extra_histograms: Iterable[HistogramSeries] = (),
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
        durations: HistogramSeries = ("apiserver_request_duration_seconds", {}, self._durations)
        return format_metrics(samples) + format_histograms([durations, *extra_histograms])

"""Metrics of flow control with the names of kube-apiserver."""

from collections import Counter
from collections.abc import Iterator

from trimtab.server.flowcontrol.classification import Flow
from trimtab.server.flowcontrol.fair_queues import FairQueues, Verdict
from trimtab.telemetry import Histogram, Sample

_PREFIX = "apiserver_flowcontrol_"
_WAIT_BOUNDS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_Key = tuple[str, str]
"""The names of a priority level and of a flow schema."""


def _labels(key: _Key) -> dict[str, str]:
    return {"priority_level": key[0], "flow_schema": key[1]}


class FlowMetrics:
    """Counts of started and rejected requests and how long they waited."""

    def __init__(self) -> None:
        self._started: Counter[_Key] = Counter()
        self._executing: Counter[_Key] = Counter()
        self._rejected: Counter[tuple[_Key, Verdict]] = Counter()
        self._waits: dict[tuple[_Key, bool], Histogram] = {}

    def count_start(self, flow: Flow, waited: float | None) -> None:
        """Count a request that runs; an exempt one did not wait."""
        key = (flow.level, flow.schema)
        self._started[key] += 1
        self._executing[key] += 1
        if waited is not None:
            self._observe_wait(key, True, waited)

    def count_rejection(self, flow: Flow, verdict: Verdict, waited: float) -> None:
        key = (flow.level, flow.schema)
        self._rejected[key, verdict] += 1
        self._observe_wait(key, False, waited)

    def count_end(self, flow: Flow) -> None:
        self._executing[flow.level, flow.schema] -= 1

    def _observe_wait(self, key: _Key, execute: bool, waited: float) -> None:
        histogram = self._waits.get((key, execute))
        if histogram is None:
            histogram = self._waits[key, execute] = Histogram(_WAIT_BOUNDS)
        histogram.observe(waited)

    def samples(self, queues: FairQueues) -> Iterator[Sample]:
        for (key, verdict), count in sorted(self._rejected.items()):
            yield Sample(f"{_PREFIX}rejected_requests_total", count, {**_labels(key), "reason": verdict})
        for key, count in sorted(self._started.items()):
            yield Sample(f"{_PREFIX}dispatched_requests_total", count, _labels(key))
        for key, count in sorted(self._executing.items()):
            yield Sample(f"{_PREFIX}current_executing_requests", count, _labels(key))
        waiting: Counter[_Key] = Counter(dict.fromkeys(self._started, 0))
        for level in queues.levels.values():
            for queue in level.flows.values():
                waiting[level.limits.name, queue.key[0]] += len(queue.waiting)
        for key, count in sorted(waiting.items()):
            yield Sample(f"{_PREFIX}current_inqueue_requests", count, _labels(key))
        for name, level in sorted(queues.levels.items()):
            yield Sample(f"{_PREFIX}current_executing_seats", level.seats_in_use, {"priority_level": name})
        for name, level in sorted(queues.levels.items()):
            yield Sample(f"{_PREFIX}nominal_limit_seats", level.nominal_seats, {"priority_level": name})

    def histograms(self) -> Iterator[tuple[str, dict[str, str], Histogram]]:
        for (key, execute), histogram in sorted(self._waits.items()):
            labels = {**_labels(key), "execute": "true" if execute else "false"}
            yield f"{_PREFIX}request_wait_duration_seconds", labels, histogram

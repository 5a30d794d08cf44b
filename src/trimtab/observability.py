"""What a control plane tells about itself: metrics of its fleet and reconciles, traces, notifications."""

from collections.abc import Iterator
from typing import NamedTuple

from trimtab.client.otlp import SpanExporter, TraceTarget
from trimtab.client.webhook import Webhook, WebhookTarget
from trimtab.runtime.observers.fleet_metrics import FleetMetrics
from trimtab.runtime.observers.karmada_metrics import KarmadaMetrics
from trimtab.runtime.observers.notifications import Notifier
from trimtab.runtime.observers.step_times import StepTimes
from trimtab.runtime.observers.tracing import Tracer
from trimtab.runtime.view import ControlPlaneState
from trimtab.telemetry import HistogramSeries, Sample

EVENT_SOURCE = "trimtab"


class ObservabilitySettings(NamedTuple):
    """What is measured and sent besides our own metrics."""

    karmada_metrics: bool = False
    """Whether there are also metrics under the names of Karmada."""
    notify: WebhookTarget | None = None
    trace: TraceTarget | None = None


class Observability:
    """Observes the cache and the reconciles of one control plane, from `start` to `close`."""

    def __init__(self, state: ControlPlaneState, settings: ObservabilitySettings) -> None:
        self._fleet_metrics = FleetMetrics(state.cache, state.clock)
        self._karmada_metrics = KarmadaMetrics(state.cache, state.memory) if settings.karmada_metrics else None
        self._exporter, self._tracer = None, None
        if (trace := settings.trace) is not None:
            self._exporter = SpanExporter(trace.url)
            self._tracer = Tracer(state, self._exporter.export, trace.ratio)
        self._webhook, self._notifier = None, None
        if (notify := settings.notify) is not None:
            self._webhook = Webhook(notify)
            self._notifier = Notifier(state.cache, state.clock, self._webhook.send, EVENT_SOURCE)
        for observer in (self._karmada_metrics, self._tracer):
            if observer is not None:
                state.reconcile_observers.append(observer.observe)
        if self._karmada_metrics is not None:
            state.member_write_observers.append(self._karmada_metrics.count_write)
            state.step_observer = StepTimes(self._karmada_metrics.observe_step)

    def start(self) -> None:
        """Observe what changes from now on."""
        self._fleet_metrics.watch()
        if self._karmada_metrics is not None:
            self._karmada_metrics.watch()
        if self._exporter is not None and self._tracer is not None:
            self._exporter.start()
            self._tracer.watch()
        if self._webhook is not None and self._notifier is not None:
            self._webhook.start()
            self._notifier.watch()

    def observe_probe(self, cluster: str, seconds: float) -> None:
        """Note how long it took to read the state of a member."""
        if self._karmada_metrics is not None:
            self._karmada_metrics.observe_probe(cluster, seconds)

    async def close(self) -> None:
        if self._webhook is not None:
            await self._webhook.close()
        if self._exporter is not None:
            await self._exporter.close()

    def fleet_samples(self) -> Iterator[Sample]:
        """The metrics of the fleet, and of what is sent about it."""
        yield from self._fleet_metrics.samples()
        for result, count in self._webhook.counts.items() if self._webhook is not None else ():
            yield Sample("trimtab_notifications_total", count, {"result": result})
        if self._karmada_metrics is not None:
            yield from self._fleet_metrics.karmada_samples()

    def reconcile_samples(self) -> Iterator[Sample]:
        """What the observers of reconciles count."""
        if self._karmada_metrics is not None:
            yield from self._karmada_metrics.samples()
        if self._exporter is not None and self._tracer is not None:
            counts = {**self._exporter.counts, "beyond_limit": self._tracer.spans_beyond_limit}
            for result, count in counts.items():
                yield Sample("trimtab_trace_spans_total", count, {"result": result})

    def fleet_histograms(self) -> Iterator[HistogramSeries]:
        return self._fleet_metrics.histograms()

    def reconcile_histograms(self) -> Iterator[HistogramSeries]:
        if self._karmada_metrics is not None:
            yield from self._karmada_metrics.histograms()

"""One running webhook: its handlers, its certificates and its listener."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from trimtab.api.admission import webhook_configurations as paths
from trimtab.client.client import Client
from trimtab.clock import Clock
from trimtab.runtime.cache import Cache
from trimtab.server.auth.certificates import CertificateAuthority
from trimtab.server.http.listener import Listener
from trimtab.telemetry import HistogramSeries, Sample
from trimtab.webhook.application import Handler, WebhookApplication
from trimtab.webhook.certificates import CertificateFiles, CertificateRotation, KeyPair, write_pair
from trimtab.webhook.eviction_gate import EvictionGate
from trimtab.webhook.kind_admission import KindAdmission
from trimtab.webhook.pod_admission import PodAdmission
from trimtab.webhook.requirement_checks import RequirementChecks


class WebhookSettings(NamedTuple):
    """What an administrator chooses."""

    namespace: str
    service: str
    configuration: str
    names: tuple[str, ...] = ()
    cert_dir: Path | None = None
    pods: bool = True
    budget_target: str = "Workloads"
    allow_no_execute_taints: bool = False


class WebhookService:
    """Serves as soon as a certificate is loaded, and presents every later one to new connections."""

    def __init__(self, client: Client, clock: Clock, settings: WebhookSettings, directory: Path) -> None:
        """`directory` is private to this process; the certificate is loaded from there."""
        self._cache = Cache(client)
        self._gate = EvictionGate(client, clock)
        self._application = WebhookApplication(self._handlers(client, clock, settings))
        self._authority = CertificateAuthority(directory)
        self._certificates = self._new_certificates(client, clock, settings)
        self._loaded = asyncio.Event()
        self._listener: Listener | None = None

    def _handlers(self, client: Client, clock: Clock, settings: WebhookSettings) -> dict[str, Handler]:
        kinds = KindAdmission(
            self._cache,
            allow_no_execute_taints=settings.allow_no_execute_taints,
            budget_target=settings.budget_target,
            requirements=RequirementChecks(client),
            clock=clock,
        )
        handlers: dict[str, Handler] = {paths.DEFAULTS: kinds.mutate, paths.CHECKS: kinds.validate}
        if settings.pods:
            pods = PodAdmission(client, self._cache, clock)
            handlers |= {
                paths.REPLACEMENTS: pods.mutate,
                paths.LIMITED_PRIORITIES: pods.validate,
                paths.EVICTIONS: self._gate.admit,
            }
        return handlers

    def _new_certificates(
        self, client: Client, clock: Clock, settings: WebhookSettings
    ) -> CertificateFiles | CertificateRotation:
        if settings.cert_dir is not None:
            return CertificateFiles(settings.cert_dir, self._load)
        host = f"{settings.service}.{settings.namespace}.svc"
        return CertificateRotation(
            client,
            clock,
            namespace=settings.namespace,
            secret=f"{settings.service}-certificates",
            configuration=settings.configuration,
            names=[host, f"{host}.cluster.local", *settings.names],
            load=self._load,
        )

    def _load(self, pair: KeyPair) -> None:
        write_pair(self._authority.directory, pair)
        # Clients need no certificate, so any authority will do.
        self._authority.certificate.write_bytes(pair.certificate)
        self._loaded.set()
        if self._listener is not None:
            self._listener.reload_certificates(self._authority)

    @property
    def is_ready(self) -> bool:
        return self._listener is not None and self._certificates.is_loaded

    async def run(self, host: str, port: int, on_ready: Callable[[int], None]) -> None:
        """Serve until cancelled; `on_ready` is called with the port."""
        rotation = asyncio.ensure_future(self._certificates.run())
        try:
            await self._cache.wait_until_synced()
            await self._loaded.wait()
            listener = Listener(self._application, host, port, self._authority)
            await listener.start()
            self._listener = listener
            on_ready(listener.port)
            await rotation
        finally:
            rotation.cancel()
            if self._listener is not None:
                await self._listener.stop()
            await self._cache.close()

    def samples(self) -> Iterator[Sample]:
        yield from self._application.samples()
        yield Sample("trimtab_webhook_evictions_charged_total", self._gate.charged)
        yield Sample("trimtab_webhook_evictions_refused_total", self._gate.refused)
        if (expires := self._certificates.expires) is not None:
            yield Sample("trimtab_webhook_certificate_expiry_seconds", expires.timestamp())

    def histograms(self) -> Iterable[HistogramSeries]:
        return ()

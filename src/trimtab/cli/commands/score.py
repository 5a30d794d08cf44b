"""`trimtab score`: run a score provider and publish its scores as AddOnPlacementScores."""

import asyncio
import importlib.util
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from trimtab import plugins
from trimtab.api.duration import parse_duration
from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore
from trimtab.api.value import Object
from trimtab.api.wording import plural
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.output import format_structured, output_option
from trimtab.client.client import Client, resource_of
from trimtab.client.lookups import list_typed
from trimtab.clock import Clock, WallClock
from trimtab.decide.ocm.score_provider import (
    ScoreProvider,
    placement_scores,
    provider_clusters,
    providers,
    run_provider,
)
from trimtab.errors import AlreadyExists, ApiError, InputError, NotFound
from trimtab.tables import format_table

T = TypeVar("T", bound=Object)
MANAGER = "trimtab-score"


@click.group()
def command() -> None:
    """Publish scores of clusters for Placements and policies."""


@command.command("providers")
@output_option
def list_providers(output: str) -> None:
    """List the built-in providers."""
    plugins.load()
    rows = [(name, (providers[name].__doc__ or "").strip()) for name in providers.names()]
    if output in ("table", "wide"):
        click.echo(format_table(("NAME", "SCORES"), rows))
    elif output == "name":
        click.echo("\n".join(name for name, _ in rows))
    else:
        click.echo(format_structured([{"name": name, "scores": text} for name, text in rows], output))


@command.command()
@click.argument("provider")
@click.option("--name", default="", help="Name of the AddOnPlacementScore. Default: the name of the provider.")
@click.option("--every", default="60s", show_default=True, help="Interval, e.g. 30s, 5m or 1h.")
@click.option("--valid", default="5m", show_default=True, help="Validity of scores when the provider sets none.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option for the provider; @FILE reads the value from a file.",
)
@click.option("--once", is_flag=True, help="Publish once and exit.")
@click.option("--dry-run", is_flag=True, help="Print the scores once instead of publishing them.")
@kubeconfig_options
def run(
    provider: str,
    name: str,
    every: str,
    valid: str,
    settings: tuple[str, ...],
    once: bool,
    dry_run: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Run PROVIDER and publish its scores. PROVIDER is a built-in name, or a Python file with a function `provide`."""
    provide = load_provider(provider)
    resource = name or Path(provider).stem.replace("_", "-").lower()
    period, validity = parse_length("--every", every), parse_length("--valid", valid)
    round_ = ScorePublisher(provide, resource, validity, settings)

    async def work(client: Client) -> None:
        while True:
            try:
                click.echo(await (round_.show(client) if dry_run else round_.publish(client)))
            except (InputError, ApiError) as fault:
                if once or dry_run:
                    raise
                click.echo(f"trimtab: {fault}", err=True)
            if once or dry_run:
                return
            await asyncio.sleep(period)

    with_client(kubeconfig, context, work)


def parse_length(option: str, text: str) -> float:
    length = parse_duration(text).total_seconds()
    if not length:
        raise InputError(f"{option}: expected a duration such as 30s, 5m or 1h, got {text!r}")
    return length


def load_provider(provider: str) -> ScoreProvider:
    """A built-in provider, or the function `provide` of a file."""
    plugins.load()
    if provider in providers:
        return providers[provider]
    path = Path(provider)
    if path.suffix != ".py" or not path.exists():
        raise InputError(
            f"{provider!r} is neither a Python file nor a built-in provider ({', '.join(providers.names())})"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"cannot load {provider}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as fault:
        raise InputError(f"cannot run {provider}: {type(fault).__name__}: {fault}") from fault
    provide = getattr(module, "provide", None)
    if not callable(provide):
        raise InputError(f"{provider} has no function `provide(clusters, options)`")
    return cast("ScoreProvider", provide)


def read_options(settings: Iterable[str]) -> dict[str, str]:
    """The options of `key=value` pairs; `@file` stands for the content of the file, read at every round."""
    read = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"--set: expected KEY=VALUE, got {setting!r}")
        if value.startswith("@"):
            path = Path(value[1:])
            if not path.exists():
                raise InputError(f"--set {key}: there is no file {path}")
            value = path.read_text()
        read[key] = value
    return read


class ScorePublisher:
    """Runs the provider on the current clusters and writes its scores."""

    def __init__(
        self,
        provide: ScoreProvider,
        resource: str,
        validity: float,
        settings: Iterable[str],
        clock: Clock | None = None,
    ) -> None:
        self._provide = provide
        self._resource = resource
        self._validity = validity
        self._settings = tuple(settings)
        self._clock = clock or WallClock()

    async def _scores(self, client: Client) -> list[AddOnPlacementScore]:
        clusters = provider_clusters(
            await list_typed(client, Cluster, if_served=True), await list_typed(client, ManagedCluster, if_served=True)
        )
        given = list(run_provider(self._provide, clusters, read_options(self._settings)))
        before = await list_typed(client, AddOnPlacementScore, fields=f"metadata.name={self._resource}", if_served=True)
        by_cluster = {score.namespace: score for score in before if score.name == self._resource}
        return list(placement_scores(self._resource, given, by_cluster, self._clock.now(), self._validity))

    async def show(self, client: Client) -> str:
        """The scores as a table."""
        rows = [
            (score.namespace, one.name, one.value)
            for score in await self._scores(client)
            for one in score.status.scores
        ]
        return format_table(("CLUSTER", "SCORE", "VALUE"), rows)

    async def publish(self, client: Client) -> str:
        """Write the scores; returns a summary line."""
        missing = []
        scores = await self._scores(client)
        for score in scores:
            try:
                await write_score(client, score)
            except NotFound:
                missing.append(score.namespace)  # the namespace of the cluster does not exist yet
        text = f"{self._resource}: published scores of {plural(len(scores) - len(missing), 'cluster')}"
        return f"{text}; missing namespaces: {', '.join(missing)}" if missing else text


async def write_score(client: Client, score: AddOnPlacementScore) -> None:
    resource = resource_of(kind_of(score))
    raw = to_wire(score)
    status: Mapping[str, Any] = {"status": raw.pop("status")}
    if not score.metadata.resource_version:
        with suppress(AlreadyExists):  # another client created it; only the status matters
            await client.create(resource, raw, manager=MANAGER)
    await client.patch(resource, score.namespace, score.name, status, subresource="status", manager=MANAGER)

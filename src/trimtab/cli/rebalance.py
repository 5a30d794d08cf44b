"""`trimtab rebalance deploy/web`: decides afresh where workloads belong, and moves them there without a gap."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

import click
import msgspec

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.rebalancer import ObservedWorkload, WorkloadRebalancer
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, TargetCluster
from trimtab.api.value import Raw
from trimtab.app import learn_everything
from trimtab.cli.shared import kubeconfig_options, table, with_client
from trimtab.cli.shared_moves import everything, reference, resource_named
from trimtab.client.client import Client, resource_of
from trimtab.clock import WallClock
from trimtab.controllers.rebalance import ENDED
from trimtab.decide.ask import ask_of
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import decide
from trimtab.errors import InputFault, NotFound
from trimtab.interpret.names import binding_name

POLL_SECONDS = 1.0
Item = tuple[str, str, str]
"""Kind, namespace and name of a workload."""


@click.command()
@click.argument("workloads", nargs=-1, metavar="[KIND/NAME]...")
@click.option("-n", "--namespace", default="default", show_default=True)
@click.option("-l", "--selector", default="", help="Instead of names: workloads with these labels, as in team=blue.")
@click.option("--kind", "kind_", default="deployment", show_default=True, help="What the selector selects.")
@click.option("--preserve-available", is_flag=True, help="Leave replicas that are available where they are.")
@click.option("--at-once", is_flag=True, help="Do not wait for the replacement to be ready.")
@click.option("--max-parallel", type=int, default=10, show_default=True, help="How many workloads move at once.")
@click.option("--name", default="", help="What the rebalancer is to be called.")
@click.option("--dry-run", is_flag=True, help="Only show what would move.")
@click.option("--wait", is_flag=True, help="Stay until everything has moved.")
@click.option("--timeout", type=float, default=1200.0, show_default=True, help="Seconds to wait at most.")
@kubeconfig_options
def command(
    workloads: tuple[str, ...],
    namespace: str,
    selector: str,
    kind_: str,
    preserve_available: bool,
    at_once: bool,
    max_parallel: int,
    name: str,
    dry_run: bool,
    wait: bool,
    timeout: float,
    kubeconfig: str,
    context: str,
) -> int:
    """Decide afresh where workloads belong, and move what is not there, replacement first."""
    if bool(workloads) == bool(selector):
        raise InputFault("name workloads, as in deploy/web, or give a --selector")
    spec: dict[str, Any] = {"maxParallel": max_parallel}
    if preserve_available:
        spec["strategy"] = "PreserveAvailable"
    if at_once:
        spec["move"] = {"mode": "AtOnce"}

    async def work(client: Client) -> int:
        learn_everything()
        if selector:
            spec["selectors"] = [await selected(client, kind_, namespace, selector)]
        else:
            spec["workloads"] = [await reference(client, text, namespace) for text in workloads]
        if dry_run:
            click.echo(await forecast(client, spec))
            return 0
        job = await created(client, name or f"rebalance-{WallClock().now():%Y%m%d-%H%M%S}", spec)
        click.echo(f"workloadrebalancer/{job} created")
        return await followed(client, job, timeout) if wait else 0

    return with_client(kubeconfig, context, work)


async def selected(client: Client, kind: str, namespace: str, selector: str) -> Raw:
    resource = resource_named(kind, await client.resources())
    labels = dict(pair.split("=", 1) for pair in selector.split(",") if "=" in pair)
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": namespace,
        "labelSelector": {"matchLabels": labels},
    }


async def created(client: Client, name: str, spec: Raw) -> str:
    kind = kind_of(WorkloadRebalancer)
    job = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}
    made = await client.create(resource_of(kind), job)
    return str(made["metadata"]["name"])


async def forecast(client: Client, spec: Raw) -> str:
    """What a fresh decision would change, by the rules that the control plane follows."""
    fleet = Fleet.of(await everything(client, Cluster), now=datetime.now(UTC))
    rows = []
    for kind, namespace, name in await meant(client, spec):
        binding = await binding_of(client, kind, namespace, name)
        if binding is None or binding.spec.placement is None:
            rows.append((f"{kind}/{name}", "-", "-", "it has no binding with a placement"))
            continue
        decision = decide(msgspec.structs.replace(ask_of(binding), fresh=True), fleet)
        after = decision.targets if decision.ok else binding.spec.clusters
        change = decision.condition[2] if not decision.ok else ("" if after != binding.spec.clusters else "no change")
        rows.append((f"{kind}/{name}", shares(binding.spec.clusters), shares(after), change))
    return table(("WORKLOAD", "NOW", "THEN", "NOTE"), rows)


async def meant(client: Client, spec: Raw) -> list[Item]:
    listed = [(w["kind"], w.get("namespace", ""), w["name"]) for w in spec.get("workloads", [])]
    for rule in spec.get("selectors", []):
        resource = resource_named(rule["kind"], await client.resources())
        labels = ",".join(f"{key}={value}" for key, value in rule["labelSelector"]["matchLabels"].items())
        found = await client.list(resource, rule["namespace"], labels=labels)
        listed += [(resource.kind, rule["namespace"], raw["metadata"]["name"]) for raw in found.items]
    return sorted(set(listed))


async def binding_of(client: Client, kind: str, namespace: str, name: str) -> Binding | None:
    declared = kind_of(ResourceBinding if namespace else ClusterResourceBinding)
    try:
        return cast(
            "Binding", declared.decode(await client.get(resource_of(declared), namespace, binding_name(kind, name)))
        )
    except NotFound:
        return None


def shares(targets: Iterable[TargetCluster]) -> str:
    return " ".join(f"{t.name}:{t.replicas}" if t.replicas else t.name for t in targets) or "-"


async def followed(client: Client, name: str, seconds: float) -> int:
    """Tell every change of phase until all are terminal; 1 when something failed or time is over."""
    try:
        async with asyncio.timeout(seconds):
            return await told_until_the_end(client, name)
    except TimeoutError:
        click.echo(f"not done within {seconds:.0f} seconds; workloadrebalancer/{name} goes on")
        return 1


async def told_until_the_end(client: Client, name: str) -> int:
    kind = kind_of(WorkloadRebalancer)
    told: dict[str, str] = {}
    while True:
        job = cast("WorkloadRebalancer", kind.decode(await client.get(resource_of(kind), "", name)))
        items = job.status.observed_workloads
        for item in items:
            line = told_line(item)
            if told.get(item.workload.name) != line:
                told[item.workload.name] = line
                click.echo(line)
        if job.status.finish_time is not None and all(item.phase in ENDED or not item.phase for item in items):
            return 1 if any("Failed" in (item.phase, item.result) for item in items) else 0
        await asyncio.sleep(POLL_SECONDS)


def told_line(item: ObservedWorkload) -> str:
    way = f"{shares(item.before)} -> {shares(item.after)}" if item.before != item.after and item.after else ""
    said = " ".join(part for part in (way, item.message) if part)
    return f"{item.phase or item.result or 'Pending':<10}{item.workload.kind}/{item.workload.name}  {said}".rstrip()

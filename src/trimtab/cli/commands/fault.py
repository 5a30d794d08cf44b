"""`trimtab fault`: let a simulated cluster, node or workload fail, and recover."""

import contextlib
from collections.abc import Mapping

import click
import orjson

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, AddOnPlacementScoreStatus, AddOnScoreValue
from trimtab.api.value import Meta
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.clusters import get_cluster
from trimtab.cli.support.options.namespace import namespace_option
from trimtab.client.client import resource_of
from trimtab.client.kube import KubeClient
from trimtab.errors import AlreadyExists, InputError
from trimtab.simulate.faults import CLUSTER_STATES, NODE_STATES, PREFIX, WORKLOAD_STATES

FIELD_MANAGER = "trimtab-fault"
OK = 200


@click.group()
def command() -> None:
    """Let parts of a simulated fleet fail, and recover. It works only in a fleet that `trimtab up` simulates."""


@command.command()
@click.argument("name")
@click.argument("state", type=click.Choice(CLUSTER_STATES))
@click.option("--seconds", default=30.0, show_default=True, help="Delay (slow) or length of a phase (flapping).")
@kubeconfig_options
def cluster(name: str, state: str, seconds: float, kubeconfig: str, context: str) -> None:
    """Let the cluster NAME fail (down, partition, slow, flapping), or recover."""
    send(kubeconfig, context, name, {"state": state, "seconds": seconds})


@command.command()
@click.argument("cluster")
@click.argument("node")
@click.argument("state", type=click.Choice(NODE_STATES))
@kubeconfig_options
def node(cluster: str, node: str, state: str, kubeconfig: str, context: str) -> None:
    """Let NODE of CLUSTER fail, or recover."""
    send(kubeconfig, context, cluster, {"state": state, "node": node})


@command.command()
@click.argument("workload", metavar="NAME")
@click.argument("state", type=click.Choice(["unhealthy", *WORKLOAD_STATES]))
@click.option("--cluster", "clusters", multiple=True, required=True, help="The cluster in which it fails; repeatable.")
@namespace_option()
@kubeconfig_options
def workload(
    workload: str, state: str, clusters: tuple[str, ...], namespace: str, kubeconfig: str, context: str
) -> None:
    """Let the pods with the label app=NAME fail, or recover; `unhealthy` is another name for not-ready."""
    name = workload.rpartition("/")[2]
    body = {"state": "not-ready" if state == "unhealthy" else state, "workload": f"{namespace}/{name}"}
    for cluster in clusters:
        send(kubeconfig, context, cluster, body)


@command.command()
@click.argument("cluster")
@click.argument("scores", nargs=-1, required=True, metavar="RESOURCE/NAME=VALUE...")
@kubeconfig_options
def score(cluster: str, scores: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Set scores of CLUSTER by hand, as a score provider would: RESOURCE is the AddOnPlacementScore."""
    wanted: dict[str, dict[str, int]] = {}
    for text in scores:
        resource, name, value = parse_score(text)
        wanted.setdefault(resource, {})[name] = value

    async def work(client: KubeClient) -> None:
        await get_cluster(client, cluster)
        for resource, values in wanted.items():
            await write_score(client, cluster, resource, values)
            click.echo(f"addonplacementscore/{resource} of cluster {cluster} set")

    with_client(kubeconfig, context, work)


def parse_score(text: str) -> tuple[str, str, int]:
    resource, slash, rest = text.partition("/")
    name, equals, value = rest.partition("=")
    if not (resource and slash and name and equals) or not value.lstrip("-").isdigit():
        raise InputError(f"{text!r} is not a score; use RESOURCE/NAME=VALUE, such as latency/ms=40")
    return resource, name, int(value)


async def write_score(client: KubeClient, cluster: str, resource: str, values: dict[str, int]) -> None:
    """Create the AddOnPlacementScore in the namespace of the cluster, and set its status."""
    kind = kind_of(AddOnPlacementScore)
    object_ = AddOnPlacementScore(metadata=Meta(name=resource, namespace=cluster))
    with contextlib.suppress(AlreadyExists):
        await client.create(resource_of(kind), to_wire(object_), manager=FIELD_MANAGER)
    status = AddOnPlacementScoreStatus(
        scores=tuple(AddOnScoreValue(name=name, value=value) for name, value in sorted(values.items()))
    )
    patch = {"status": to_wire(object_.but(status=status))["status"]}
    await client.patch(resource_of(kind), cluster, resource, patch, subresource="status", manager=FIELD_MANAGER)


def send(kubeconfig: str, context: str, cluster: str, body: Mapping[str, object]) -> None:
    """Send the fault and print what happens."""

    async def work(client: KubeClient) -> str:
        await get_cluster(client, cluster)
        response = await client.forward(
            "POST", PREFIX + cluster, {}, [("Content-Type", "application/json")], orjson.dumps(body)
        )
        async with response:
            text = await response.read()
        try:
            message = str(orjson.loads(text).get("message", ""))
        except (orjson.JSONDecodeError, AttributeError):
            message = ""
        if response.status != OK:
            raise InputError(message or f"the server has no simulated members (status {response.status})")
        return message

    click.echo(with_client(kubeconfig, context, work))

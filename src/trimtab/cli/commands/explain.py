"""`trimtab explain`: where a workload runs and why, and why not elsewhere."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import click
import msgspec

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm import AddOnPlacementScore, PlacementDecision
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.profile import PROFILES, Profile
from trimtab.api.value import Object
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.drain_report import cluster_explained
from trimtab.cli.support.placement_report import placement_explained
from trimtab.cli.support.pod_report import pod_explained
from trimtab.client.client import Client, resource_of
from trimtab.client.lookups import everything, resource_named
from trimtab.clock import WallClock
from trimtab.decide.explain import Explanation, TargetStory, explain
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import decide
from trimtab.decide.ocm.snapshot import note_of, score_note
from trimtab.decide.request import ask_of
from trimtab.errors import ApiFault, InputFault, NotFound
from trimtab.interpret.names import binding_name
from trimtab.runtime.declarations import learn_everything
from trimtab.tables import table

HEADINGS = ("CLUSTER", "REPLICAS", "BEFORE", "ROOM", "SCORE", "WHY")
PLACEMENT = "cluster.open-cluster-management.io/placement"
TROUBLES = ("Stalled", "PurgeUnconfirmed", "FailoverInactive")
"""Conditions of a binding that somebody should know of while they are true."""


@click.command()
@click.argument("target", metavar="KIND/NAME")
@click.option("--namespace", "-n", default="default", show_default=True)
@click.option("--now", "anew", is_flag=True, help="What would be decided now, instead of what was decided then.")
@click.option(
    "--profile", type=click.Choice(["trimtab", "upstream"]), default="trimtab", help="With --now, or of a cluster."
)
@click.option("--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True)
@kubeconfig_options
def command(target: str, namespace: str, anew: bool, profile: str, output: str, kubeconfig: str, context: str) -> None:
    """Say where KIND/NAME (deploy/web, rb/web-deployment, placement/cheap) goes and why, and why not elsewhere.

    Of cluster/NAME: what stays there, what leaves it and when, and what a workload waits for that does not.
    Of pod/NAME of a member: which budgets guard it and whether it may go now.
    """

    async def work(client: Client) -> str:
        if placement := placement_meant(target):
            return await placement_explained(client, namespace, placement, WallClock().now(), as_json=output == "json")
        if cluster := cluster_meant(target):
            if output == "json":
                raise InputFault("of a cluster there is only the table: leave out -o json")
            return await cluster_explained(client, cluster, PROFILES[profile], WallClock().now())
        try:
            binding = await bound(client, target, namespace)
        except InputFault:
            if not (pod := pod_meant(target)):
                raise
            return await pod_explained(client, namespace, pod, WallClock().now())
        told = None if anew else await remembered(client, binding)
        remark: Sequence[str] = ()
        if told is None:
            told = await decided_now(client, binding, PROFILES[profile])
            remark = () if anew else tuple(recorded(binding))
        if output == "json":
            return msgspec.json.format(msgspec.json.encode(told)).decode()
        return "\n".join(lines(binding, told, remark))

    click.echo(with_client(kubeconfig, context, work))


def placement_meant(target: str) -> str:
    """The name of the Placement of Open Cluster Management that is asked about; empty when it is something else."""
    word, _, name = target.partition("/")
    return name if word.lower() in ("placement", "placements") else ""


def cluster_meant(target: str) -> str:
    """The name of the cluster that is asked about; empty when it is something else."""
    word, _, name = target.partition("/")
    return name if word.lower() in ("cluster", "clusters") else ""


def pod_meant(target: str) -> str:
    """The name of the pod that is asked about; empty when it is something else."""
    word, _, name = target.partition("/")
    return name if word.lower() in ("pod", "pods", "po") else ""


async def bound(client: Client, target: str, namespace: str) -> Binding:
    """The binding of a workload, or the binding itself."""
    word, slash, name = target.partition("/")
    if not slash or not name:
        raise InputFault(f"{target!r}: write KIND/NAME, such as deploy/web")
    resource = resource_named(word, await client.resources())
    if resource.kind in ("ResourceBinding", "ClusterResourceBinding"):
        wanted = name
        type_: type[Object] = ResourceBinding if resource.namespaced else ClusterResourceBinding
    else:
        wanted = binding_name(resource.kind, name)
        type_ = ResourceBinding if resource.namespaced else ClusterResourceBinding
    kind = kind_of(type_)
    try:
        raw = await client.get(resource_of(kind), namespace if resource.namespaced else "", wanted)
    except NotFound as missing:
        place = f" in namespace {namespace}" if resource.namespaced else ""
        raise InputFault(
            f"{target}{place} is not propagated: no policy has claimed it, or there is no such object"
        ) from missing
    return cast("Binding", kind.decode(raw))


def recorded(binding: Binding) -> Iterator[str]:
    """What the binding itself tells of its last decision, when whoever made it cannot be asked any more."""
    record = binding.status.decision
    if record is None:
        yield "The decision itself is not remembered any more; this is what would be decided now."
        return
    when = f" on {record.time:%Y-%m-%d at %H:%M:%S} UTC" if record.time is not None else ""
    yield f"Decided{when} ({record.mode}): {record.rule}; {record.feasible} of {record.considered} clusters could take it."
    for group in record.refused:
        more = f" and {group.count - len(group.clusters)} more" if group.count > len(group.clusters) else ""
        yield f"Not {', '.join(group.clusters)}{more}: {group.message} ({group.rule})."
    yield "What would be decided now:"


async def remembered(client: Client, binding: Binding) -> Explanation | None:
    """The last decision about it, if the control plane is at hand and remembers it."""
    place = f"{binding.namespace}/{binding.name}" if binding.namespace else binding.name
    try:
        answer = await client.fetch(f"/debug/bindings/{place}")
    except ApiFault:
        return None
    return msgspec.json.decode(answer.body, type=Explanation) if answer.code == 200 else None


async def decided_now(client: Client, binding: Binding, profile: Profile) -> Explanation:
    """Think it over with what the API shows: the same rules, the same answer."""
    learn_everything()
    fleet = Fleet.of(await everything(client, Cluster, if_served=True)).at(WallClock().now())
    for score in await everything(client, AddOnPlacementScore, if_served=True):
        fleet = fleet.amend(score_note(score.name), {score.namespace: note_of(score)})
    ask = ask_of(binding, candidates=await candidates(client, binding))
    return explain(decide(ask, fleet, profile))


async def candidates(client: Client, binding: Binding) -> list[str] | None:
    """The clusters of the Placement that the policy refers to; None when it refers to none."""
    ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
    if ref is None:
        return None
    found = []
    for page in await everything(client, PlacementDecision, if_served=True):
        ours = (
            page.namespace == (ref.namespace or binding.namespace) and page.metadata.labels.get(PLACEMENT) == ref.name
        )
        if ours and page.status is not None:
            found += [decision.cluster_name for decision in page.status.decisions]
    return found


def lines(binding: Binding, told: Explanation, remark: Sequence[str]) -> Iterator[str]:
    workload = binding.spec.resource
    place = f"{workload.namespace}/{workload.name}" if workload.namespace else workload.name
    counted = f" ({binding.spec.replicas} replicas)" if binding.spec.replicas else ""
    yield f"{workload.kind} {place}{counted} {placed(binding)}."
    yield from remark
    if not told.ok:
        yield f"It could not be placed: {told.message}"
    yield f"How: {told.rule} ({told.mode})." if told.rule else f"How: {told.mode}."
    for group in told.groups:
        yield f"Group {group.name}: {group.message or 'taken'}."
    yield from troubles(binding)
    yield ""
    yield table(HEADINGS, [row(story) for story in sorted(told.clusters, key=rank)])
    if told.tie_break:
        yield f"\nTies: {told.tie_break}."
    if told.valid_until is not None:
        yield f"Good until {told.valid_until:%Y-%m-%d %H:%M:%S} UTC, unless something changes."


def placed(binding: Binding) -> str:
    targets = sorted(binding.spec.clusters, key=lambda target: target.name)
    if not targets:
        return "runs nowhere"
    return "runs in " + ", ".join(f"{t.name} ({t.replicas})" if t.replicas else t.name for t in targets)


def troubles(binding: Binding) -> Iterator[str]:
    """What stands in the way of what was decided."""
    for hold in binding.status.holds:
        yield f"Still held in {hold.cluster}: {hold.reason or 'its replacement is not ready yet'}."
    for task in binding.spec.graceful_eviction_tasks:
        yield f"Leaving {task.from_cluster}: {task.reason}."
    for condition in binding.status.conditions:
        if condition.type in TROUBLES and condition.status == "True":
            yield f"{condition.type}: {condition.message}"


def rank(story: TargetStory) -> tuple[Any, ...]:
    """Those that got something first, then those that might have, then those that were refused."""
    return (story.refused is not None, not story.replicas, not story.selected, story.name)


def row(story: TargetStory) -> Sequence[str]:
    scores = story.total if story.prioritizers else sum(story.scores.values())
    return (
        story.name,
        "-" if story.replicas is None else str(story.replicas),
        str(story.before) if story.before else "-",
        "-" if story.room is None else str(story.room),
        "-" if story.refused is not None else str(scores),
        why(story),
    )


def why(story: TargetStory) -> str:
    if story.refused is not None:
        return f"{story.refused.plugin}: {story.refused.message}"
    overflow = f", as overflow {story.overflow}" if story.overflow else ""
    if story.replicas is not None:
        return f"chosen{overflow}"
    return f"fits, but nothing was left for it{overflow}" if story.selected else "fits, but the spread left it out"

"""`trimtab explain`: explain the placement of a workload, a Placement, a cluster or a pod."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import click
import msgspec

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.profile import PROFILES
from trimtab.api.value import Object
from trimtab.api.wording import plural
from trimtab.cli.support.client import kubeconfig_options
from trimtab.cli.support.explain_hints import change_lines, has_taint_obstacle, kept_copy_lines
from trimtab.cli.support.options.namespace import namespace_option
from trimtab.cli.support.output import format_structured, output_option
from trimtab.cli.support.reports import print_report, watch_option
from trimtab.client.client import Client, Resource, resource_of
from trimtab.client.lookups import find_resource, list_typed
from trimtab.clock import WallClock
from trimtab.decide.explanation import ClusterExplanation, Explanation
from trimtab.errors import ApiError, InputError, NotFound
from trimtab.interpret.names import binding_name
from trimtab.tables import format_table

HEADINGS = ("CLUSTER", "REPLICAS", "BEFORE", "FITS", "SCORE", "REASON")
PLACEMENT = "cluster.open-cluster-management.io/placement"
MAX_NAMESPACES = 5
"""Other namespaces that an error names."""
MADE_NOW = "This is the decision that would be made now:"
SHOWN_CONDITIONS = ("Stalled", "PurgeUnconfirmed", "FailoverInactive")
"""Conditions of a binding that are shown while they are true."""


@click.command()
@click.argument("target", metavar="KIND/NAME")
@namespace_option()
@click.option("--all-namespaces", "-A", is_flag=True, help="Explain the workloads of this name in all namespaces.")
@click.option("--now", "anew", is_flag=True, help="Decide now instead of showing the last decision.")
@click.option(
    "--profile",
    type=click.Choice(sorted(PROFILES)),
    help="Profile for --now and for clusters; by default that of the server.",
)
@output_option
@watch_option
@kubeconfig_options
def command(
    target: str,
    namespace: str,
    all_namespaces: bool,
    anew: bool,
    profile: str | None,
    output: str,
    watch: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Explain where KIND/NAME (deploy/web, rb/web-deployment, placement/cheap) is placed, and why not elsewhere.

    cluster/NAME shows which workloads stay, which leave and when, and what delays them.
    pod/NAME of a member shows which budgets cover the pod, and whether it can be evicted now.
    """

    async def explain_one(client: Client, place: str) -> str:
        if placement := placement_name_of(target):
            from trimtab.cli.support.placement_report import explain_placement  # noqa: PLC0415 - most calls need none

            structured = output in ("json", "yaml")
            text = await explain_placement(client, place, placement, WallClock().now(), as_json=structured)
            return as_yaml(text) if output == "yaml" else text
        if cluster := cluster_name_of(target):
            from trimtab.cli.support.drain_report import explain_cluster  # noqa: PLC0415

            return await explain_cluster(client, cluster, profile, WallClock().now(), output)
        try:
            binding = await find_binding(client, target, place)
        except InputError:
            if not (pod := pod_name_of(target)):
                raise
            from trimtab.cli.support.pod_report import explain_pod  # noqa: PLC0415

            return await explain_pod(client, place, pod, WallClock().now(), output)
        return await explain_binding(client, binding, profile, output, anew=anew)

    async def render(client: Client) -> str:
        places = await namespaces_with(client, target) if all_namespaces else [namespace]
        texts = [await explain_one(client, place) for place in places]
        return together(texts, output) if all_namespaces else texts[0]

    print_report(kubeconfig, context, render, watch=watch)


def together(texts: Sequence[str], output: str) -> str:
    """Several reports as one: an array in JSON, documents in YAML, a name per line."""
    if output == "json":
        return format_structured([msgspec.json.decode(text) for text in texts], "json")
    return {"yaml": "\n---\n", "name": "\n"}.get(output, "\n\n").join(texts)


def as_yaml(document: str) -> str:
    return format_structured(msgspec.json.decode(document), "yaml")


async def namespaces_with(client: Client, target: str) -> list[str]:
    """The namespaces in which a propagated workload has this name; an error when there is none."""
    word, _, name = target.partition("/")
    resource = find_resource(word, await client.resources())
    wanted = name if resource.kind.endswith("ResourceBinding") else binding_name(resource.kind, name)
    found = [b.namespace for b in await list_typed(client, ResourceBinding) if b.name == wanted]
    if not found and resource.namespaced:
        raise InputError(f"no propagated {resource.kind} is called {name} in any namespace")
    return sorted(found) or [""]


async def explain_binding(client: Client, binding: Binding, profile: str | None, output: str, *, anew: bool) -> str:
    if output == "name":
        return f"{kind_of(binding).name.lower()}/{binding.name}"
    explanation = None if anew else await fetch_last_decision(client, binding)
    if explanation is not None:
        remark = tuple(time_lines(explanation))
    else:
        explanation = await decide_now(client, binding, profile)
        remark = (MADE_NOW,) if anew else tuple(record_lines(binding))
    if output in ("json", "yaml"):
        return format_structured(explanation, output)
    clusters = await clusters_of_today(client) if has_taint_obstacle(explanation) else {}
    return "\n".join(report_lines(binding, explanation, remark, clusters, wide=output == "wide"))


async def clusters_of_today(client: Client) -> dict[str, Cluster]:
    """The clusters by name, as far as the user may see them."""
    try:
        return {cluster.name: cluster for cluster in await list_typed(client, Cluster)}
    except ApiError:
        return {}


def placement_name_of(target: str) -> str:
    """The name of the OCM Placement that the argument names; empty for other kinds."""
    word, _, name = target.partition("/")
    return name if word.lower() in ("placement", "placements") else ""


def cluster_name_of(target: str) -> str:
    """The name of the cluster that the argument names; empty for other kinds."""
    word, _, name = target.partition("/")
    return name if word.lower() in ("cluster", "clusters") else ""


def pod_name_of(target: str) -> str:
    """The name of the pod that the argument names; empty for other kinds."""
    word, _, name = target.partition("/")
    return name if word.lower() in ("pod", "pods", "po") else ""


async def find_binding(client: Client, target: str, namespace: str) -> Binding:
    """The binding of a workload, or the binding itself."""
    word, slash, name = target.partition("/")
    if not word or not slash or not name or "/" in name:
        raise InputError(f"{target!r}: expected KIND/NAME, such as deploy/web")
    resource = find_resource(word, await client.resources())
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
        place = namespace if resource.namespaced else ""
        raise InputError(await reason_without_binding(client, resource, place, name)) from missing
    return cast("Binding", kind.decode(raw))


async def reason_without_binding(client: Client, resource: Resource, namespace: str, name: str) -> str:
    """Why a workload has no binding: the object does not exist, or no policy selects it."""
    place = f" in namespace {namespace}" if namespace else ""
    try:
        await client.get(resource, namespace, name)
    except NotFound:
        names = [raw["metadata"]["name"] for raw in (await client.list(resource, namespace)).items]
        near = difflib.get_close_matches(name, names, 3)
        elsewhere = await other_namespaces_with(client, resource, name) if namespace else []
        hint = f"; there is one in {', '.join(elsewhere)} (-n {elsewhere[0]})" if elsewhere else ""
        hint = hint or (f"; did you mean {', '.join(near)}?" if near else "")
        return f"there is no {resource.kind} {name}{place}{hint}"
    except ApiError as fault:
        return f"{resource.kind} {name}{place} is not propagated, and it cannot be read: {fault}"
    if resource.kind.endswith("ResourceBinding"):
        return f"{resource.kind} {name}{place} is being written; try again"
    return (
        f"{resource.kind} {name}{place} exists, but no policy selects it; "
        f"see kubectl get propagationpolicies{f' -n {namespace}' if namespace else ''} and clusterpropagationpolicies"
    )


async def other_namespaces_with(client: Client, resource: Resource, name: str) -> list[str]:
    """Where else there is an object of this name, as far as the user may see."""
    try:
        found = (await client.list(resource, "")).items
    except ApiError:
        return []
    return sorted(raw["metadata"]["namespace"] for raw in found if raw["metadata"]["name"] == name)[:MAX_NAMESPACES]


def time_lines(explanation: Explanation) -> Iterator[str]:
    """When a remembered decision was made."""
    if explanation.decided_at is not None:
        yield f"Decided on {explanation.decided_at:%Y-%m-%d at %H:%M:%S} UTC."


def record_lines(binding: Binding) -> Iterator[str]:
    """The record of the last decision in the binding, for when the control plane no longer has the decision."""
    record = binding.status.decision
    if record is None:
        yield f"The last decision is not available. {MADE_NOW}"
        return
    when = f" on {record.time:%Y-%m-%d at %H:%M:%S} UTC" if record.time is not None else ""
    feasible = f"{record.feasible_clusters} of {record.total_clusters} clusters were feasible"
    yield f"Decided{when} ({record.mode}): {record.division_strategy}; {feasible}."
    for group in record.rejected:
        more = f" and {group.count - len(group.clusters)} more" if group.count > len(group.clusters) else ""
        yield f"Rejected {', '.join(group.clusters)}{more}: {group.message} ({group.filter})."
    yield MADE_NOW


async def fetch_last_decision(client: Client, binding: Binding) -> Explanation | None:
    """The last decision, if the API server serves it."""
    place = f"{binding.namespace}/{binding.name}" if binding.namespace else binding.name
    try:
        answer = await client.fetch(f"/debug/bindings/{place}")
    except ApiError:
        return None
    return msgspec.json.decode(answer.body, type=Explanation) if answer.code == 200 else None


async def decide_now(client: Client, binding: Binding, profile: str | None) -> Explanation:
    """Decide with the objects in the API, as the scheduler would."""
    # Imported here: a remembered decision, the most frequent answer, needs none of it.
    from trimtab.cli.support.server_state import options_of_server  # noqa: PLC0415
    from trimtab.decide.explain import explain  # noqa: PLC0415
    from trimtab.dryrun.current_decision import KINDS, decide_now, needs_other_bindings  # noqa: PLC0415
    from trimtab.dryrun.static_view import StaticView  # noqa: PLC0415

    options = await options_of_server(client)
    found: list[Object] = [binding]
    for type_ in KINDS:
        found += await list_typed(client, type_, if_served=True)

    def view() -> StaticView:
        chosen = options.profile_or(profile)
        return StaticView([], now=WallClock().now(), profile=chosen, more=found, settings=options.settings)

    if needs_other_bindings(binding, view()):
        found += await list_typed(client, ResourceBinding)
    return explain(decide_now(binding, view()))


def report_lines(
    binding: Binding,
    explanation: Explanation,
    remark: Sequence[str],
    today: Mapping[str, Cluster] | None = None,
    *,
    wide: bool = False,
) -> Iterator[str]:
    workload = binding.spec.resource
    place = f"{workload.namespace}/{workload.name}" if workload.namespace else workload.name
    counted = f" ({plural(binding.spec.replicas, 'replica')})" if binding.spec.replicas else ""
    yield f"{workload.kind} {place}{counted} {placement_text(binding)}."
    yield from remark
    if not explanation.ok:
        yield f"Not placed: {explanation.message}"
    yield f"Rule: {explanation.rule} ({explanation.mode})." if explanation.rule else f"Mode: {explanation.mode}."
    for group in explanation.groups:
        yield f"Affinity group {group.name}: {(group.message or 'selected').rstrip('.')}."
    yield from problem_lines(binding)
    yield ""
    clusters = sorted(explanation.clusters, key=sort_key)
    if wide:
        yield format_table((*HEADINGS, "SCORES"), [(*cluster_row(story), scores_text(story)) for story in clusters])
    else:
        yield format_table(HEADINGS, [cluster_row(story) for story in clusters])
    hints = [*change_lines(binding, explanation, today)]
    if hints:
        yield ""
        yield from hints
    if explanation.tie_break:
        yield f"\nTies: {explanation.tie_break}."
    if explanation.valid_until is not None:
        yield f"Valid until {explanation.valid_until:%Y-%m-%d %H:%M:%S} UTC, unless the input changes."


def placement_text(binding: Binding) -> str:
    targets = sorted(binding.spec.clusters, key=lambda target: target.name)
    if not targets:
        return "is not placed"
    return "is placed in " + ", ".join(f"{t.name} ({t.replicas})" if t.replicas else t.name for t in targets)


def problem_lines(binding: Binding) -> Iterator[str]:
    """Holds, evictions and conditions that delay the placement."""
    for hold in binding.status.holds:
        yield f"Held in {hold.cluster}: {hold.reason or 'the replacement is not ready yet'}."
    for task in binding.spec.graceful_eviction_tasks:
        yield f"Being evicted from {task.from_cluster}: {task.reason}."
    yield from kept_copy_lines(binding)
    for condition in binding.status.conditions:
        if condition.type in SHOWN_CONDITIONS and condition.status == "True":
            yield f"{condition.type}: {condition.message}"


def sort_key(story: ClusterExplanation) -> tuple[Any, ...]:
    """Selected clusters first, then feasible ones, then rejected ones."""
    return (story.refused is not None, not story.replicas, not story.selected, story.name)


def cluster_row(story: ClusterExplanation) -> Sequence[str]:
    scores = story.total if story.prioritizers else sum(story.scores.values())
    return (
        story.name,
        "-" if story.replicas is None else str(story.replicas),
        str(story.before) if story.before else "-",
        "-" if story.fits is None else str(story.fits),
        "-" if story.refused is not None else str(scores),
        reason_text(story),
    )


def scores_text(story: ClusterExplanation) -> str:
    return " ".join(f"{name}={value}" for name, value in (story.prioritizers or story.scores).items()) or "-"


def reason_text(story: ClusterExplanation) -> str:
    if story.refused is not None:
        return f"{story.refused.plugin}: {story.refused.message}"
    overflow = f", overflow affinity {story.overflow}" if story.overflow else ""
    if story.limited is not None:
        return f"keeps its replicas and gets no more: {story.limited.plugin}: {story.limited.message}"
    if story.replicas is not None:
        return f"selected{overflow}"
    return (
        f"feasible, but got no replicas{overflow}"
        if story.selected
        else "feasible, but not selected by the spread constraints"
    )

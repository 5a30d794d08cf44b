"""Search over everything that the pages show: clusters, workloads, policies, budgets, rebalances, moves, scores, stories."""

from collections.abc import Callable, Iterator
from itertools import islice

from trimtab.api.wording import plural
from trimtab.console.facts import Facts
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.workloads import matches_words
from trimtab.console.permissions import sees
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import cause_text, cluster_path, path_to, query_of, workload_path

MAX_RESULTS = 100
MAX_MOVES = 2000
"""The latest moves that are searched."""


class Result(Facts):
    """One object that matches."""

    kind: str
    name: str
    path: str
    note: str = ""
    state: str = ""


def results_of(context: PageContext, words: list[str]) -> Iterator[Result]:
    model, visibility = context.model, context.visibility

    def fits(text: str) -> bool:
        return all(word in text.lower() for word in words)

    if visibility.clusters:
        for cluster in sorted(model.clusters.values(), key=lambda one: one.name):
            labels = " ".join(f"{name}={value}" for name, value in cluster.labels.items())
            if fits(f"{cluster.name} {cluster.region} {cluster.provider} {labels}"):
                note = " · ".join(part for part in (cluster.region, cluster.provider) if part)
                yield Result(
                    kind="Cluster", name=cluster.name, path=cluster_path(cluster.name), note=note, state=cluster.state
                )
    for key in model.workload_keys:
        workload = model.workloads[key]
        if sees(visibility.workloads, workload.namespace) and matches_words(workload, words):
            yield Result(
                kind=workload.kind,
                name=workload.title,
                path=workload_path(key),
                note=workload.why or workload.how,
                state=workload.state,
            )
    for budget in sorted(model.budgets.values(), key=lambda one: one.key):
        if sees(visibility.budgets, budget.namespace) and fits(f"{budget.key} {budget.selector}"):
            yield Result(
                kind="DisruptionBudget",
                name=budget.key,
                path=f"{path_to('budgets')}#b-{budget.key}",
                note=budget.selector,
            )
    if visibility.rebalances:
        for job in sorted(model.rebalances.values(), key=lambda one: one.name):
            if fits(job.name):
                yield Result(kind="WorkloadRebalancer", name=job.name, path=path_to("rebalance", job.name))
    for key, placement in sorted(model.placements.items()):
        if sees(visibility.placements, placement.namespace) and fits(key):
            yield Result(kind="Placement", name=key, path=path_to("placements", placement.namespace, placement.name))
    for policy in sorted(
        {one.policy for one in model.workloads.values() if one.policy and sees(visibility.workloads, one.namespace)}
    ):
        if fits(policy):
            yield Result(
                kind="PropagationPolicy", name=policy, path=path_to("workloads") + query_of([("policy", policy)])
            )

    yield from other_results(context, fits)


def other_results(context: PageContext, fits: Callable[[str], bool]) -> Iterator[Result]:
    """Namespaces, regions, scores, stories and the latest moves."""
    model, visibility = context.model, context.visibility
    for name in sorted(model.namespaces()):
        if name and sees(visibility.workloads, name) and fits(name):
            yield Result(kind="Namespace", name=name, path=path_to("workloads") + query_of([("ns", name)]))
    for region in sorted({one.region for one in model.clusters.values() if one.region} if visibility.clusters else ()):
        if fits(region):
            yield Result(kind="Region", name=region, path=path_to() + query_of([("region", region)]))
    for key, score in sorted(model.scores.items()):
        names = " ".join(one.name for one in score.status.scores) if score.status is not None else ""
        if sees(visibility.scores, score.namespace) and fits(f"{key} {names}"):
            yield Result(kind="AddOnPlacementScore", name=key, path=f"{path_to('placements')}#scores", note=names)
    if model.policy is not None and visibility.policy and fits("disruptionpolicy default storm brake"):
        yield Result(kind="DisruptionPolicy", name="default", path=f"{path_to('budgets')}#storm", note="storm brake")
    for story in context.services.stories.stories() if context.services.stories is not None else ():
        if fits(f"{story.name} {story.title}"):
            yield Result(kind="Story", name=story.name, path=path_to("stories", story.name), note=story.title)
    for move in islice(model.latest_moves(visibility.moves), MAX_MOVES):
        targets = " ".join(name for name, _ in move.targets)
        if fits(f"{move.title} {move.source} {targets} {move.cause} {move.by}"):
            note = f"{cause_text(move.cause)}, {plural(move.replicas, 'replica')} from {move.source} to {targets or 'nowhere'}"
            path = f"{workload_path(move.key)}#m-{move.id}"
            yield Result(kind="Move", name=move.title, path=path, note=note)


@page("search", "search.html", "search", live={"pulse": PULSE_TOPICS})
def search(context: PageContext) -> View:
    text = context.query.get("q", "")
    words = text.lower().split()
    results: list[Result] = []
    if words:
        for result in results_of(context, words):
            results.append(result)
            if len(results) > MAX_RESULTS:
                break
    return {"q": text, "results": results[:MAX_RESULTS], "is_cut": len(results) > MAX_RESULTS}

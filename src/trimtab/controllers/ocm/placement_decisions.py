"""The PlacementDecisions of a Placement as they should be, and what is told when they change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from trimtab.api.duration import duration
from trimtab.api.kind import kind_of
from trimtab.api.kinds.ocm import (
    ClusterDecision,
    GroupStrategy,
    OcmPlacement,
    PlacementDecision,
    PlacementDecisionStatus,
)
from trimtab.api.value import Meta, OwnerReference
from trimtab.controllers.contract import Gone, Note, Ref, View, Wish
from trimtab.decide.ocm.decision import MISCONFIGURED, WARNING, Answer
from trimtab.decide.ocm.groups import Page
from trimtab.decide.ocm.snapshot import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, Held, Scene
from trimtab.decide.ocm.status import totals_in_words

SOURCE = "placement-controller"
ALL_IN_ONE = GroupStrategy().clusters_per_decision_group

Scores: TypeAlias = Mapping[str, int] | None
"""The totals to write beside the clusters; None where decisions are in the order of names."""


def scores_of(answer: Answer, scene: Scene) -> dict[str, int]:
    found = answer.found
    totals = [] if found.totals is None else found.totals.tolist()
    return dict(zip(scene.fleet.called(found.feasible), totals, strict=False))


def stands(placement: OcmPlacement, answer: Answer, scene: Scene) -> bool:
    """Whether the decisions are as they should be: asked in columns, where no groups have to be made to see it."""
    strategy = placement.spec.decision_strategy.group_strategy
    if answer.status.code == MISCONFIGURED or strategy.decision_groups:
        return False
    if strategy.clusters_per_decision_group != ALL_IN_ONE:
        return False
    held = scene.held_by(placement.namespace, placement.name).in_line(placement.name, scene.fleet)
    return held is not None and np.array_equal(held, answer.order)


def seconds_to_rest(placement: OcmPlacement, wanted: Sequence[Page], scores: Scores, scene: Scene) -> float:
    """How long an answer that differs only in its order has to wait: scores may change every second."""
    last = placement.status.last_score_update_time
    if scores is None or last is None:
        return 0.0
    holding = scene.held_by(placement.namespace, placement.name)
    if {cluster for page in wanted for cluster in page.clusters} != set(holding.decided):
        return 0.0
    return max(0.0, (last + duration(placement.spec.score_rate_limit) - scene.now).total_seconds())


def decision_wishes(
    placement: OcmPlacement, answer: Answer, wanted: list[Page], scores: Scores, scene: Scene, view: View
) -> Iterator[Wish]:
    held = scene.held_by(placement.namespace, placement.name).pages
    totals = ""
    for page in gains_first(wanted, held) if view.profile.decisions_gain_before_they_lose else wanted:
        before = held.get(page.name)
        if before is None:
            yield new_decision(placement, page, scores)
            yield told(placement, "DecisionCreate", f"Decision {page.name} is created")
        if differs(page, before, scores):
            if before is not None:
                yield before.decision.but(status=status_of(page, scores))
            totals = totals or totals_in_words(answer, scene.fleet)
            yield from update_notes(placement, page, answer, totals)
        elif before is not None and before.decision.metadata.labels != labels_of(placement, page):
            metadata = before.decision.metadata.but(labels=labels_of(placement, page))
            yield before.decision.but(metadata=metadata)
    yield from removals(placement, held.values(), {page.name for page in wanted})


def gains_first(wanted: list[Page], held: Mapping[str, Held]) -> Iterator[Page]:
    """The pages in an order in which a cluster that moves to another page is never missing in between."""
    before = {page.name: held[page.name].clusters if page.name in held else [] for page in wanted}
    changed = [page for page in wanted if page.clusters != before[page.name]]
    if len(changed) < 2:
        yield from wanted
        return
    new_home = {cluster: page for page in changed for cluster in set(page.clusters) - set(before[page.name])}
    done: set[str] = set()

    for first in wanted:
        trail = [] if first.name in done else [first]
        done.add(first.name)
        while trail:
            lost = set(before[trail[-1].name]) - set(trail[-1].clusters)
            takers = (new_home[cluster] for cluster in sorted(lost) if cluster in new_home)
            taker = next((page for page in takers if page.name not in done), None)
            if taker is None:
                yield trail.pop()
            else:
                done.add(taker.name)
                trail.append(taker)


def removals(placement: OcmPlacement, held: Iterable[Held], wanted: set[str]) -> Iterator[Wish]:
    for one in held:
        if one.decision.name not in wanted:
            yield Gone(one.decision)
            yield told(placement, "DecisionDelete", f"Decision {one.decision.name} is deleted")


def labels_of(placement: OcmPlacement, page: Page) -> dict[str, str]:
    return {PLACEMENT_LABEL: placement.name, GROUP_NAME_LABEL: page.group, GROUP_INDEX_LABEL: str(page.group_index)}


def differs(page: Page, before: Held | None, scores: Scores) -> bool:
    if scores is None or before is None:
        return page.clusters != (before.clusters if before else [])
    return status_of(page, scores) != (before.decision.status or PlacementDecisionStatus())


def status_of(page: Page, scores: Scores) -> PlacementDecisionStatus:
    known = scores or {}
    return PlacementDecisionStatus(
        decisions=tuple([ClusterDecision(cluster_name=name, score=known.get(name)) for name in page.clusters])
    )


def new_decision(placement: OcmPlacement, page: Page, scores: Scores) -> PlacementDecision:
    owner = OwnerReference(
        api_version=kind_of(placement).api_version,
        kind="Placement",
        name=placement.name,
        uid=placement.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    metadata = Meta(
        name=page.name,
        namespace=placement.namespace,
        labels=labels_of(placement, page),
        owner_references=(owner,),
    )
    return PlacementDecision(metadata=metadata, status=status_of(page, scores) if page.clusters else None)


def told(placement: OcmPlacement, reason: str, what: str, type_: str = "Normal", why: str = "") -> Note:
    about = Ref(
        kind_of(placement).api_version, "Placement", placement.namespace, placement.name, placement.metadata.uid
    )
    message = f"{what} with placement {placement.name} in namespace {placement.namespace}{why}"
    return Note(about, reason, message, SOURCE, type_)


def update_notes(placement: OcmPlacement, page: Page, answer: Answer, totals: str) -> Iterator[Note]:
    what = f"Decision {page.name} is updated"
    if answer.status.code == WARNING:
        why = f": {answer.status.message} in plugin {answer.status.plugin}"
        yield told(placement, "DecisionUpdate", what, "Warning", why)
    else:
        yield told(placement, "DecisionUpdate", what)
    if totals:
        yield told(placement, "ScoreUpdate", "")._replace(message=totals)

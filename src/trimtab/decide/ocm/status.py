"""The conditions, status and event texts of a Placement decision."""

from collections.abc import Iterator, Sequence

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import DecisionGroupStatus, PlacementSpec
from trimtab.api.value import Condition
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.decision import ERROR, MISCONFIGURED, OcmDecision, OcmDecisionGroup
from trimtab.decide.ocm.groups import DecisionPage
from trimtab.decide.ocm.snapshot import PAGE_SIZE, page_name

SATISFIED, MISCONFIGURATION = "PlacementSatisfied", "PlacementMisconfigured"
WELL_CONFIGURED = Condition(
    type=MISCONFIGURATION,
    status="False",
    reason="Succeedconfigured",
    message="Placement configurations check pass",
)
_MAX_EVENT_LENGTH = 1000


def satisfied_condition(answer: OcmDecision, spec: PlacementSpec) -> Condition:
    """Whether the Placement has the clusters it requests, and if not, the first cause."""
    ok, reason, message = _satisfaction(answer, spec)
    return Condition(type=SATISFIED, status="True" if ok else "False", reason=reason, message=message)


def _satisfaction(answer: OcmDecision, spec: PlacementSpec) -> tuple[bool, str, str]:
    if not answer.bound_sets:
        text = "No valid ManagedClusterSetBindings found in placement namespace"
        return False, "NoManagedClusterSetBindings", text
    if not answer.eligible_sets:
        asked = ",".join(spec.cluster_sets)
        return False, "NoIntersection", f"None of ManagedClusterSets [{asked}] is bound to placement namespace"
    if not answer.available_clusters:
        sets = ",".join(answer.eligible_sets)
        return False, "AllManagedClusterSetsEmpty", f"All ManagedClusterSets [{sets}] have no member ManagedCluster"
    if answer.status.code == ERROR:
        return False, "NotAllDecisionsScheduled", answer.status.message
    if not answer.chosen_count:
        return False, "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate"
    if answer.result.unscheduled == 0:
        return True, "AllDecisionsScheduled", "All cluster decisions scheduled"
    return False, "NotAllDecisionsScheduled", f"{answer.result.unscheduled} cluster decisions unscheduled"


def misconfigured_condition(answer: OcmDecision) -> Condition:
    """Whether the Placement is valid."""
    text = ""
    if answer.group_error:
        text = f":{answer.group_error}"
    elif answer.status.code == MISCONFIGURED:
        text = f"{answer.status.plugin}:{answer.status.message}"
    if text:
        return Condition(type=MISCONFIGURATION, status="True", reason="Misconfigured", message=text)
    return WELL_CONFIGURED


def group_statuses(groups: Sequence[OcmDecisionGroup], pages: Sequence[DecisionPage]) -> Iterator[DecisionGroupStatus]:
    """Which objects hold each group."""
    names: dict[int, list[str]] = {}
    for page in pages:
        names.setdefault(page.group_index, []).append(page.name)
    for index, group in enumerate(groups):
        yield DecisionGroupStatus(
            decision_group_index=index,
            decision_group_name=group.name,
            decisions=tuple(names[index]),
            clusters_count=len(group.clusters),
        )


def one_group_status(placement: str, clusters: int) -> DecisionGroupStatus:
    """The same where all clusters are in one group."""
    numbers = range(1, max(1, -(-clusters // PAGE_SIZE)) + 1)
    return DecisionGroupStatus(
        decisions=tuple([page_name(placement, number) for number in numbers]), clusters_count=clusters
    )


def format_totals(answer: OcmDecision, fleet: Fleet[ManagedCluster]) -> str:
    """Every feasible cluster with its total, cut to the length of an event; empty when there are none."""
    found, text = answer.result, ""
    totals = found.totals
    if totals is None:
        return text
    columns = found.feasible[:_MAX_EVENT_LENGTH]
    for name, total in zip(fleet.names_at(columns), totals[: len(columns)].tolist(), strict=True):
        more = f"{name}:{total} "
        if len(text) + len(more) > _MAX_EVENT_LENGTH:
            return text + "......"
        text += more
    return text

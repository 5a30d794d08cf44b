"""Pages that explain decisions: the last one about a binding, and each step of the one about a Placement."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
import orjson

from trimtab.api.kind import kind_of
from trimtab.api.kinds.ocm_clusters import CLUSTER_GROUP
from trimtab.api.kinds.ocm_placement import OcmPlacement
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.profile import Profile
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.propagation.scheduling.schedule import DECISION
from trimtab.controllers.settings import SETTINGS
from trimtab.controllers.well_known import ref_of
from trimtab.decide.explain import explain
from trimtab.decide.explanation import Explanation
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.explain import ClusterOutcome, cluster_outcomes, debug_document
from trimtab.decide.ocm.pipeline import UnlistableClusterSet
from trimtab.decide.ocm.request import OcmRequest, ocm_request_of
from trimtab.decide.ocm.snapshot import PlacementSnapshot
from trimtab.errors import NotFound
from trimtab.runtime.view import ControlPlaneState
from trimtab.server import api_errors
from trimtab.server.auth.authorize import Action
from trimtab.server.request.messages import Request, Response
from trimtab.store.keys import object_key
from trimtab.store.store import Store

DEBUG_VERBS = {"GET": "get", "POST": "create"}
MAX_PLACEMENT_BYTES = 1 << 20


def debug_action(request: Request) -> Action | None:
    """The permission that a debug page of a Placement needs: get for the stored one, create for another."""
    page, *names = request.path.strip("/").split("/")[1:] or [""]
    if page != "placements" or len(names) != 2 or request.method not in DEBUG_VERBS:
        return None
    return Action(DEBUG_VERBS[request.method], CLUSTER_GROUP, "placements", namespace=names[0], name=names[1])


def debug_error(code: int, text: str) -> Response:
    """An error in the format of Open Cluster Management's debug server."""
    return Response(code, orjson.dumps({"error": text}))


class DebugPages:
    """Serves `/debug`: explanations of decisions of the control plane that runs now, if one runs."""

    def __init__(
        self,
        store: Store,
        profile: Profile,
        current_state: Callable[[], ControlPlaneState | None],
        settings: Mapping[str, Any] = {},
    ) -> None:
        self._store = store
        self._profile = profile
        self._settings = settings
        self._current_state = current_state

    def handle(self, request: Request) -> Response:
        """`/debug/bindings/NAMESPACE/NAME` and `/debug/placements/NAMESPACE/NAME`: explains the last decision.

        `/debug/profile` is the name of the profile, and the settings that were given.
        """
        page, *names = request.path.strip("/").split("/")[1:] or [""]
        if page == "profile" and not names and request.method == "GET":
            given = {name: value for name, value in self._settings.items() if name in SETTINGS}
            return Response(200, orjson.dumps({"profile": self._profile.name, "settings": given}))
        if page == "placements":
            return self._explain_placement(request, names)
        if request.method != "GET":
            raise api_errors.no_such_method()
        resource = "clusterresourcebindings" if len(names) == 1 else "resourcebindings"
        stored = self._store.get(object_key("work.karmada.io", resource, *names))
        if page != "bindings" or stored is None or self._current_state() is None:
            raise NotFound("there is no such binding")
        raw = orjson.loads(stored.value)
        type_ = kind_of(ClusterResourceBinding if len(names) == 1 else ResourceBinding)
        explanation = self.last_decision(cast("Binding", type_.decode(raw)))
        if explanation is None:
            raise NotFound("no decision about this binding is in memory")
        return Response(200, msgspec.json.encode(explanation))

    def last_decision(self, binding: Binding) -> Explanation | None:
        """Explains the last decision about a binding; None when this process has made none, or when it is outdated.

        A decision that found no placement is outdated once the binding is settled: what asked for it was taken back.
        """
        state = self._current_state()
        decision = state.memory.recall(DECISION, ref_of(binding)) if state is not None else None
        explanation = None if decision is None else explain(decision)
        return None if explanation is None or (not explanation.ok and _is_settled(binding)) else explanation

    def placement_outcomes(self, placement: OcmPlacement) -> list[ClusterOutcome]:
        """What the decision about a Placement says about each cluster; empty when it cannot be made."""
        state = self._current_state()
        if state is None:
            return []
        try:
            return cluster_outcomes(*_ocm_request(placement, state))
        except (UnlistableClusterSet, Misconfigured):
            return []

    def _explain_placement(self, request: Request, names: list[str]) -> Response:
        """`/debug/placements/NAMESPACE/NAME`: each step of the decision, as Open Cluster Management shows it.

        GET explains the stored Placement, POST the one in the body, which is not stored.
        """
        if request.method not in DEBUG_VERBS:
            return debug_error(405, f"method {request.method} is not allowed")
        state = self._current_state()
        if len(names) != 2 or state is None:
            return debug_error(400, "the path must be /debug/placements/NAMESPACE/NAME")
        namespace, name = names
        stored = self._store.get(object_key(CLUSTER_GROUP, "placements", namespace, name))
        if request.method == "GET" and stored is None:
            return debug_error(404, f"placement '{name}' not found")
        body = stored.value if request.method == "GET" and stored is not None else request.body
        if len(body) > MAX_PLACEMENT_BYTES:
            return debug_error(400, "the body is larger than 1 MiB")
        try:
            placement = cast("OcmPlacement", kind_of(OcmPlacement).decode(orjson.loads(body)))
        except (ValueError, msgspec.MsgspecError) as fault:
            return debug_error(400, f"the body is not a Placement: {fault}")
        placement = placement.but(metadata=placement.metadata.but(namespace=namespace, name=name))
        ocm_request, snapshot = _ocm_request(placement, state)
        return Response(200, msgspec.json.encode(debug_document(placement, ocm_request, snapshot)))


def _is_settled(binding: Binding) -> bool:
    """Whether the binding is placed, and no decision about it is refused or waits."""
    conditions = binding.status.conditions
    scheduled, stalled = find_condition(conditions, "Scheduled"), find_condition(conditions, "Stalled")
    is_placed = scheduled is not None and scheduled.status == "True"
    return is_placed and (stalled is None or stalled.status != "True")


def _ocm_request(placement: OcmPlacement, state: ControlPlaneState) -> tuple[OcmRequest, PlacementSnapshot]:
    snapshot = state.sources.placement_snapshots.snapshot(state.clock.now())
    uses_spread_policy = state.profile.placements_obey_spread_policy
    request = ocm_request_of(placement, snapshot, state.sources.cel, uses_spread_policy=uses_spread_policy)
    return request, snapshot

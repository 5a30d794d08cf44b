"""One lean member cluster: a real API server and Node objects, and numbers instead of pods."""

import contextlib
from collections.abc import Mapping, Sequence

from trimtab.api.kinds.cluster import ResourceModel
from trimtab.controllers.clusters.capacity import node_summary, summary_of_use
from trimtab.controllers.clusters.free_nodes import free_nodes_of_use
from trimtab.errors import AlreadyExists
from trimtab.members.probe import CapacitySummary
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.kubelets.node_status import FIELD_MANAGER, NODES
from trimtab.simulate.lean.nodes import LeanNodes
from trimtab.simulate.lean.workloads import LeanWorkloads
from trimtab.simulate.member_api import MemberApi
from trimtab.simulate.member_server import MemberEnvironment, is_served_by_member, seeded_uids
from trimtab.store.index import Retention
from trimtab.store.store import Store

RETENTION = Retention(revisions=500, seconds=60.0, superseded_bytes=32 * 1024, cached_events=4, plain_bytes=32 * 1024)


class LeanMember(MemberApi):
    """A member for simulations of many clusters; it serves the same API, without pods."""

    def __init__(self, plan: MemberPlan, fleet: FleetPlan, environment: MemberEnvironment) -> None:
        self.plan = plan
        self._clock = environment.clock
        settings = ApiServerSettings(
            clock=environment.clock,
            new_uid=seeded_uids(environment.rng),
            token_key=environment.rng.randbytes(32),
            serves=is_served_by_member,
            check_all_budgets=environment.profile.all_budgets_must_allow,
            shared_flow_control=environment.flow_control,
            start_image=environment.start_image,
        )
        super().__init__(plan.name, ApiServer(Store(RETENTION), settings))
        self._nodes = LeanNodes(list(plan.node_plans()), environment.clock.now())
        pace = fleet.pace_of(plan)
        self.workloads = LeanWorkloads(
            self.server, self._internal, self._nodes, pace, clock=environment.clock, rng=environment.rng
        )
        self._capacity: tuple[object, CapacitySummary] | None = None

    async def start(self) -> None:
        await self.server.start()
        for node in self._nodes.objects:
            with contextlib.suppress(AlreadyExists):
                await self._internal.create(NODES, node, manager=FIELD_MANAGER)
        await self.workloads.start()

    async def stop(self) -> None:
        await self.workloads.stop()
        await self.server.stop()

    @property
    def is_idle(self) -> bool:
        return self.workloads.is_idle

    async def occupy_nodes(self, amounts: Mapping[str, int]) -> None:
        """Take these amounts on every node: what other workloads use."""
        self._nodes.occupy(dict(amounts))
        self._capacity = None

    def capacity(self, models: Sequence[ResourceModel]) -> CapacitySummary:
        """What a probe would count from nodes and pods."""
        state = (self.workloads.change_count, tuple(models))
        if self._capacity is None or self._capacity[0] != state:
            nodes, used, pending = self._nodes.typed, self._nodes.used_amounts(), self.workloads.pending()
            summary = CapacitySummary(
                node_summary(nodes),
                summary_of_use(nodes, used, pending, models),
                free_nodes_of_use(nodes, used, {}),
                self.workloads.unschedulable(),
            )
            self._capacity = (state, summary)
        return self._capacity[1]

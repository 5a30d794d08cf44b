"""Plans of the pages: the planner on a copy of what is cached, in a thread, so that pages stay responsive."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from trimtab.api.kinds.policy import ClusterPropagationPolicy, PropagationPolicy
from trimtab.api.profile import Profile
from trimtab.api.value import Object, Raw
from trimtab.dryrun.change import Change
from trimtab.dryrun.fleet_state import KINDS, FleetState
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_result import Plan
from trimtab.runtime.cache import Cache
from trimtab.runtime.propagatable import is_propagatable

MAX_PLANS = 64
"""Plans that are kept, to say what differs when one is made again."""


class Planner:
    """Makes plans on the objects of one cache."""

    def __init__(self, cache: Cache, profile: Profile, settings: Mapping[str, Any]) -> None:
        self._cache = cache
        self._profile = profile
        self._settings = settings
        self._plans: dict[str, Plan] = {}
        for kind in KINDS:
            cache.table_of(kind)

    async def plan(self, change: Change, now: datetime) -> Plan:
        entries = [entry for kind in KINDS for entry in self._cache.table_of(kind).entries.values()]
        templates = [
            {"apiVersion": table.resource.api_version, "kind": table.resource.kind, **entry.raw}
            for table in self._cache.tables()
            if is_propagatable(table.resource)
            for entry in list(table.entries.values())
        ]

        def compute() -> Plan:
            objects: list[Object] = [entry.typed for entry in entries]
            return make_plan(FleetState.of(objects, templates, now, self._profile, self._settings), change)

        plan = await asyncio.to_thread(compute)
        while len(self._plans) >= MAX_PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[plan.hash] = plan
        return plan

    def policy(self, namespace: str, name: str) -> Raw | None:
        """A propagation policy as it is stored; without a namespace a cluster-wide one."""
        table = self._cache.table_of(PropagationPolicy if namespace else ClusterPropagationPolicy)
        entry = table.entries.get((namespace, name))
        kind = {"apiVersion": table.resource.api_version, "kind": table.resource.kind}
        return None if entry is None else {**kind, **entry.raw}

    def known_plan(self, digest: str) -> Plan | None:
        return self._plans.get(digest)

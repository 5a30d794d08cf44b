"""Plans of the pages: the planner on a copy of what is cached, in a thread, so that pages stay responsive."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from trimtab.api.kinds.policy import ClusterPropagationPolicy, PropagationPolicy
from trimtab.api.profile import Profile
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.dryrun.cached_state import state_in_cache
from trimtab.dryrun.change import Change
from trimtab.dryrun.fleet_state import KINDS
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_result import Plan
from trimtab.dryrun.plan_thread import PlanThread
from trimtab.runtime.cache import Cache

MAX_PLANS = 64
"""Plans that are kept, to say what differs when one is made again."""


class Planner:
    """Makes plans on the objects of one cache."""

    def __init__(self, cache: Cache, profile: Profile, settings: Mapping[str, Any]) -> None:
        self._cache = cache
        self._profile = profile
        self._settings = settings
        self._plans: dict[str, Plan] = {}
        self._thread = PlanThread()
        for kind in KINDS:
            cache.table_of(kind)

    async def plan(self, change: Change, now: datetime, user: str) -> Plan:
        state = state_in_cache(self._cache, now, self._profile, self._settings)
        plan = await self._thread.run(user, lambda: make_plan(state(), change))
        while len(self._plans) >= MAX_PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[plan.hash] = plan
        return plan

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind, if its objects are known here."""
        found = (table.resource for table in self._cache.tables())
        return next((one for one in found if (one.api_version, one.kind) == (api_version, kind)), None)

    def policy(self, namespace: str, name: str) -> Raw | None:
        """A propagation policy as it is stored; without a namespace a cluster-wide one."""
        table = self._cache.table_of(PropagationPolicy if namespace else ClusterPropagationPolicy)
        entry = table.entries.get((namespace, name))
        kind = {"apiVersion": table.resource.api_version, "kind": table.resource.kind}
        return None if entry is None else {**kind, **entry.raw}

    def known_plan(self, digest: str) -> Plan | None:
        return self._plans.get(digest)

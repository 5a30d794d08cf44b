"""Budgets are charged exactly, with concurrent evictors and with server restarts at any time."""

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from properties.budget_oracle import BudgetOracle, BudgetRules, RateWindow
from properties.hypothesis_settings import example_settings
from server.asgi import AsgiClient, ReceivedResponse
from server.subresources.test_eviction import BUDGETS, CUSTOM, PDBS, PODS, POLICY, READY, evict, merge
from trimtab.api.value import Raw
from trimtab.decide.pods.budgets.pod_budgets import RATE_ANNOTATION
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.member_server import is_served_by_member
from trimtab.store.store import Store

POD_COUNT = 8
MERGE = "application/merge-patch+json"
JANITOR = "janitor"

pod_numbers = st.integers(0, POD_COUNT - 1)
pod_selections = st.lists(pod_numbers, min_size=1, max_size=1) | st.lists(pod_numbers, min_size=2, max_size=POD_COUNT)
scripts = st.lists(
    st.one_of(
        st.tuples(st.just("evict"), pod_selections),
        st.tuples(st.just("evict"), pod_selections),
        st.tuples(st.just("janitor"), pod_selections),
        st.tuples(st.just("together"), st.lists(pod_numbers, min_size=2, max_size=4)),
        st.tuples(st.just("try"), pod_selections),
        st.tuples(st.just("ill"), st.lists(pod_numbers, min_size=1, max_size=3)),
        st.tuples(st.just("delete"), st.lists(pod_numbers, min_size=1, max_size=3)),
        st.tuples(st.just("wait"), st.integers(1, 90)),
        st.tuples(st.just("until"), st.tuples(st.integers(0, 3), st.sampled_from([-0.001, 0.0]))),
        st.tuples(st.just("set back"), st.integers(1, 90)),
        st.tuples(st.just("count"), st.none()),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("replaced"), st.none()),
    ),
    min_size=10,
    max_size=30,
)
windows = st.builds(RateWindow, st.integers(1, 3), st.integers(5, 60))
selections = st.sampled_from(["all", "all", "even", "odd"])
pdb_rules = st.builds(
    BudgetRules,
    st.just(False),
    selections,
    min_healthy=st.integers(0, 5),
    window=st.none() | windows,
    max_concurrent=st.none(),
)
disruption_budget_rules = st.builds(
    BudgetRules,
    st.just(True),
    selections,
    min_healthy=st.none() | st.integers(0, 5),
    window=st.none() | windows,
    max_concurrent=st.none() | st.integers(1, 4),
)
budget_rules = st.lists(pdb_rules | disruption_budget_rules, min_size=1, max_size=4)


class AdjustableClock:
    """A clock that stands still until a test sets it, also backwards."""

    def __init__(self) -> None:
        self.current_time = datetime(2026, 8, 1, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.current_time


class EvictionCluster:
    """An API server on disk that may be restarted; the test acts as its disruption controller."""

    def __init__(self, directory: Path, rules: list[BudgetRules], quota: RateWindow) -> None:
        self._directory, self._rules, self._quota = directory, rules, quota
        self.clock = AdjustableClock()
        self.oracle = BudgetOracle(rules, quota)
        self._pods_created = 0

    async def start(self) -> None:
        options = ApiServerSettings(
            clock=self.clock, check_all_budgets=True, garbage_collection=False, serves=is_served_by_member
        )
        self._server = ApiServer(Store.open(self._directory), options)
        await self._server.start()
        self.wire = AsgiClient(self._server)

    async def stop(self) -> None:
        await self._server.stop()

    async def create_objects(self) -> None:
        for _ in range(POD_COUNT):
            await self.create_pod()
        for number, promise in enumerate(self._rules):
            await (self._create_disruption_budget if promise.is_disruption_budget else self._create_pdb)(
                f"b{number}", promise
            )
        quota = {"component": JANITOR, "rate": rate_spec(self._quota)}
        body = {"metadata": {"name": "default"}, "spec": {"componentQuotas": [quota]}}
        made = await self.wire(
            "POST", POLICY, {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", **body}
        )
        assert made.status == 201, made.body
        await self.sync_budgets()

    async def create_pod(self) -> None:
        number, self._pods_created = self._pods_created, self._pods_created + 1
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
        labels = {"app": "web", "side": "odd" if number % 2 else "even"}
        metadata = {"name": f"web-{number}", "labels": labels, "ownerReferences": [owner]}
        spec = {"nodeName": "a", "containers": [{"name": "c", "image": "c"}]}
        assert (await self.wire("POST", PODS, {"metadata": metadata, "spec": spec})).status == 201
        await merge(self.wire, f"{PODS}/web-{number}/status", {"status": READY})

    async def _create_pdb(self, name: str, rules: BudgetRules) -> None:
        window = rules.window
        noted = {RATE_ANNOTATION: f"{window.max_disruptions}/{window.seconds}s"} if window else {}
        spec = {"minAvailable": rules.min_healthy, "selector": selector_for(rules)}
        assert (
            await self.wire("POST", PDBS, {"metadata": {"name": name, "annotations": noted}, "spec": spec})
        ).status == 201

    async def _create_disruption_budget(self, name: str, rules: BudgetRules) -> None:
        spec: Raw = {"target": "Pods", "selector": selector_for(rules)}
        if rules.min_healthy is not None:
            spec["minAvailable"] = rules.min_healthy
        if rules.window is not None:
            spec["rate"] = rate_spec(rules.window)
        if rules.max_concurrent is not None:
            spec["maxConcurrent"] = rules.max_concurrent
        made = await self.wire("POST", BUDGETS, {**CUSTOM, "metadata": {"name": name}, "spec": spec})
        assert made.status == 201, made.body

    async def pods(self) -> list[Raw]:
        found: list[Raw] = (await self.wire("GET", PODS)).json()["items"]
        return sorted(found, key=number_of)

    async def ready(self) -> dict[int, bool]:
        """The pods that are not terminating, and whether they are ready."""
        return {number_of(one): is_ready(one) for one in await self.pods() if not is_terminating(one)}

    async def sync_budgets(self) -> None:
        """Write budget statuses as a disruption controller does."""
        ready = await self.ready()
        self.oracle.sync_status(ready)
        for number, account in enumerate(self.oracle.budgets):
            status: Raw = {
                "observedGeneration": 1,
                "disruptionsAllowed": account.disruptions_allowed,
                "currentHealthy": account.last_healthy,
            }
            status |= {"desiredHealthy": account.rules.min_healthy or 0, "disruptedPods": None}
            path = BUDGETS if account.rules.is_disruption_budget else PDBS
            more = {"inFlight": None} if account.rules.is_disruption_budget else {}
            await merge(self.wire, f"{path}/b{number}/status", {"status": {**status, **more}})

    # actions

    async def evict(self, picked: list[int], *, by: str = "", cut_short: bool = False) -> None:
        here = await self.pods()
        names = [here[one % len(here)]["metadata"]["name"] for one in picked]
        more = {"requested_by": by} if by else {}
        evictions = [
            asyncio.ensure_future(evict(self.wire, name, "evict" if odd else "eviction", **more))
            for name, odd in zip(names, (True, False) * POD_COUNT, strict=False)
        ]
        if not cut_short:
            responses = await asyncio.gather(*evictions)
            await self.record_evictions(here, quota=by == JANITOR)
            await self.check_refusals(
                dict(zip(names, responses, strict=True)), quota=by == JANITOR, alone=len(picked) == 1
            )
            return
        await asyncio.sleep(0)
        await self.stop()
        await asyncio.gather(*evictions, return_exceptions=True)
        await self.start()
        await self.record_evictions(here, quota=by == JANITOR)

    async def record_evictions(self, before: list[Raw], *, quota: bool) -> None:
        """Record the evicted pods in the order of their evictions."""
        ready = {number_of(one): is_ready(one) for one in before if not is_terminating(one)}
        gone = [one for one in await self.pods() if is_terminating(one) and number_of(one) in ready]
        for one in sorted(gone, key=lambda pod: int(pod["metadata"]["resourceVersion"])):
            self.oracle.record_eviction(number_of(one), ready, self.clock.now(), quota=quota)

    async def check_refusals(self, responses: dict[str, ReceivedResponse], *, quota: bool, alone: bool) -> None:
        """The oracle refuses every refused eviction, too, and agrees with the returned retry time."""
        ready = await self.ready()
        assert {response.status for response in responses.values()} <= {201, 429}
        for name, response in responses.items():
            if response.status == 429:
                no, wait = self.oracle.check_eviction(int(name[4:]), ready, self.clock.now(), quota=quota)
                assert no, f"{name} was refused: {response.body!r}"
                retry_after = response.json()["details"].get("retryAfterSeconds", 0)
                assert retry_after == wait if alone else retry_after <= wait

    async def evict_together(self, picked: list[int]) -> None:
        here = await self.pods()
        chosen = {number_of(one): one for one in (here[number % len(here)] for number in picked)}
        first, *others = chosen
        ready = await self.ready()
        staying = [number for number in chosen if number in ready]
        fits = self.oracle.allows_all(staying, ready, self.clock.now())
        response = await evict(
            self.wire, f"web-{first}", evict_together_with=",".join(f"default/web-{one}" for one in others)
        )
        assert response.status == (201 if fits else 429), response.body
        after = await self.ready()
        assert [number in after for number in staying] == [not fits] * len(staying)
        for number in staying if fits else ():
            self.oracle.record_eviction(number, ready, self.clock.now(), quota=False)

    async def dry_run_evictions(self, picked: list[int]) -> None:
        """A dry run returns the same result as an eviction and charges nothing."""
        here, before = await self.pods(), self._revisions()
        ready = await self.ready()
        for one in picked:
            name = here[one % len(here)]["metadata"]["name"]
            response = await evict(self.wire, name, query="?dryRun=All")
            stays = int(name[4:]) in ready
            no = stays and self.oracle.check_eviction(int(name[4:]), ready, self.clock.now(), quota=False)[0]
            assert response.status == (429 if no else 201), response.body
        assert self._revisions() == before

    def _revisions(self) -> list[tuple[str, int]]:
        """Everything that an eviction may write, with the revision of its last write."""
        prefixes = ("core/pods", "core/events", "policy", "trimtab.dev/disruption")
        return [
            (entry.key, entry.mod_revision)
            for prefix in prefixes
            for entry in self._server.store.list(f"/registry/{prefix}").entries
        ]

    async def replace_terminating(self) -> None:
        """Delete terminating pods and create as many ready ones."""
        for one in await self.pods():
            if is_terminating(one):
                await self.wire("DELETE", f"{PODS}/{one['metadata']['name']}?gracePeriodSeconds=0")
                await self.create_pod()

    async def make_unready(self, picked: list[int]) -> None:
        here = await self.pods()
        for one in picked:
            name = here[one % len(here)]["metadata"]["name"]
            unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
            await self.wire("PATCH", f"{PODS}/{name}/status", unready, content_type=MERGE)

    async def delete(self, picked: list[int]) -> None:
        """Delete pods directly, without budgets."""
        here = await self.pods()
        for one in picked:
            await self.wire("DELETE", f"{PODS}/{here[one % len(here)]['metadata']['name']}")

    def advance_until_allowed(self, account: int, offset: float) -> None:
        """Advance to the moment at which a rate allows one more disruption, or just before."""
        opens = [at for one in self.oracle.budgets if (at := one.next_allowed_at()) is not None]
        if opens:
            self.clock.current_time = max(
                self.clock.current_time, opens[account % len(opens)] + timedelta(seconds=offset)
            )

    async def run_script(self, script: list[Any]) -> None:
        for act, what in script:
            if act == "evict":
                await self.evict(what)
            elif act == "janitor":
                await self.evict(what, by=JANITOR)
            elif act == "together":
                await self.evict_together(what)
            elif act == "try":
                await self.dry_run_evictions(what)
            elif act == "restart" and what:
                await self.evict(list(range(POD_COUNT)), cut_short=True)
            elif act == "restart":
                await self.stop()
                await self.start()
            elif act == "delete":
                await self.delete(what)
            elif act == "ill":
                await self.make_unready(what)
            elif act == "count":
                await self.sync_budgets()
            elif act == "replaced":
                await self.replace_terminating()
            elif act == "until":
                self.advance_until_allowed(*what)
            else:
                self.clock.current_time += timedelta(seconds=-what if act == "set back" else what)


CLOCK_SET_BACK = [("evict", [0]), ("set back", 30), ("evict", [1]), ("until", (0, -0.001)), ("evict", [2])]


@example_settings(30, thorough=100)
@given(scripts, budget_rules, windows)
@example(CLOCK_SET_BACK, [BudgetRules(min_healthy=0, window=RateWindow(2, 60))], RateWindow(3, 60))
@example(CLOCK_SET_BACK, [BudgetRules(is_disruption_budget=True, window=RateWindow(2, 60))], RateWindow(3, 60))
def test_budgets_are_charged_exactly_by_concurrent_evictors_over_restarts(
    script: list[Any], promised: list[BudgetRules], quota: RateWindow
) -> None:
    """Several budgets of both kinds over parts of the pods, late status syncs, and server restarts in between."""

    async def life(directory: Path) -> EvictionCluster:
        cluster = EvictionCluster(directory, promised, quota)
        await cluster.start()
        try:
            await cluster.create_objects()
            await cluster.run_script(script)
        finally:
            await cluster.stop()
        return cluster

    with tempfile.TemporaryDirectory() as directory:
        cluster = asyncio.run(life(Path(directory)))
    for account in (*cluster.oracle.budgets, cluster.oracle.quota):
        if account.rules.window is not None:
            account.rules.window.assert_not_exceeded(account.granted_at)


def number_of(pod: Raw) -> int:
    return int(pod["metadata"]["name"][4:])


def is_ready(pod: Raw) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])


def is_terminating(pod: Raw) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def rate_spec(window: RateWindow) -> Raw:
    return {"disruptions": window.max_disruptions, "period": f"{window.seconds}s"}


def selector_for(rules: BudgetRules) -> Raw:
    side = {} if rules.selected_pods == "all" else {"side": rules.selected_pods}
    return {"matchLabels": {"app": "web", **side}}

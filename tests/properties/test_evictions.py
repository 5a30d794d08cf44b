"""Budgets are charged exactly, with concurrent evictors and with server restarts at any time."""

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from properties.budget_oracle import Ledger, Promise, Window
from properties.hypothesis_settings import tried
from server.asgi import AsgiClient, ReceivedResponse
from server.subresources.test_eviction import BUDGETS, CUSTOM, PDBS, PODS, POLICY, READY, evict, merge
from trimtab.api.value import Raw
from trimtab.decide.pods.budgets.pod_budgets import RATE_ANNOTATION
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.member import is_served_by_member
from trimtab.store.store import Store

COUNT = 8
MERGE = "application/merge-patch+json"
JANITOR = "janitor"

one = st.integers(0, COUNT - 1)
some = st.lists(one, min_size=1, max_size=1) | st.lists(one, min_size=2, max_size=COUNT)
acts = st.lists(
    st.one_of(
        st.tuples(st.just("evict"), some),
        st.tuples(st.just("evict"), some),
        st.tuples(st.just("janitor"), some),
        st.tuples(st.just("together"), st.lists(one, min_size=2, max_size=4)),
        st.tuples(st.just("try"), some),
        st.tuples(st.just("ill"), st.lists(one, min_size=1, max_size=3)),
        st.tuples(st.just("delete"), st.lists(one, min_size=1, max_size=3)),
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
windows = st.builds(Window, st.integers(1, 3), st.integers(5, 60))
whom = st.sampled_from(["all", "all", "even", "odd"])
theirs = st.builds(
    Promise, st.just(False), whom, floor=st.integers(0, 5), window=st.none() | windows, at_once=st.none()
)
ours = st.builds(
    Promise,
    st.just(True),
    whom,
    floor=st.none() | st.integers(0, 5),
    window=st.none() | windows,
    at_once=st.none() | st.integers(1, 4),
)
promises = st.lists(theirs | ours, min_size=1, max_size=4)


class SetClock:
    """A clock that stands still until a test sets it, also backwards."""

    def __init__(self) -> None:
        self.at = datetime(2026, 8, 1, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


class Cluster:
    """An API server on disk that may be restarted; the test acts as its disruption controller."""

    def __init__(self, directory: Path, promised: list[Promise], quota: Window) -> None:
        self._directory, self._promised, self._quota = directory, promised, quota
        self.clock = SetClock()
        self.ledger = Ledger(promised, quota)
        self._born = 0

    async def start(self) -> None:
        options = ApiServerSettings(
            clock=self.clock, check_all_budgets=True, garbage_collection=False, serves=is_served_by_member
        )
        self._server = ApiServer(Store.open(self._directory), options)
        await self._server.start()
        self.wire = AsgiClient(self._server)

    async def stop(self) -> None:
        await self._server.stop()

    async def settle(self) -> None:
        for _ in range(COUNT):
            await self.bear()
        for number, promise in enumerate(self._promised):
            await (self._ours if promise.ours else self._theirs)(f"b{number}", promise)
        quota = {"component": JANITOR, "rate": rate_of(self._quota)}
        body = {"metadata": {"name": "default"}, "spec": {"componentQuotas": [quota]}}
        made = await self.wire(
            "POST", POLICY, {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", **body}
        )
        assert made.status == 201, made.body
        await self.count()

    async def bear(self) -> None:
        number, self._born = self._born, self._born + 1
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
        labels = {"app": "web", "side": "odd" if number % 2 else "even"}
        metadata = {"name": f"web-{number}", "labels": labels, "ownerReferences": [owner]}
        spec = {"nodeName": "a", "containers": [{"name": "c", "image": "c"}]}
        assert (await self.wire("POST", PODS, {"metadata": metadata, "spec": spec})).status == 201
        await merge(self.wire, f"{PODS}/web-{number}/status", {"status": READY})

    async def _theirs(self, name: str, promise: Promise) -> None:
        window = promise.window
        noted = {RATE_ANNOTATION: f"{window.most}/{window.seconds}s"} if window else {}
        spec = {"minAvailable": promise.floor, "selector": selector(promise)}
        assert (
            await self.wire("POST", PDBS, {"metadata": {"name": name, "annotations": noted}, "spec": spec})
        ).status == 201

    async def _ours(self, name: str, promise: Promise) -> None:
        spec: Raw = {"target": "Pods", "selector": selector(promise)}
        if promise.floor is not None:
            spec["minAvailable"] = promise.floor
        if promise.window is not None:
            spec["rate"] = rate_of(promise.window)
        if promise.at_once is not None:
            spec["maxConcurrent"] = promise.at_once
        made = await self.wire("POST", BUDGETS, {**CUSTOM, "metadata": {"name": name}, "spec": spec})
        assert made.status == 201, made.body

    async def pods(self) -> list[Raw]:
        found: list[Raw] = (await self.wire("GET", PODS)).json()["items"]
        return sorted(found, key=number_of)

    async def ready(self) -> dict[int, bool]:
        """The pods that are not terminating, and whether they are ready."""
        return {number_of(one): is_ready(one) for one in await self.pods() if not is_going(one)}

    async def count(self) -> None:
        """Write budget statuses as a disruption controller does."""
        ready = await self.ready()
        self.ledger.count(ready)
        for number, account in enumerate(self.ledger.accounts):
            status: Raw = {
                "observedGeneration": 1,
                "disruptionsAllowed": account.credit,
                "currentHealthy": account.seen,
            }
            status |= {"desiredHealthy": account.promise.floor or 0, "disruptedPods": None}
            path = BUDGETS if account.promise.ours else PDBS
            more = {"inFlight": None} if account.promise.ours else {}
            await merge(self.wire, f"{path}/b{number}/status", {"status": {**status, **more}})

    # actions

    async def evict(self, picked: list[int], *, by: str = "", cut_short: bool = False) -> None:
        here = await self.pods()
        names = [here[one % len(here)]["metadata"]["name"] for one in picked]
        more = {"requested_by": by} if by else {}
        evictions = [
            asyncio.ensure_future(evict(self.wire, name, "evict" if odd else "eviction", **more))
            for name, odd in zip(names, (True, False) * COUNT, strict=False)
        ]
        if not cut_short:
            responses = await asyncio.gather(*evictions)
            await self.entered(here, quota=by == JANITOR)
            await self.justified(dict(zip(names, responses, strict=True)), quota=by == JANITOR, alone=len(picked) == 1)
            return
        await asyncio.sleep(0)
        await self.stop()
        await asyncio.gather(*evictions, return_exceptions=True)
        await self.start()
        await self.entered(here, quota=by == JANITOR)

    async def entered(self, before: list[Raw], *, quota: bool) -> None:
        """Record the evicted pods in the order of their evictions."""
        ready = {number_of(one): is_ready(one) for one in before if not is_going(one)}
        gone = [one for one in await self.pods() if is_going(one) and number_of(one) in ready]
        for one in sorted(gone, key=lambda pod: int(pod["metadata"]["resourceVersion"])):
            self.ledger.enter(number_of(one), ready, self.clock.now(), quota=quota)

    async def justified(self, responses: dict[str, ReceivedResponse], *, quota: bool, alone: bool) -> None:
        """The oracle refuses every refused eviction, too, and agrees with the returned retry time."""
        ready = await self.ready()
        assert {response.status for response in responses.values()} <= {201, 429}
        for name, response in responses.items():
            if response.status == 429:
                no, wait = self.ledger.verdict(int(name[4:]), ready, self.clock.now(), quota=quota)
                assert no, f"{name} was refused: {response.body!r}"
                retry_after = response.json()["details"].get("retryAfterSeconds", 0)
                assert retry_after == wait if alone else retry_after <= wait

    async def together(self, picked: list[int]) -> None:
        here = await self.pods()
        chosen = {number_of(one): one for one in (here[number % len(here)] for number in picked)}
        first, *others = chosen
        ready = await self.ready()
        staying = [number for number in chosen if number in ready]
        fits = self.ledger.allows_all(staying, ready, self.clock.now())
        response = await evict(self.wire, f"web-{first}", together=",".join(f"default/web-{one}" for one in others))
        assert response.status == (201 if fits else 429), response.body
        after = await self.ready()
        assert [number in after for number in staying] == [not fits] * len(staying)
        for number in staying if fits else ():
            self.ledger.enter(number, ready, self.clock.now(), quota=False)

    async def attempt(self, picked: list[int]) -> None:
        """A dry run returns the same result as an eviction and charges nothing."""
        here, before = await self.pods(), self._written()
        ready = await self.ready()
        for one in picked:
            name = here[one % len(here)]["metadata"]["name"]
            response = await evict(self.wire, name, query="?dryRun=All")
            stays = int(name[4:]) in ready
            no = stays and self.ledger.verdict(int(name[4:]), ready, self.clock.now(), quota=False)[0]
            assert response.status == (429 if no else 201), response.body
        assert self._written() == before

    def _written(self) -> list[tuple[str, int]]:
        """Everything that an eviction may write, with the revision of its last write."""
        prefixes = ("core/pods", "core/events", "policy", "trimtab.dev/disruption")
        return [
            (entry.key, entry.mod_revision)
            for prefix in prefixes
            for entry in self._server.store.list(f"/registry/{prefix}").entries
        ]

    async def replace(self) -> None:
        """Delete terminating pods and create as many ready ones."""
        for one in await self.pods():
            if is_going(one):
                await self.wire("DELETE", f"{PODS}/{one['metadata']['name']}?gracePeriodSeconds=0")
                await self.bear()

    async def fall_ill(self, picked: list[int]) -> None:
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

    def wait_until(self, account: int, offset: float) -> None:
        """Advance to the moment at which a rate allows one more disruption, or just before."""
        opens = [at for one in self.ledger.accounts if (at := one.opens()) is not None]
        if opens:
            self.clock.at = max(self.clock.at, opens[account % len(opens)] + timedelta(seconds=offset))

    async def play(self, script: list[Any]) -> None:
        for act, what in script:
            if act == "evict":
                await self.evict(what)
            elif act == "janitor":
                await self.evict(what, by=JANITOR)
            elif act == "together":
                await self.together(what)
            elif act == "try":
                await self.attempt(what)
            elif act == "restart" and what:
                await self.evict(list(range(COUNT)), cut_short=True)
            elif act == "restart":
                await self.stop()
                await self.start()
            elif act == "delete":
                await self.delete(what)
            elif act == "ill":
                await self.fall_ill(what)
            elif act == "count":
                await self.count()
            elif act == "replaced":
                await self.replace()
            elif act == "until":
                self.wait_until(*what)
            else:
                self.clock.at += timedelta(seconds=-what if act == "set back" else what)


STEPPED_BACK = [("evict", [0]), ("set back", 30), ("evict", [1]), ("until", (0, -0.001)), ("evict", [2])]


@tried(100)
@given(acts, promises, windows)
@example(STEPPED_BACK, [Promise(floor=0, window=Window(2, 60))], Window(3, 60))
@example(STEPPED_BACK, [Promise(ours=True, window=Window(2, 60))], Window(3, 60))
def test_budgets_are_charged_exactly_by_concurrent_evictors_over_restarts(
    script: list[Any], promised: list[Promise], quota: Window
) -> None:
    """Several budgets of both kinds over parts of the pods, late status syncs, and server restarts in between."""

    async def life(directory: Path) -> Cluster:
        cluster = Cluster(directory, promised, quota)
        await cluster.start()
        try:
            await cluster.settle()
            await cluster.play(script)
        finally:
            await cluster.stop()
        return cluster

    with tempfile.TemporaryDirectory() as directory:
        cluster = asyncio.run(life(Path(directory)))
    for account in (*cluster.ledger.accounts, cluster.ledger.quota):
        if account.promise.window is not None:
            account.promise.window.hold(account.stamps)


def number_of(pod: Raw) -> int:
    return int(pod["metadata"]["name"][4:])


def is_ready(pod: Raw) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])


def is_going(pod: Raw) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def rate_of(window: Window) -> Raw:
    return {"disruptions": window.most, "period": f"{window.seconds}s"}


def selector(promise: Promise) -> Raw:
    side = {} if promise.whom == "all" else {"side": promise.whom}
    return {"matchLabels": {"app": "web", **side}}

"""The page of a cluster: what somebody broke by hand."""

from console.fake_console import NOW, fill, new_console
from trimtab.console.page import PageContext, Services
from trimtab.console.pages.cluster import cluster, remaining_text
from trimtab.console.pages.fleet import fleet

DOWN = "its API server and controllers are stopped"


def context_with(faults: dict[str, str], name: str = "web-c0") -> PageContext:
    console = new_console()
    fill(console)
    services = Services(faults=lambda: faults, settings={"cluster-failure-threshold": 10.0})
    return PageContext(console.model, NOW, segments=(name,), services=services)


def test_injected_fault_is_told_before_the_cluster_counts_as_failed() -> None:
    assert cluster(context_with({"web-c0": DOWN}))["fault"] == (
        f"A fault was injected: {DOWN}. It counts as ready until it has not answered for 10 s."
    )
    assert cluster(context_with({"web-c2": DOWN}, "web-c2"))["fault"] == f"A fault was injected: {DOWN}."
    assert cluster(context_with({"web-c1": DOWN}))["fault"] == ""


def test_fleet_tells_the_faults_that_were_injected() -> None:
    assert f"A fault was injected into web-c0: {DOWN}." in fleet(context_with({"web-c0": DOWN}))["sentence"]
    both = fleet(context_with({"web-c1": DOWN, "web-c0": DOWN}))["sentence"]
    assert "Faults were injected into web-c0 and web-c1." in both
    assert "injected" not in fleet(context_with({}))["sentence"]


def test_a_member_that_recovers_says_when_it_counts_as_ready() -> None:
    console = new_console()
    fill(console)
    services = Services(simulated=lambda: frozenset({"web-c2"}), settings={"cluster-success-threshold": 30.0})
    view = cluster(PageContext(console.model, NOW, segments=("web-c2",), services=services))
    assert view["fault"] == "No fault is injected any more: it counts as ready when it has answered for 30 s."


def test_what_remains_of_a_drain_is_told_without_zeros() -> None:
    counts = {"workloads": 2, "held": 0, "blocked": 3}
    assert remaining_text("2 workloads", counts) == "2 workloads remain; 3 wait for a budget or another cluster."
    counts = {"workloads": 1, "held": 1, "blocked": 0}
    assert remaining_text("1 workload", counts) == "1 workload remains; 1 waits for its replacement."
    assert remaining_text("", {"workloads": 0, "held": 0, "blocked": 0}) == "All workloads have left it."


def test_waits_are_told_as_on_other_pages() -> None:
    console = new_console()
    fill(console)
    key = "shop/Deployment/web"
    found = console.model.workloads[key]
    why = "Drain: budget web requires an approval: trimtab approve deployment/web -n shop"
    cells = {"web-c0": found.cells["web-c0"].but(held=0, blocked=2)}
    console.model.workloads[key] = found.but(state="wait", why=why, cells=cells)
    rows = cluster(PageContext(console.model, NOW, segments=("web-c0",)))["rows"]
    assert ("wait", "drain: budget web requires an approval") in [(row["style"], row["outlook"]) for row in rows]


def test_faults_of_the_fleet_can_be_ended_together() -> None:
    async def inject(name: str, fails: bool) -> None:
        raise AssertionError("a page writes nothing")

    console = new_console()
    fill(console)
    services = Services(faults=lambda: {"web-c1": DOWN, "web-c0": DOWN, "gone": DOWN}, inject_fault=inject)
    context = PageContext(console.model, NOW, services=services)
    assert fleet(context)["faulty"] == ["web-c0", "web-c1"]
    assert fleet(context_with({"web-c0": DOWN}))["faulty"] == [], "only what can be ended is offered"

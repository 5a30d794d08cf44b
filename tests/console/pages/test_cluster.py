"""The page of a cluster: what somebody broke by hand."""

from console.fake_console import NOW, fill, new_console
from trimtab.console.page import PageContext, Services
from trimtab.console.pages.cluster import cluster
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

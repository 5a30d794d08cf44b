from typing import Any

from pod_builders import pod

from trimtab.decide.pods.fit.requests import HostPort, pod_resources_of


def container(cpu: str | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "x", "resources": {"requests": {"cpu": cpu} if cpu else {}}, **more}


def cpu_of(containers: list[dict[str, Any]], init: list[dict[str, Any]], **spec: Any) -> int:
    found = pod("p", containers=containers, initContainers=init, **spec)
    return pod_resources_of(found).requests.get("cpu", 0)


def test_peak_of_init_containers_counts_when_it_is_higher() -> None:
    assert cpu_of([container("200m")], [container("500m"), container("300m")]) == 500


def test_sidecars_count_with_init_containers_and_containers() -> None:
    sidecar = container("100m", restartPolicy="Always")
    assert cpu_of([container("200m")], [sidecar, container("500m")]) == 600
    assert cpu_of([container("200m")], [container("250m"), sidecar]) == 300


def test_overhead_is_added_and_pod_level_requests_replace_container_requests() -> None:
    assert cpu_of([container("200m")], [], overhead={"cpu": "50m"}) == 250
    assert cpu_of([container("200m")], [], resources={"requests": {"cpu": "1"}}) == 1000


def test_container_without_requests_gets_assumed_requests() -> None:
    found = pod_resources_of(pod("p", containers=[container(), container("50m")]))
    assert (found.assumed_cpu, found.assumed_memory) == (150, 400 << 20)


def test_wildcard_address_conflicts_with_every_other_address() -> None:
    everywhere, inside = HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "TCP", 80)
    assert everywhere.conflicts(inside)
    assert not inside.conflicts(HostPort("10.0.0.2", "TCP", 80))
    assert not inside.conflicts(HostPort("10.0.0.1", "UDP", 80))

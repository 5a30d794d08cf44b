"""Admission defaults of native kinds."""

from typing import Any

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.api.value import Raw
from trimtab.server.admission.builtin_defaults import qos_class

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def pod(**spec: object) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "c"}], **spec}}


def test_pod_gets_the_priority_of_its_class_or_of_the_global_default() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for name, value, default in (("high", 1000, False), ("usual", 10, True)):
            body = {"metadata": {"name": name}, "value": value, "globalDefault": default}
            assert (await wire("POST", CLASSES, body)).status == 201
        named = (await wire("POST", f"{PODS}?dryRun=All", pod(priorityClassName="high"))).json()["spec"]
        assert (named["priority"], named["priorityClassName"]) == (1000, "high")
        unnamed = (await wire("POST", f"{PODS}?dryRun=All", pod())).json()["spec"]
        assert (unnamed["priority"], unnamed["priorityClassName"]) == (10, "usual")
        for spec, message in (
            ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
            ({"priorityClassName": "high", "priority": 5}, "must not be provided in pod spec"),
        ):
            refused = await wire("POST", PODS, pod(**spec))
            assert refused.status == 403
            assert message in refused.json()["message"]

    with_asgi_client(scenario)


def test_pod_tolerates_unreachable_nodes_for_five_minutes_unless_it_says_otherwise() -> None:
    async def scenario(wire: AsgiClient) -> None:
        own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
        spec = (await wire("POST", PODS, pod(tolerations=[own]))).json()["spec"]
        seconds = {t["key"].rpartition("/")[2]: t.get("tolerationSeconds") for t in spec["tolerations"]}
        assert seconds == {"not-ready": None, "unreachable": 300}

    with_asgi_client(scenario)


def test_replaced_pod_keeps_what_admission_added() -> None:
    async def scenario(wire: AsgiClient) -> None:
        created = (await wire("POST", PODS, pod())).json()
        replaced = await wire("PUT", f"{PODS}/p", pod() | {"metadata": {"name": "p", "labels": {"a": "b"}}})
        assert replaced.status == 200, replaced.json()
        kept = ("priority", "preemptionPolicy", "tolerations")
        assert [replaced.json()["spec"][key] for key in kept] == [created["spec"][key] for key in kept]

    with_asgi_client(scenario)


def test_negative_grace_period_is_one_second() -> None:
    async def scenario(wire: AsgiClient) -> None:
        created = (await wire("POST", PODS, pod(terminationGracePeriodSeconds=-1))).json()
        assert created["spec"]["terminationGracePeriodSeconds"] == 1
        created["spec"]["terminationGracePeriodSeconds"] = -1
        updated = await wire("PUT", f"{PODS}/p", created)
        assert updated.json()["spec"]["terminationGracePeriodSeconds"] == 1

    with_asgi_client(scenario)


def test_services_get_distinct_addresses_and_node_ports_and_keep_them() -> None:
    async def scenario(wire: AsgiClient) -> None:
        found = []
        for name in ("a", "b"):
            spec = {"type": "NodePort", "ports": [{"port": 80}]}
            created = (await wire("POST", SERVICES, {"metadata": {"name": name}, "spec": spec})).json()
            found.append((created["spec"]["clusterIP"], created["spec"]["ports"][0]["nodePort"]))
        assert found == [("10.96.0.10", 30000), ("10.96.0.11", 30001)]
        merge = {"content_type": "application/merge-patch+json"}
        patched = await wire("PATCH", f"{SERVICES}/b", {"spec": {"ports": [{"port": 80, "name": "web"}]}}, **merge)
        assert (patched.json()["spec"]["clusterIP"], patched.json()["spec"]["ports"][0]["nodePort"]) == found[1]

    with_asgi_client(scenario)


def test_node_ports_out_of_range_or_of_another_service_are_refused() -> None:
    async def scenario(wire: AsgiClient) -> None:
        def service(name: str, *node_ports: int | None) -> Raw:
            ports = [{"port": 80 + n, "name": f"p{n}", "nodePort": port} for n, port in enumerate(node_ports)]
            return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}}

        first = (await wire("POST", SERVICES, service("a", None, 30000))).json()
        assert [port["nodePort"] for port in first["spec"]["ports"]] == [30001, 30000]
        taken = await wire("POST", SERVICES, service("b", 30000))
        message = (
            'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated'
        )
        assert (taken.status, taken.json()["message"]) == (422, message)
        first["spec"]["ports"][0]["nodePort"] = 22
        changed = await wire("PUT", f"{SERVICES}/a", first)
        assert changed.status == 422
        assert changed.json()["message"].endswith(
            "Invalid value: 22: provided port is not in the valid range. The range of valid ports is 30000-32767"
        )
        await wire("DELETE", f"{SERVICES}/a")
        assert (await wire("POST", SERVICES, service("b", 30000))).status == 201

    with_asgi_client(scenario)


def test_service_that_changes_its_type_loses_what_only_the_old_type_has() -> None:
    async def scenario(client: AsgiClient) -> None:
        path = "/api/v1/namespaces/default/services"
        body = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
        made = (await client("POST", path, body)).json()
        assert made["spec"]["ports"][0]["nodePort"]
        plain = (await client("PUT", f"{path}/s", {**made, "spec": {**made["spec"], "type": "ClusterIP"}})).json()
        assert "nodePort" not in plain["spec"]["ports"][0]
        assert "externalTrafficPolicy" not in plain["spec"]
        assert plain["spec"]["clusterIP"] == made["spec"]["clusterIP"]
        named = {**plain["spec"], "type": "ExternalName", "externalName": "example.com"}
        answer = await client("PUT", f"{path}/s", {**plain, "spec": named})
        assert answer.status == 200
        assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & answer.json()["spec"].keys()

    with_asgi_client(scenario)


def test_load_balancer_without_node_ports_gets_none() -> None:
    async def scenario(wire: AsgiClient) -> None:
        spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{"port": 80}]}
        created = (await wire("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec})).json()
        assert "nodePort" not in created["spec"]["ports"][0]

    with_asgi_client(scenario)


def test_new_node_is_tainted_as_not_ready() -> None:
    async def scenario(wire: AsgiClient) -> None:
        node = (await wire("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})).json()
        assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1Gi"}}, "Guaranteed"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}, "Burstable"),
    ],
)
def test_qos_class_follows_from_requests_and_limits(resources: dict, expected: str) -> None:
    assert qos_class({"containers": [{"resources": resources}]}) == expected

"""The initial objects of an API server."""

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.background.bootstrap import bootstrap_objects


def test_namespaces_come_before_the_other_objects() -> None:
    kinds = list(dict.fromkeys(obj["kind"] for obj in bootstrap_objects()))
    assert kinds == ["Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass"]


def test_every_binding_refers_to_a_role_that_exists() -> None:
    objects = list(bootstrap_objects())
    roles = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "ClusterRole"}
    assert {obj["roleRef"]["name"] for obj in objects if obj["kind"] == "ClusterRoleBinding"} <= roles


def test_view_role_neither_writes_nor_reads_secrets() -> None:
    rules = next(obj["rules"] for obj in bootstrap_objects() if obj["metadata"]["name"] == "system:aggregate-to-view")
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert "secrets" not in {resource for rule in rules for resource in rule["resources"]}


def test_server_starts_with_these_objects() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for path in (
            "/api/v1/namespaces/kube-system",
            "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
        ):
            assert (await wire("GET", path)).status == 200

    with_asgi_client(scenario)


def test_users_of_a_namespace_do_not_write_what_limits_them() -> None:
    limiting = {"bindings", "resourcequotas", "limitranges", "namespaces", "controllerrevisions"}
    for name in ("system:aggregate-to-edit", "system:aggregate-to-admin"):
        rules = next(obj["rules"] for obj in bootstrap_objects() if obj["metadata"]["name"] == name)
        writable = {resource for rule in rules if "update" in rule["verbs"] for resource in rule["resources"]}
        assert not writable & limiting

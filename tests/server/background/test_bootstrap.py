"""The initial objects of an API server."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.background.bootstrap import bootstrap_objects, fleet_roles
from trimtab.server.daemon import Daemon
from trimtab.store.store import Store


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


def as_set(rules: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(g, r, v) for rule in rules for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}


def test_readers_of_the_fleet_see_its_kinds_without_propagated_secrets() -> None:
    view, edit = fleet_roles()
    rights = as_set(view["rules"])
    assert {verb for _, _, verb in rights} == {"get", "list", "watch"}
    assert ("work.karmada.io", "resourcebindings", "list") in rights
    kept = {("work.karmada.io", "*"), ("work.karmada.io", "works"), ("work.open-cluster-management.io", "*")}
    kept |= {("cluster.karmada.io", "*"), ("cluster.karmada.io", "clusters/proxy")}
    assert not {(group, resource) for group, resource, _ in rights} & kept
    text = (files("trimtab.cli.support") / "installation.yaml").read_text()
    installed = {obj["metadata"]["name"]: obj["rules"] for obj in yaml.safe_load_all(text) if "rules" in obj}
    for role in (view, edit):
        assert as_set(role["rules"]) == as_set(installed[role["metadata"]["name"]])


def test_only_servers_that_are_asked_for_them_have_the_roles_of_the_fleet() -> None:
    for has_roles in (True, False):
        server = ApiServer(Store(), ApiServerSettings(fleet_roles=has_roles))
        names = {obj["metadata"]["name"] for obj in server._initial_objects()}
        assert ({"trimtab-view", "trimtab-edit"} <= names) is has_roles


def test_a_served_control_plane_has_the_roles_of_the_fleet(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "127.0.0.1", 0)
    names = {obj["metadata"]["name"] for obj in daemon.api._initial_objects()}
    assert {"trimtab-view", "trimtab-edit"} <= names

"""Roles and bindings of an older store, after the server started again."""

from collections.abc import Awaitable, Callable
from typing import Any

from server.asgi import ADMIN, AsgiClient
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.server.background.bootstrap_roles import MANAGER, updated_object
from trimtab.store.store import Store

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
MERGE = "application/merge-patch+json"
EDIT = "system:aggregate-to-edit"
NODES = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}


def after_restart(
    change: Callable[[AsgiClient], Awaitable[Any]], check: Callable[[AsgiClient], Awaitable[Any]]
) -> None:
    """Change something in a new store, then check it with another server on the same store."""

    async def run() -> None:
        store = Store()
        first, second = (ApiServer(store, ApiServerSettings(clock=LoopClock())) for _ in range(2))
        await first.start()
        await change(AsgiClient(first))
        await second.start()
        await check(AsgiClient(second))
        await first.stop()
        await second.stop()

    run_virtually(run())


async def patch(client: AsgiClient, path: str, body: Any, manager: str) -> None:
    response = await client("PATCH", f"{path}?fieldManager={manager}", body, content_type=MERGE, user=ADMIN)
    assert response.status == 200, response.body


def test_rights_that_an_earlier_version_granted_are_taken_away() -> None:
    async def widen(client: AsgiClient) -> None:
        rules = (await client("GET", f"{ROLES}/{EDIT}")).json()["rules"]
        await patch(client, f"{ROLES}/{EDIT}", {"rules": [*rules, NODES]}, MANAGER)

    async def check(client: AsgiClient) -> None:
        assert NODES not in (await client("GET", f"{ROLES}/{EDIT}")).json()["rules"]

    after_restart(widen, check)


def test_rules_of_users_stay_and_missing_ones_are_added() -> None:
    async def replace(client: AsgiClient) -> None:
        await patch(client, f"{ROLES}/system:basic-user", {"rules": [NODES]}, "kubectl")

    async def check(client: AsgiClient) -> None:
        rules = (await client("GET", f"{ROLES}/system:basic-user")).json()["rules"]
        assert rules[0] == NODES
        assert len(rules) == 3

    after_restart(replace, check)


def test_role_without_automatic_updates_is_left_alone() -> None:
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}

    async def replace(client: AsgiClient) -> None:
        await patch(
            client, f"{ROLES}/system:basic-user", {"metadata": {"annotations": annotations}, "rules": []}, MANAGER
        )

    async def check(client: AsgiClient) -> None:
        assert not (await client("GET", f"{ROLES}/system:basic-user")).json().get("rules")

    after_restart(replace, check)


def test_subjects_that_were_removed_are_added_again_and_others_stay() -> None:
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}

    async def replace(client: AsgiClient) -> None:
        await patch(client, f"{BINDINGS}/system:discovery", {"subjects": [group]}, "kubectl")

    async def check(client: AsgiClient) -> None:
        subjects = (await client("GET", f"{BINDINGS}/system:discovery")).json()["subjects"]
        assert [subject["name"] for subject in subjects] == ["readers", "system:authenticated"]
        user = User("ann", (AUTHENTICATED,))
        assert client.server.authorizer.allows(user, Action("get", path="/apis"))

    after_restart(replace, check)


def test_second_start_writes_no_role() -> None:
    revisions: list[str] = []

    async def note(client: AsgiClient) -> None:
        items = (await client("GET", ROLES)).json()["items"] + (await client("GET", BINDINGS)).json()["items"]
        revisions.append(str([item["metadata"]["resourceVersion"] for item in items]))

    after_restart(note, note)
    assert revisions[0] == revisions[1]


def test_object_without_managed_fields_keeps_its_rules() -> None:
    wanted = {"kind": "ClusterRole", "metadata": {"name": "edit"}, "rules": []}
    stored = {**wanted, "rules": [NODES]}
    assert updated_object(stored, wanted)["rules"] == [NODES]

"""Which version and uid of an object an update may name."""

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.api.kind import Kind
from trimtab.api.value import Object, Raw
from trimtab.errors import ApiError, Conflict, Invalid
from trimtab.server.registry.object_preparation import check_identity
from trimtab.server.resources import ServedResource

SERVED = ServedResource(
    Kind(Object, group="example.com", version="v1", name="Widget", plural="widgets"), "v1", schema=dict
)
STORED = {"name": "w", "uid": "u1", "resourceVersion": "7"}


def check(*, replaces: bool = True, **metadata: str) -> None:
    check_identity(SERVED, STORED, {"metadata": {"name": "w", **metadata}}, replaces=replaces)


def test_update_of_the_current_version_is_accepted() -> None:
    check(resourceVersion="7", uid="u1")
    check(resourceVersion="7", replaces=False)
    check(resourceVersion="0")


@pytest.mark.parametrize("version", ["6", "8"])
def test_update_of_another_version_is_a_conflict(version: str) -> None:
    for replaces in (True, False):
        with pytest.raises(Conflict):
            check(resourceVersion=version, replaces=replaces)


def test_update_with_the_uid_of_another_object_is_refused() -> None:
    with pytest.raises(Conflict, match="UID in precondition: u2, UID in object meta: u1"):
        check(resourceVersion="7", uid="u2")
    with pytest.raises(Invalid, match="field is immutable"):
        check(uid="u2", replaces=False)


def test_version_that_is_no_number_is_refused() -> None:
    with pytest.raises(ApiError, match="invalid syntax"):
        check(resourceVersion="new")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", {"spec": {}}),
        ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"spec": {"maxUnavailable": 1}}),
        ("/apis/node.k8s.io/v1/runtimeclasses", {"handler": "runc"}),
    ],
)
def test_some_built_in_kinds_are_replaced_only_with_a_version(path: str, body: Raw) -> None:
    async def scenario(client: AsgiClient) -> None:
        made = (await client("POST", path, {"metadata": {"name": "a"}, **body})).json()
        refused = await client("PUT", f"{path}/a", {"metadata": {"name": "a"}, **body})
        assert refused.status == 422
        assert "must be specified for an update" in refused.json()["message"]
        assert (await client("PUT", f"{path}/a", made)).status == 200

    with_asgi_client(scenario)


def test_change_that_leaves_the_metadata_alone_is_about_the_same_object() -> None:
    check_identity(SERVED, STORED, {"metadata": STORED, "spec": {}}, replaces=False)

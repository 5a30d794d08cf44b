"""Authentication with client certificates and tokens."""

import asyncio
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.errors import Unauthorized
from trimtab.server.auth.authenticate import (
    CLOCK_LEEWAY_SECONDS,
    ISSUER,
    REVOKED_USER,
    Authenticator,
    ServiceAccountTokens,
    TokenClaims,
    user_of_certificate,
)
from trimtab.server.auth.token_keys import SharedSecret
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.store.records import StoredEntry

DEFAULT = "/api/v1/namespaces/default"
ACCOUNTS = f"{DEFAULT}/serviceaccounts"
POD = {"spec": {"serviceAccountName": "bot", "containers": [{"name": "c", "image": "i"}]}}
MERGE = "application/merge-patch+json"
NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


async def request_token(client: AsgiClient, **spec: object) -> str:
    """A token of the account `bot`, which is created if necessary."""
    await client("POST", ACCOUNTS, {"metadata": {"name": "bot"}})
    response = await client("POST", f"{ACCOUNTS}/bot/token", {"spec": spec})
    assert response.status == 201, response.body
    return response.json()["status"]["token"]


async def status_with(client: AsgiClient, token: str) -> int:
    return (await client("GET", "/version", user=None, authorization=f"Bearer {token}")).status


async def review(client: AsgiClient, token: str, **spec: object) -> dict:
    body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, **spec}}
    response = await client("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
    return response.json()["status"]


def test_certificate_gives_user_and_groups() -> None:
    subject = ((("organizationName", "devs"),), (("commonName", "alice"),))
    assert user_of_certificate({"subject": subject}) == User("alice", ("devs", AUTHENTICATED))
    assert user_of_certificate({}) is None


def test_invalid_token_is_rejected_even_for_public_paths() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("GET", "/readyz", user=None, authorization="Bearer nonsense")).status == 401
        assert await review(client, "nonsense") == {"user": {}, "error": "invalid bearer token"}

    with_asgi_client(scenario)


def test_service_account_token_is_valid_while_the_account_exists() -> None:
    async def scenario(client: AsgiClient) -> None:
        token = await request_token(client)
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
        response = await client("POST", path, body, user=None, authorization=f"Bearer {token}")
        assert response.json()["status"]["userInfo"]["username"] == "system:serviceaccount:default:bot"
        assert (await review(client, token))["authenticated"] is True
        await client("DELETE", f"{ACCOUNTS}/bot")
        assert await status_with(client, token) == 401
        assert await review(client, token) == {
            "user": {},
            "error": "[invalid bearer token, service account token has been invalidated]",
        }

    with_asgi_client(scenario)


def test_token_stays_invalid_when_a_new_account_mentions_the_old_uid() -> None:
    async def scenario(client: AsgiClient) -> None:
        token = await request_token(client)
        uid = (await client("GET", f"{ACCOUNTS}/bot")).json()["metadata"]["uid"]
        await client("DELETE", f"{ACCOUNTS}/bot")
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": uid}
        for metadata in (
            {"ownerReferences": [owner]},
            {"annotations": {"a": f'"uid":"{uid}"', "uid": uid}},
            {"labels": {"uid": uid}},
            {"uid": uid},
        ):
            body = {"metadata": {"name": "bot", **metadata}, "secrets": [{"name": "s", "uid": uid}]}
            assert (await client("POST", ACCOUNTS, body)).status == 201
            assert await status_with(client, token) == 401
            await client("DELETE", f"{ACCOUNTS}/bot")

    with_asgi_client(scenario, garbage_collection=False)


def test_token_is_invalid_while_its_account_waits_for_finalizers() -> None:
    async def scenario(client: AsgiClient) -> None:
        token = await request_token(client)
        body = orjson.dumps({"metadata": {"finalizers": ["example.com/wait"]}})
        await client("PATCH", f"{ACCOUNTS}/bot", body, content_type=MERGE)
        assert await status_with(client, token) == 200
        await client("DELETE", f"{ACCOUNTS}/bot")
        assert (await client("GET", f"{ACCOUNTS}/bot")).status == 200
        assert await status_with(client, token) == 401

    with_asgi_client(scenario)


def test_service_account_token_expires() -> None:
    async def scenario(client: AsgiClient) -> None:
        token = await request_token(client, expirationSeconds=600)
        await asyncio.sleep(601)
        assert await status_with(client, token) == 401
        assert "service account token has expired" in (await review(client, token))["error"]

    with_asgi_client(scenario)


@pytest.mark.parametrize(("seconds", "status"), [(50, 200), (70, 401)])
def test_token_stays_valid_when_the_clock_is_set_back_a_little(seconds: int, status: int) -> None:
    async def scenario(client: AsgiClient) -> None:
        token = await request_token(client)
        authenticator = client.server.authenticator
        before = authenticator._now
        authenticator._now = lambda: before() - timedelta(seconds=seconds)
        assert await status_with(client, token) == status

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        ("Pod", f"{DEFAULT}/pods", POD),
        ("Secret", f"{DEFAULT}/secrets", {}),
        ("Node", "/api/v1/nodes", {}),
    ],
)
def test_bound_token_is_valid_while_its_object_exists(kind: str, path: str, body: dict) -> None:
    async def scenario(client: AsgiClient) -> None:
        obj = {**body, "metadata": {"name": "one"}}
        assert (await client("POST", path, obj)).status == 201
        token = await request_token(client, boundObjectRef={"kind": kind, "apiVersion": "v1", "name": "one"})
        found = await review(client, token)
        assert found["user"]["extra"][f"authentication.kubernetes.io/{kind.lower()}-name"] == ["one"]
        await client("DELETE", f"{path}/one?gracePeriodSeconds=0")
        assert await status_with(client, token) == 401
        await client("POST", path, obj)
        assert await status_with(client, token) == 401
        assert "error" in await review(client, token)

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("reference", "status"),
    [
        ({"kind": "Pod", "name": "other"}, 400),
        ({"kind": "Pod", "name": "absent"}, 404),
        ({"kind": "Pod", "name": "mine", "uid": "not-this-one"}, 409),
        ({"kind": "Pod", "name": "mine"}, 201),
        ({"kind": "ConfigMap", "name": "mine"}, 400),
    ],
)
def test_token_is_bound_only_to_objects_of_the_account(reference: dict, status: int) -> None:
    async def scenario(client: AsgiClient) -> None:
        await request_token(client)
        other = {**POD, "spec": {**POD["spec"], "serviceAccountName": "default"}}
        await client("POST", f"{DEFAULT}/pods", {**POD, "metadata": {"name": "mine"}})
        await client("POST", f"{DEFAULT}/pods", {**other, "metadata": {"name": "other"}})
        response = await client("POST", f"{ACCOUNTS}/bot/token", {"spec": {"boundObjectRef": reference}})
        assert response.status == status

    with_asgi_client(scenario)


def test_token_is_valid_only_for_its_audiences() -> None:
    async def scenario(client: AsgiClient) -> None:
        token = await request_token(client, audiences=["vault", "other"])
        assert await status_with(client, token) == 401
        assert (await review(client, token, audiences=["vault", "more"]))["audiences"] == ["vault"]
        assert "error" in await review(client, token)
        assert (await review(client, await request_token(client)))["audiences"] == [ISSUER]

    with_asgi_client(scenario)


@pytest.mark.parametrize("audiences", ["text", 5, {"a": 1}, [1], [""]])
def test_malformed_audiences_are_refused(audiences: object) -> None:
    async def scenario(client: AsgiClient) -> None:
        await request_token(client)
        assert (await client("POST", f"{ACCOUNTS}/bot/token", {"spec": {"audiences": audiences}})).status == 400

    with_asgi_client(scenario)


def test_claims_cannot_be_changed() -> None:
    async def scenario(client: AsgiClient) -> None:
        head, body, signature = (await request_token(client)).split(".")
        for forged in (f"{head}.{body}.", f"{head}.{body[:-4]}AAAA.{signature}", f"{body}.{head}.{signature}", ".."):
            assert await status_with(client, forged) == 401

    with_asgi_client(scenario)


def test_request_without_credentials_is_refused_where_anonymous_users_are_not_allowed() -> None:
    tokens = ServiceAccountTokens(SharedSecret(b"key"), lambda _: None)
    strict = Authenticator(tokens, {}, lambda: datetime.now(UTC), allows_anonymous=False)
    with pytest.raises(Unauthorized):
        strict.authenticate("", None)
    assert strict.authenticate("", User("alice", ())).name == "alice"


@pytest.mark.parametrize("authorization", ["", "Bearer known"])
def test_revoked_certificate_is_refused_also_on_public_paths_and_with_a_valid_token(authorization: str) -> None:
    tokens = ServiceAccountTokens(SharedSecret(b"key"), lambda _: None)
    authenticator = Authenticator(tokens, {"known": User("alice", ())}, lambda: datetime.now(UTC))
    with pytest.raises(Unauthorized):
        authenticator.authenticate(authorization, REVOKED_USER)
    assert authenticator.authenticate("Bearer known", None).name == "alice"


def test_token_of_a_pod_has_an_id_and_names_the_node_of_the_pod() -> None:
    async def scenario(client: AsgiClient) -> None:
        node = (await client("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})).json()["metadata"]
        await client("POST", ACCOUNTS, {"metadata": {"name": "bot"}})
        spec = {"nodeName": "n1", "serviceAccountName": "bot", "containers": [{"name": "a", "image": "a"}]}
        pods = "/api/v1/namespaces/default/pods"
        pod = (await client("POST", pods, {"metadata": {"name": "one"}, "spec": spec})).json()["metadata"]
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "one"}
        tokens = [await request_token(client, boundObjectRef=reference) for _ in range(2)]
        extra, other = [(await review(client, token))["user"]["extra"] for token in tokens]
        (token_id,) = extra.pop("authentication.kubernetes.io/credential-id")
        assert token_id.startswith("JTI=")
        assert [token_id] != other["authentication.kubernetes.io/credential-id"]
        assert extra == {
            "authentication.kubernetes.io/node-name": ["n1"],
            "authentication.kubernetes.io/node-uid": [node["uid"]],
            "authentication.kubernetes.io/pod-name": ["one"],
            "authentication.kubernetes.io/pod-uid": [pod["uid"]],
        }

    with_asgi_client(scenario)


def authenticator(**options: bool) -> Authenticator:
    tokens = ServiceAccountTokens(SharedSecret(b"s" * 32), lambda _: None)
    return Authenticator(tokens, {"static": User("alice", ())}, lambda: NOON, **options)


@pytest.mark.parametrize("authorization", ["Basic static", "static", "Bearer", "Bearer  ", "", "Digest Bearer static"])
def test_only_a_bearer_token_is_a_token(authorization: str) -> None:
    anonymous = authenticator().authenticate(authorization, None)
    assert anonymous.name == "system:anonymous"
    certified = User("bob", ())
    assert authenticator().authenticate(authorization, certified) is certified
    with pytest.raises(Unauthorized):
        authenticator(allows_anonymous=False).authenticate(authorization, None)


@pytest.mark.parametrize("authorization", ["Bearer static", "bearer static", "Bearer   static "])
def test_a_token_is_preferred_to_a_certificate(authorization: str) -> None:
    assert authenticator(allows_anonymous=False).authenticate(authorization, User("bob", ())).name == "alice"


def test_a_token_of_the_control_plane_is_valid_only_for_its_own_audience() -> None:
    assert not isinstance(authenticator().verify("static"), str)
    assert isinstance(authenticator().verify("static", ("vault",)), str)


@pytest.mark.parametrize(
    ("seconds", "valid"), [(-1, False), (0, False), (1, True)], ids=["expired", "expires now", "valid for a second"]
)
def test_a_token_is_valid_until_the_second_of_its_expiry(seconds: int, valid: bool) -> None:
    assert is_valid_at(NOON, expires=NOON + timedelta(seconds=seconds)) is valid


def test_a_token_that_is_not_valid_yet_is_refused_beyond_the_leeway() -> None:
    issued = NOON + timedelta(seconds=CLOCK_LEEWAY_SECONDS)
    assert is_valid_at(NOON, issued=issued)
    assert not is_valid_at(NOON, issued=issued + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("deleted", "valid"), [(None, True), (timedelta(seconds=1), True), (timedelta(0), False), (-timedelta(1), False)]
)
def test_a_token_is_valid_until_the_deletion_of_its_account_is_due(deleted: timedelta | None, valid: bool) -> None:
    at = {"deletionTimestamp": (NOON + deleted).strftime("%Y-%m-%dT%H:%M:%SZ")} if deleted is not None else {}
    assert is_valid_at(NOON, account=at) is valid


def is_valid_at(
    now: datetime,
    issued: datetime = NOON,
    expires: datetime = NOON + timedelta(hours=1),
    account: dict[str, str] | None = None,
) -> bool:
    value = orjson.dumps({"metadata": {"name": "bot", "uid": "u", **(account or {})}})
    tokens = ServiceAccountTokens(SharedSecret(b"s" * 32), lambda _: StoredEntry("key", value, 1, 1))
    claims = TokenClaims("default", "bot", "u", (ISSUER,), int(issued.timestamp()), int(expires.timestamp()))
    return not isinstance(tokens.verify(tokens.issue(claims), now), str)

"""Tokens of members are renewed when a third of their lifetime has passed, and clients use the new one at once."""

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trimtab.api.kinds.cluster import Cluster, ClusterSpec, LocalSecretReference
from trimtab.api.value import Meta, Raw
from trimtab.errors import Conflict, Unavailable
from trimtab.members.token_renewal import TokenRenewal, stored_token

START = datetime(2026, 1, 1, tzinfo=UTC)
LIFETIME = timedelta(days=90)
CLUSTER = Cluster(
    metadata=Meta(name="east"),
    spec=ClusterSpec(
        sync_mode="Push",
        api_endpoint="https://127.0.0.1:1",
        secret_ref=LocalSecretReference(namespace="karmada-cluster", name="east"),
    ),
)


def token(issued: datetime) -> str:
    claims = {
        "sub": "system:serviceaccount:karmada-cluster:karmada-east",
        "iat": issued.timestamp(),
        "exp": (issued + LIFETIME).timestamp(),
    }
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.signature"


class Fleet:
    """A host with the Secret of one member, the member, and a clock."""

    def __init__(self) -> None:
        data = {"token": base64.b64encode(token(START).encode()).decode()}
        self.secret: Raw = {"metadata": {"resourceVersion": "1"}, "data": data}
        self.time = START
        self.requests: list[Any] = []
        self.is_member_down = False

    def now(self) -> datetime:
        return self.time

    async def patch(self, resource: Any, namespace: str, name: str, patch: Raw, *, manager: str) -> Raw:
        if patch["metadata"]["resourceVersion"] != self.secret["metadata"]["resourceVersion"]:
            raise Conflict("changed")
        self.secret = {"metadata": {"resourceVersion": "2"}, "data": patch["data"]}
        return self.secret

    async def submit(self, resource: Any, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        if self.is_member_down:
            raise Unavailable("down")
        self.requests.append((namespace, name, obj["spec"]["expirationSeconds"]))
        return {"status": {"token": token(self.time)}}

    def renew(self) -> None:
        renewal = TokenRenewal(self, self, lambda: [CLUSTER], lambda *_: self.secret, lambda _: self)
        asyncio.run(renewal.renew_due_tokens())


def test_token_is_renewed_when_a_third_of_its_lifetime_has_passed() -> None:
    fleet = Fleet()
    fleet.time = START + timedelta(days=29)
    fleet.renew()
    assert fleet.requests == []
    fleet.time = START + timedelta(days=30)
    fleet.renew()
    fleet.renew()
    assert fleet.requests == [("karmada-cluster", "karmada-east", int(LIFETIME.total_seconds()))]
    assert stored_token(fleet.secret) == token(fleet.time)


def test_unreachable_member_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet()
    fleet.time = START + timedelta(days=60)
    fleet.is_member_down = True
    fleet.renew()
    assert stored_token(fleet.secret) == token(START)
    assert token(START) not in caplog.text
    fleet.is_member_down = False
    fleet.renew()
    assert stored_token(fleet.secret) == token(fleet.time)


def test_other_tokens_are_left_alone() -> None:
    fleet = Fleet()
    fleet.secret["data"] = {"token": base64.b64encode(b"opaque").decode()}
    fleet.time = START + timedelta(days=1000)
    fleet.renew()
    assert fleet.requests == []

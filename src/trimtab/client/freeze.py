"""Freezes and thaws all moves of a control plane, in its DisruptionPolicy."""

from datetime import UTC, datetime
from typing import cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.errors import AlreadyExists, ApiError, NotFound

POLICIES = resource_of(kind_of(DisruptionPolicy))
MAX_NAME = 1024
"""Characters of a user's name that are recorded: every refused move repeats it."""
WHO_AM_I = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


async def find_disruption_policy(client: Client) -> DisruptionPolicy | None:
    try:
        return cast("DisruptionPolicy", kind_of(DisruptionPolicy).decode(await client.get(POLICIES, "", "default")))
    except NotFound:
        return None


async def freeze_moves(client: Client, reason: str) -> None:
    """Stop all moves, and record who did it and why; a freeze that is there already gets the new reason."""
    freeze = {"since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "by": await current_user(client), "reason": reason}
    spec: Raw = {"freeze": {key: value for key, value in freeze.items() if value}}
    try:
        await client.patch(POLICIES, "", "default", {"spec": spec})
    except NotFound:
        body = {
            "apiVersion": POLICIES.api_version,
            "kind": POLICIES.kind,
            "metadata": {"name": "default"},
            "spec": spec,
        }
        try:
            await client.create(POLICIES, body)
        except AlreadyExists:
            await client.patch(POLICIES, "", "default", {"spec": spec})


async def thaw_moves(client: Client) -> None:
    """Allow moves again."""
    try:
        await client.patch(POLICIES, "", "default", {"spec": {"freeze": None}})
    except NotFound:
        return


async def current_user(client: Client) -> str:
    """The name of the user as the API server knows it; empty when it does not tell."""
    try:
        review = await client.create(
            WHO_AM_I, {"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.kind, "metadata": {}}
        )
    except ApiError:
        return ""
    return str(((review.get("status") or {}).get("userInfo") or {}).get("username") or "")[:MAX_NAME]

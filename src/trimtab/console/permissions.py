"""What the user of a session may see and do, by the authentication and RBAC of the API server itself."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.reviews import SelfSubjectAccessReview, SelfSubjectReview
from trimtab.client.client import Client, resource_of
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials
from trimtab.console.sessions import Session
from trimtab.errors import ApiError, Forbidden, Unauthorized
from trimtab.server.auth.authenticate import Authenticator
from trimtab.server.auth.authorize import Action, Authorizer

RECHECK = timedelta(seconds=30)
"""How long a check of rights is used again."""
CLUSTERS = ("cluster.karmada.io", "clusters")
REBALANCERS = ("apps.karmada.io", "workloadrebalancers")
POLICIES = ("trimtab.dev", "disruptionpolicies")
CLUSTER_BINDINGS = ("work.karmada.io", "clusterresourcebindings")
NAMESPACED = {
    "workloads": ("work.karmada.io", "resourcebindings"),
    "moves": ("trimtab.dev", "moves"),
    "budgets": ("trimtab.dev", "disruptionbudgets"),
    "placements": ("cluster.open-cluster-management.io", "placements"),
    "scores": ("cluster.open-cluster-management.io", "addonplacementscores"),
    "events": ("", "events"),
}
CONCURRENT_REVIEWS = 16
MAX_CLIENTS = 64
MAX_KNOWN = 10_000
"""Checks of rights that are kept."""


class Visibility(NamedTuple):
    """What one user may list: namespaces, or None for all of them."""

    clusters: bool
    rebalances: bool
    policy: bool
    workloads: frozenset[str] | None
    moves: frozenset[str] | None
    budgets: frozenset[str] | None
    placements: frozenset[str] | None
    scores: frozenset[str] | None
    events: frozenset[str] | None
    hidden: int
    """The number of namespaces whose workloads are hidden."""


EVERYTHING = Visibility(True, True, True, None, None, None, None, None, None, 0)


def sees(namespaces: Collection[str] | None, namespace: str) -> bool:
    return namespaces is None or namespace in namespaces


class Authority(Protocol):
    """Identifies users by their tokens, and says what they may do."""

    async def identify(self, token: str) -> str | None:
        """The name of the user of a token; None when it is not valid."""
        ...

    async def allows(self, session: Session, actions: Sequence[Action]) -> list[bool]: ...

    def client(self, session: Session) -> Client:
        """A client of the API server with the credentials of the session."""
        ...

    async def close(self) -> None: ...


class UserClients:
    """Clients of one API server, one per user."""

    def __init__(self, credentials: Callable[[], Credentials]) -> None:
        self._credentials = credentials
        self._clients: dict[str, KubeClient] = {}

    def get(self, token: str) -> KubeClient:
        """The client of a token; an empty token stands for the credentials of this process."""
        if token not in self._clients:
            if len(self._clients) >= MAX_CLIENTS:
                self._clients.pop(next(iter(self._clients)))
            own = self._credentials()
            alone = own._replace(
                token=token, cert=b"", key=b"", token_file="", exec=None, certificate_files=(), files=()
            )
            self._clients[token] = KubeClient(alone if token else own, agent="trimtab-console")
        return self._clients[token]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


class LocalAuthority:
    """The rights of users of an API server in this process."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, clients: UserClients) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._clients = clients

    async def identify(self, token: str) -> str | None:
        found = self._authenticator.verify(token)
        return None if isinstance(found, str) else found.user.name

    async def allows(self, session: Session, actions: Sequence[Action]) -> list[bool]:
        found = self._authenticator.verify(session.token)
        if isinstance(found, str):
            raise Unauthorized("Unauthorized")
        return [self._authorizer.allows(found.user, action) for action in actions]

    def client(self, session: Session) -> Client:
        return self._clients.get(session.token)

    async def close(self) -> None:
        await self._clients.close()


class RemoteAuthority:
    """The rights of users of an API server over HTTP, by its own reviews."""

    def __init__(self, clients: UserClients) -> None:
        self._clients = clients
        self._gate = asyncio.Semaphore(CONCURRENT_REVIEWS)

    async def identify(self, token: str) -> str | None:
        try:
            review = await self._clients.get(token).create(
                resource_of(kind_of(SelfSubjectReview)), _review("SelfSubjectReview")
            )
        except (Unauthorized, Forbidden):
            return None
        return str(((review.get("status") or {}).get("userInfo") or {}).get("username", "")) or None

    async def allows(self, session: Session, actions: Sequence[Action]) -> list[bool]:
        return list(await asyncio.gather(*(self._allows(session, action) for action in actions)))

    async def _allows(self, session: Session, action: Action) -> bool:
        attributes = {
            "verb": action.verb,
            "group": action.group,
            "resource": action.resource,
            "subresource": action.subresource,
            "namespace": action.namespace,
            "name": action.name,
        }
        spec: dict[str, Any] = {"resourceAttributes": {name: value for name, value in attributes.items() if value}}
        if action.path:
            spec = {"nonResourceAttributes": {"path": action.path, "verb": action.verb}}
        body = _review("SelfSubjectAccessReview", spec)
        async with self._gate:
            try:
                answer = await self._clients.get(session.token).create(
                    resource_of(kind_of(SelfSubjectAccessReview)), body
                )
            except Unauthorized:
                raise
            except ApiError:
                return False
        return bool((answer.get("status") or {}).get("allowed"))

    def client(self, session: Session) -> Client:
        return self._clients.get(session.token)

    async def close(self) -> None:
        await self._clients.close()


def _review(kind: str, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    group = "authentication.k8s.io/v1" if kind == "SelfSubjectReview" else "authorization.k8s.io/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {}, **({"spec": spec} if spec is not None else {})}


class Rights:
    """Checks of rights, each used again for half a minute."""

    def __init__(self, authority: Authority, now: Callable[[], datetime]) -> None:
        self._authority = authority
        self._now = now
        self._visibility: dict[str, tuple[datetime, frozenset[str], Visibility]] = {}
        self._allowed: dict[tuple[str, Action], tuple[datetime, bool]] = {}

    async def visibility(self, session: Session, namespaces: Iterable[str]) -> Visibility:
        """What the user may list, of these namespaces."""
        present = frozenset(namespaces)
        known = self._visibility.get(session.digest)
        if known is not None and known[1] == present and self._now() - known[0] < RECHECK:
            return known[2]
        found = await self._check_visibility(session, present)
        if len(self._visibility) > MAX_KNOWN:
            self._visibility.clear()
        self._visibility[session.digest] = (self._now(), present, found)
        return found

    async def _check_visibility(self, session: Session, present: frozenset[str]) -> Visibility:
        wide = (CLUSTERS, REBALANCERS, POLICIES, CLUSTER_BINDINGS, *NAMESPACED.values())
        allowed = await self._authority.allows(session, [Action("list", *resource) for resource in wide])
        clusters, rebalances, policy, cluster_bindings = allowed[:4]
        spaces: dict[str, frozenset[str] | None] = {}
        for (name, resource), everywhere in zip(NAMESPACED.items(), allowed[4:], strict=True):
            spaces[name] = None if everywhere else await self._namespaces(session, resource, present)
        if not cluster_bindings and spaces["workloads"] is None:
            spaces["workloads"] = present - {""}
        if cluster_bindings and spaces["workloads"] is not None:
            spaces["workloads"] |= {""}
        shown = spaces["workloads"]
        hidden = 0 if shown is None else len({name for name in present if name} - shown)
        return Visibility(clusters, rebalances, policy, **spaces, hidden=hidden)

    async def _namespaces(self, session: Session, resource: tuple[str, str], present: frozenset[str]) -> frozenset[str]:
        named = sorted(name for name in present if name)
        actions = [Action("list", *resource, namespace=name) for name in named]
        allowed = await self._authority.allows(session, actions)
        return frozenset(name for name, yes in zip(named, allowed, strict=True) if yes)

    async def allows(self, session: Session, action: Action) -> bool:
        """Whether the user may do this; the API decides again when it is done."""
        known = self._allowed.get((session.digest, action))
        if known is None or self._now() - known[0] >= RECHECK:
            if len(self._allowed) > MAX_KNOWN:
                self._allowed.clear()
            (allowed,) = await self._authority.allows(session, [action])
            known = self._allowed[session.digest, action] = (self._now(), allowed)
        return known[1]

    def forget(self, session: Session) -> None:
        self._visibility.pop(session.digest, None)

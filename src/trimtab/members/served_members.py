"""The members that this process serves, and the clients with which it reaches them."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.config import Secret
from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.controllers.clusters.served import OWNED_MEMBERS, PUSHES_ONLY, SIMULATED_SUFFIX, is_served_by
from trimtab.members.member_client import client_from_secret
from trimtab.runtime.cache import Cache

Connect = Callable[[Cluster], Client | None]


class ServedMembers:
    """Decides for each cluster whether this process serves it, and connects to it.

    A control plane serves the Push clusters, an agent its own cluster. Where several processes share the members, each
    serves those whose Lease it holds; `own` and `disown` change which these are.
    """

    def __init__(
        self,
        cache: Cache,
        settings: dict[str, Any],
        connect: Connect | None = None,
        check_lease: Callable[[], None] | None = None,
        check_member: Callable[[str], None] | None = None,
        check_release: Callable[[], None] | None = None,
    ) -> None:
        """`connect` finds members in this process; the checks raise when this process may not write to a member."""
        self._cache = cache
        self._settings = settings
        self._connect = connect
        self._check_lease = check_lease
        self._check_member = check_member
        self._check_release = check_release

    def connect(self, cluster: Cluster) -> Client | None:
        """A client for a cluster that this process serves; None for others, and without credentials."""
        if not is_served_by(cluster, self._agent):
            return None  # only its own agent connects to a Pull cluster, and an agent connects to no other cluster
        if self._settings.get(PUSHES_ONLY) and cluster.name not in self._settings[OWNED_MEMBERS]:
            return None
        if self._connect is not None and (client := self._connect(cluster)) is not None:
            return client
        return client_from_secret(cluster, self.secret, partial(self._check_write, cluster.name))

    def _check_write(self, cluster: str) -> None:
        if self._check_release is not None:
            self._check_release()
        if self._check_member is not None:
            self._check_member(cluster)
        elif self._check_lease is not None:
            self._check_lease()

    def connect_for_search(self, cluster: Cluster) -> Client | None:
        """A client that only reads; the search covers Pull clusters as well, if there are credentials for them."""
        if self._connect is not None and (client := self._connect(cluster)) is not None:
            return client
        return client_from_secret(cluster, self.secret, partial(self._check_write, cluster.name))

    def is_served(self, cluster: Cluster) -> bool:
        """Whether this process writes to the cluster."""
        owned = self._settings.get(OWNED_MEMBERS)
        is_owned = owned is None or cluster.name in owned
        return is_owned and is_served_by(cluster, self._agent)

    def is_probed(self, cluster: Cluster) -> bool:
        """Whether this process probes the cluster: not one that another process simulates."""
        is_elsewhere = self._connect is None and cluster.spec.api_endpoint.endswith(SIMULATED_SUFFIX)
        return self.is_served(cluster) and not is_elsewhere

    def clusters(self) -> list[Cluster]:
        """The clusters that this process writes to."""
        return [cluster for cluster in self._all_clusters() if self.is_served(cluster)]

    def push_members(self) -> list[str]:
        """The names of all Push clusters, whoever serves them."""
        return [cluster.name for cluster in self._all_clusters() if is_served_by(cluster, "")]

    def own(self, member: str) -> None:
        """Serve the member from now on; this process holds its Lease."""
        self._set_owned({*self._settings[OWNED_MEMBERS], member})

    def disown(self, member: str) -> None:
        self._set_owned({*self._settings[OWNED_MEMBERS]} - {member})

    def secret(self, namespace: str, name: str) -> Raw | None:
        """A cached Secret of the host."""
        table = self._cache.find_table(kind_of(Secret).id)
        entry = table.entries.get((namespace, name)) if table is not None else None
        return entry.raw if entry else None

    @property
    def _agent(self) -> str:
        """The member whose agent this process is; empty in a control plane."""
        return str(self._settings.get("agent", ""))

    def _set_owned(self, members: set[str]) -> None:
        self._settings[OWNED_MEMBERS] = frozenset(members)

    def _all_clusters(self) -> list[Cluster]:
        return [cast("Cluster", entry.typed) for entry in self._cache.table_of(Cluster).entries.values()]

"""The explanation of a decision as values; `explain` makes them."""

from datetime import datetime

from trimtab.api.value import Value


class ClusterRejection(Value):
    """Which filter rejected a cluster, with reason code and message."""

    plugin: str
    code: str
    message: str


class ClusterExplanation(Value):
    """How one cluster was evaluated."""

    name: str
    refused: ClusterRejection | None = None
    rejections: tuple[ClusterRejection, ...] = ()
    """What every filter that rejects the cluster says; `refused` is the first of them."""
    limited: ClusterRejection | None = None
    """Why the cluster gets no more replicas than it has."""
    scores: dict[str, int] = {}
    prioritizers: dict[str, int] = {}
    total: int = 0
    """The weighted sum of the prioritizers."""
    overflow: int = 0
    """0: one of the group's own clusters; n: added by its n-th overflow affinity."""
    before: int = 0
    """The replicas in the cluster before the decision."""
    fits: int | None = None
    """How many more replicas it can take."""
    selected: bool = False
    """Selected by the spread constraints."""
    replicas: int | None = None
    """Its share of the replicas; absent when it gets none."""


class AffinityGroupExplanation(Value):
    """The result for one affinity group."""

    name: str
    message: str = ""
    """Why it was not selected; empty when it was."""


class Explanation(Value):
    """The complete explanation of one decision."""

    ok: bool
    message: str
    strategy: str
    mode: str
    """Steady keeps existing placements as far as possible; Fresh ignores them."""
    affinity_name: str = ""
    groups: tuple[AffinityGroupExplanation, ...] = ()
    clusters: tuple[ClusterExplanation, ...] = ()
    filters: tuple[str, ...] = ()
    """All filters that were evaluated, in their order."""
    rule: str = ""
    """How replicas were divided."""
    tie_break: str = ""
    valid_until: datetime | None = None
    """When the decision may become outdated by time alone; absent: never."""
    decided_at: datetime | None = None

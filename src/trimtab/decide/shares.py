"""Replicas per cluster, by column of the fleet."""

from collections.abc import Mapping, Sequence
from itertools import compress, repeat
from typing import NamedTuple, TypeAlias

import numpy as np

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Array, Fleet

Selected: TypeAlias = Array | list[int]
"""An array is in name order, a list in order of selection."""


class ReplicaShares(NamedTuple):
    """Replicas by column of the fleet in name order: one number per column, or one for all."""

    columns: Sequence[int] | Array
    replicas: Sequence[int] | int

    def by_name(self, fleet: Fleet[Cluster]) -> list[tuple[str, int]]:
        if isinstance(self.columns, np.ndarray):
            names = fleet.names_at(self.columns)
        else:
            names = [fleet.names[column] for column in self.columns]
        return list(zip(names, repeat(self.replicas) if isinstance(self.replicas, int) else self.replicas))  # noqa: B905 - repeat is infinite

    def by_column(self) -> dict[int, int]:
        columns = self.columns.tolist() if isinstance(self.columns, np.ndarray) else self.columns
        if isinstance(self.replicas, int):
            return dict.fromkeys(columns, self.replicas)
        return dict(zip(columns, self.replicas, strict=True))


def as_list(selected: Selected) -> list[int]:
    return selected if isinstance(selected, list) else selected.tolist()


def sort_by_name(selected: Selected) -> Selected:
    return sorted(selected) if isinstance(selected, list) else selected


def one_share(column: int, replicas: int) -> ReplicaShares:
    return ReplicaShares([column] if replicas else [], replicas)


def nonzero_shares(columns: Sequence[int], replicas: Sequence[int]) -> ReplicaShares:
    return ReplicaShares(list(compress(columns, replicas)), [count for count in replicas if count])


def shares_in_order(columns: Sequence[int], replicas: Sequence[int]) -> ReplicaShares:
    """The shares of these columns, of which those without replicas may be missing at the end."""
    if len(replicas) <= len(columns) and replicas and replicas[0] == 1:
        return ReplicaShares(sorted(columns[: sum(replicas)]), 1)  # larger shares come first
    share_of = dict(zip(columns, replicas, strict=False))
    used = sorted(share_of if replicas and replicas[-1] else [column for column, count in share_of.items() if count])
    return ReplicaShares(used, [share_of[column] for column in used])


def shares_of(replicas: Mapping[int, int], *, keep_empty: bool = False) -> ReplicaShares:
    used = sorted(column for column, count in replicas.items() if count or keep_empty)
    return ReplicaShares(used, [replicas[column] for column in used])

"""Clusters as score providers receive them."""

from trimtab.decide.ocm.score_provider import ProviderCluster


def provider_cluster(name: str, **fields: object) -> ProviderCluster:
    empty: dict[str, object] = {field: {} for field in ProviderCluster._fields[1:]}
    return ProviderCluster(name, **{**empty, **fields})  # type: ignore[arg-type]

"""Clusters as score providers receive them."""

from trimtab.decide.ocm.score_provider import Seen


def seen(name: str, **fields: object) -> Seen:
    empty: dict[str, object] = {field: {} for field in Seen._fields[1:]}
    return Seen(name, **{**empty, **fields})  # type: ignore[arg-type]

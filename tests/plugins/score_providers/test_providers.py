import pytest

from trimtab.decide.ocm.score_provider import Seen
from trimtab.errors import InputFault
from trimtab.plugins.score_providers.headroom import headroom
from trimtab.plugins.score_providers.price import ANNOTATION, price


def seen(name: str, **fields: object) -> Seen:
    empty: dict[str, object] = {field: {} for field in Seen._fields[1:]}
    return Seen(name, **{**empty, **fields})  # type: ignore[arg-type]


def test_headroom_is_the_free_share_and_the_scarcer_resource_decides() -> None:
    room = {"cpu": 10.0, "memory": 100.0}
    (sheet,) = headroom([seen("a", allocatable=room, allocated={"cpu": 5.0, "memory": 25.0})], {})
    assert sheet.scores == {"cpu": 0, "memory": 50, "headroom": 0}


def test_a_cluster_that_reports_no_use_gets_no_headroom() -> None:
    assert list(headroom([seen("a", allocatable={"cpu": 10.0})], {})) == []


def test_the_cheapest_cluster_is_the_best() -> None:
    clusters = [seen("a"), seen("b"), seen("c", annotations={ANNOTATION: "2.5"}), seen("d")]
    found = {s.cluster: s.scores["price"] for s in price(clusters, {"prices": "cluster,price\na,1\nb,4\n"})}
    assert found == {"a": 100, "b": -100, "c": 0}


def test_a_line_that_is_no_price_is_named() -> None:
    with pytest.raises(InputFault, match="line 2"):
        list(price([seen("a")], {"prices": "a,1\nb,much\n"}))
    with pytest.raises(InputFault, match="annotation"):
        list(price([seen("a", annotations={ANNOTATION: "much"})], {}))

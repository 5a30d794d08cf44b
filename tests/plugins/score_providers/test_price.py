import pytest

from plugins.score_providers.provider_inputs import provider_cluster
from trimtab.errors import InputError
from trimtab.plugins.score_providers.price import ANNOTATION, price


def test_the_cheapest_cluster_scores_highest() -> None:
    clusters = [
        provider_cluster("a"),
        provider_cluster("b"),
        provider_cluster("c", annotations={ANNOTATION: "2.5"}),
        provider_cluster("d"),
    ]
    found = {s.cluster: s.scores["price"] for s in price(clusters, {"prices": "cluster,price\na,1\nb,4\n"})}
    assert found == {"a": 100, "b": -100, "c": 0}


def test_an_invalid_price_is_reported_with_its_source() -> None:
    with pytest.raises(InputError, match="line 2"):
        list(price([provider_cluster("a")], {"prices": "a,1\nb,much\n"}))
    with pytest.raises(InputError, match="annotation"):
        list(price([provider_cluster("a", annotations={ANNOTATION: "much"})], {}))

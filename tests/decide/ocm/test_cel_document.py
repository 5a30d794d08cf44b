"""The JSON form of a managed cluster for CEL expressions, with the fields that OCM always sets."""

import msgspec

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.decide.ocm.cel_document import cel_document


def cluster(**fields: object) -> ManagedCluster:
    return msgspec.convert({"metadata": {"name": "c1"}, **fields}, ManagedCluster)


def test_fields_that_go_always_writes_are_there() -> None:
    document = cel_document(cluster())
    assert document["spec"]["hubAcceptsClient"] is False
    assert document["status"]["conditions"] is None
    assert document["status"]["version"] == {}


def test_taint_without_a_time_has_an_empty_one() -> None:
    document = cel_document(cluster(spec={"taints": [{"key": "a", "effect": "NoSelect"}]}))
    assert document["spec"]["taints"][0]["timeAdded"] is None


def test_quantities_are_in_their_canonical_form() -> None:
    document = cel_document(cluster(status={"allocatable": {"cpu": "1000m", "memory": "1024Mi", "odd": "many"}}))
    assert document["status"]["allocatable"] == {"cpu": "1", "memory": "1Gi", "odd": "many"}

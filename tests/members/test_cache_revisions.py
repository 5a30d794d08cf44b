"""Versions of the search proxy name how far a client has seen each cluster."""

import pytest

from trimtab.errors import BadRequest
from trimtab.members.cache_revisions import as_proxied, as_stored, decode_revisions, encode_revisions

NODE = {"kind": "Node", "metadata": {"name": "n", "resourceVersion": "7"}}


def test_versions_of_all_clusters_survive_the_round_trip() -> None:
    assert decode_revisions(encode_revisions({"b": "2", "a": "1"})) == {"a": "1", "b": "2"}
    assert encode_revisions({"b": "2", "a": "1"}) == encode_revisions({"a": "1", "b": "2"})
    assert decode_revisions("") == decode_revisions("0") == {}


@pytest.mark.parametrize("text", ["17", "%", "W10", "eyJhIjoxfQ"])
def test_other_versions_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="search proxy"):
        decode_revisions(text)


def test_shown_object_is_sent_back_as_its_cluster_stored_it() -> None:
    shown = as_proxied(NODE, "east", {"west": "3"})
    assert decode_revisions(shown["metadata"]["resourceVersion"]) == {"east": "7", "west": "3"}
    assert as_stored(shown, "east") == NODE
    assert "annotations" not in NODE["metadata"]

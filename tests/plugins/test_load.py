import sys
from importlib import metadata
from pathlib import Path

import pytest

from plugins.clusters import fleet, member, placement_request
from trimtab import plugins
from trimtab.decide.framework import filters, node_filters, prioritizers, scores
from trimtab.decide.karmada import decide
from trimtab.decide.request import FeatureGates

OUT_OF_TREE = """
from trimtab.decide.framework import Reason, filter_plugin


@filter_plugin("NoOddNames", reads=lambda ask: None)
def no_odd_names(ask, fleet):
    return lambda cluster: Reason("Odd", "cluster(s) have an odd name") if cluster.name.endswith("odd") else None
"""
METADATA = "Metadata-Version: 2.1\nName: somebody-elses\nVersion: 1.0\n"


def test_every_plugin_package_is_loaded() -> None:
    plugins.load()
    assert "TaintToleration" in filters
    assert "ClusterLocality" in scores
    assert "AddOn" in prioritizers
    assert len(node_filters) > 0


def test_a_plugin_of_another_distribution_is_loaded_by_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "somebody_elses.py").write_text(OUT_OF_TREE)
    info = tmp_path / "somebody_elses-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text("[trimtab.plugins]\nodd = somebody_elses\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [entry.name for entry in metadata.entry_points(group=plugins.ENTRY_POINT_GROUP)] == ["odd"]
    plugins.load.cache_clear()
    try:
        plugins.load()
        all_clusters = fleet(member("even"), member("odd"))
        assert [name for name, _ in decide(placement_request(), all_clusters).clusters] == ["even"]
        everyone = placement_request(feature_gates=FeatureGates(disabled_plugins=frozenset({"NoOddNames"})))
        assert [name for name, _ in decide(everyone, all_clusters).clusters] == ["even", "odd"]
    finally:
        filters._entries.pop("NoOddNames", None)
        sys.modules.pop("somebody_elses", None)
        plugins.load.cache_clear()
        plugins.load()

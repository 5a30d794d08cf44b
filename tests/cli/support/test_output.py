"""Output formats."""

from datetime import UTC, datetime

import yaml
from builders import cluster

from trimtab.cli.support.output import format_objects, format_structured


def test_values_are_printed_as_json_and_yaml_with_times_as_text() -> None:
    value = {"b": datetime(2030, 1, 1, tzinfo=UTC), "a": (1,)}
    assert format_structured(value, "yaml") == "b: '2030-01-01T00:00:00Z'\na:\n- 1"
    assert '"b": "2030-01-01T00:00:00Z"' in format_structured(value, "json")


def test_objects_are_printed_as_names_or_as_a_list() -> None:
    assert format_objects([cluster("a"), cluster("b")], "name") == "cluster/a\ncluster/b"
    listed = yaml.safe_load(format_objects([cluster("a")], "yaml"))
    assert (listed["kind"], listed["items"][0]["kind"], listed["items"][0]["metadata"]["name"]) == (
        "List",
        "Cluster",
        "a",
    )

import asyncio
from pathlib import Path
from typing import Any

import pytest

from trimtab.api.value import Raw
from trimtab.cli.commands.score import ScorePublisher, load_provider, read_options
from trimtab.client.client import Listing, Resource
from trimtab.errors import InputError, NotFound

PROVIDER = """
def provide(clusters, options):
    for cluster in clusters:
        yield cluster.name, {"x": len(cluster.name) + int(options.get("more", 0))}, 60
"""


class FakeServer:
    """A fake API server that keeps scores in memory."""

    def __init__(self, *clusters: str, namespaces: tuple[str, ...] = ()) -> None:
        self.clusters, self.namespaces = clusters, namespaces
        self.scores: dict[str, Raw] = {}

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        if resource.plural == "managedclusters":
            raise NotFound("the server could not find the requested resource")
        if resource.plural == "clusters":
            return Listing([{"metadata": {"name": name}} for name in self.clusters], "1")
        return Listing(list(self.scores.values()), "1")

    async def create(self, resource: Resource, obj: Raw, **_: Any) -> Raw:
        namespace = obj["metadata"]["namespace"]
        if namespace not in self.namespaces:
            raise NotFound(f'namespaces "{namespace}" not found')
        self.scores[namespace] = {**obj, "metadata": {**obj["metadata"], "resourceVersion": "1"}}
        return self.scores[namespace]

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Raw, **_: Any) -> Raw:
        self.scores[namespace] |= patch
        return self.scores[namespace]


def write_provider(folder: Path, text: str = PROVIDER) -> str:
    path = folder / "mine.py"
    path.write_text(text)
    return str(path)


def test_python_file_with_provide_is_a_provider(tmp_path: Path) -> None:
    server = FakeServer("m1", "m22", namespaces=("m1", "m22"))
    publisher = ScorePublisher(load_provider(write_provider(tmp_path)), "mine", 300, ["more=1"])
    for _ in range(2):
        summary = asyncio.run(publisher.publish(server))  # type: ignore[arg-type]
    assert summary == "mine: published scores of 2 clusters"
    assert {name: raw["status"]["scores"] for name, raw in server.scores.items()} == {
        "m1": [{"name": "x", "value": 3}],
        "m22": [{"name": "x", "value": 4}],
    }


def test_missing_namespace_is_reported_and_the_other_scores_are_written(tmp_path: Path) -> None:
    server = FakeServer("m1", "m2", namespaces=("m2",))
    summary = asyncio.run(ScorePublisher(load_provider(write_provider(tmp_path)), "mine", 300, []).publish(server))  # type: ignore[arg-type]
    assert summary == "mine: published scores of 1 cluster; missing namespaces: m1"


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    server = FakeServer("m1")
    summary = asyncio.run(ScorePublisher(load_provider(write_provider(tmp_path)), "mine", 300, []).show(server))  # type: ignore[arg-type]
    assert summary.split() == ["CLUSTER", "SCORE", "VALUE", "m1", "x", "2"]
    assert server.scores == {}


def test_unknown_provider_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="headroom, price"):
        load_provider("nosuch")
    with pytest.raises(InputError, match="has no function `provide"):
        load_provider(write_provider(tmp_path, "x = 1"))
    assert callable(load_provider("price"))


def test_options_can_be_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("a,1\n")
    assert read_options([f"prices=@{tmp_path / 'p.csv'}", "x=1=2"]) == {"prices": "a,1\n", "x": "1=2"}
    with pytest.raises(InputError, match="KEY=VALUE"):
        read_options(["x"])
    with pytest.raises(InputError, match="no file"):
        read_options(["x=@nowhere"])

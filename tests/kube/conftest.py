"""Skips what needs a real control plane where its binaries are missing, and starts one where they are not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kube.rig import ControlPlane, Unavailable, assets


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    if not here:
        return
    try:
        assets()
    except Unavailable as reason:
        for item in here:
            item.add_marker(pytest.mark.skip(reason=f"{item.name}: {reason}"))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane("host", tmp_path_factory.mktemp("kube")) as plane:
        yield plane


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane("member", tmp_path_factory.mktemp("kube"), controllers=True, scheduler=True) as plane:
        yield plane

"""Clusters by name."""

import pytest
from move_helpers import MoveScenario, run_scenario

from trimtab.cli.support.clusters import get_cluster
from trimtab.errors import InputError


def test_a_wrong_name_lists_the_clusters() -> None:
    async def act(scene: MoveScenario) -> None:
        assert (await get_cluster(scene.client, "m1"))["metadata"]["name"] == "m1"
        with pytest.raises(InputError, match="there is no cluster 'x'; clusters: m1, m2"):
            await get_cluster(scene.client, "x")

    run_scenario(act, members=2)

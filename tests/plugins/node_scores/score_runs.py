"""Scores nodes for one pod."""

from collections.abc import Mapping

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import explain


def scores_by_node(
    plugin: str, request: Pod, nodes: list[Node], running: list[Pod] | None = None
) -> Mapping[str, int | None]:
    opinions = explain(request, NodeSnapshot.of(nodes, running or []))
    return {opinion.node: opinion.scores.get(plugin) for opinion in opinions}

"""Scores nodes for one pod."""

from collections.abc import Mapping

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.schedule import explain


def marks(plugin: str, asked: Pod, nodes: list[Node], running: list[Pod] | None = None) -> Mapping[str, int | None]:
    opinions = explain(asked, NodeFleet.of(nodes, running or []))
    return {opinion.node: opinion.marks.get(plugin) for opinion in opinions}

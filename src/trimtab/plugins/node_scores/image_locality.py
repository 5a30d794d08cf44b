"""Prefer nodes that already have the pod's images, more so the larger and more widespread these are."""

from functools import partial

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, Scorer, node_score
from trimtab.decide.pods.fit.requests import image_names
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.request import PodRequest

MIN_IMAGE_BYTES = 23 << 20
MAX_IMAGE_BYTES_PER_CONTAINER = 1000 << 20


def scaled_image_sizes(request: PodRequest, nodes: Fleet[NodeInfo]) -> Array:
    """For every node, the sizes of the pod's images it has, each scaled by the share of nodes that have it."""
    total = np.zeros(len(nodes), dtype=np.int64)
    for image in image_names(request.pod.spec):
        sizes = nodes.column(("image", image), partial(partial, _size, image), np.int64, ignores_load=True)
        if owners := np.count_nonzero(sizes):
            total += (sizes * (owners / max(1, request.node_count))).astype(np.int64)
    return total


def _size(image: str, node_info: NodeInfo) -> int:
    return next((one.size_bytes for one in node_info.node.status.images if image in one.names), 0)


def image_scores(request: PodRequest, nodes: Fleet[NodeInfo], feasible: Mask) -> Array:
    sizes = scaled_image_sizes(request, nodes)
    if not np.count_nonzero(sizes):
        return sizes  # no node has any of the images: all are equal
    containers = len(request.pod.spec.containers) + len(request.pod.spec.init_containers)
    largest = MAX_IMAGE_BYTES_PER_CONTAINER * max(1, containers)
    clamped = np.clip(sizes, MIN_IMAGE_BYTES, largest)
    scores: Array = 100 * (clamped - MIN_IMAGE_BYTES) // (largest - MIN_IMAGE_BYTES)
    return scores


@node_score("ImageLocality", array=image_scores)
def image_locality(request: PodRequest, nodes: Fleet[NodeInfo]) -> Scorer[NodeInfo]:
    scores = image_scores(request, nodes, np.ones(len(nodes), dtype=bool))
    return lambda node_info: int(scores[nodes.index[node_info.name]])

"""Prefer nodes that already have the pod's images, more so the larger and more widespread these are."""

from functools import partial

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Grade, Mask, node_score
from trimtab.decide.pods.fit.requests import images
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.request import PodAsk

SMALLEST = 23 << 20
LARGEST_PER_CONTAINER = 1000 << 20


def spread_sizes(ask: PodAsk, hosts: Fleet[Host]) -> Array:
    """For every node, the sizes of the pod's images it has, each scaled by the share of nodes that have it."""
    total = np.zeros(len(hosts), dtype=np.int64)
    for image in images(ask.pod.spec):
        sizes = hosts.column(("image", image), partial(partial, _size, image), np.int64)
        if sizes.any():
            share = np.count_nonzero(sizes) / max(1, ask.nodes)
            total += (sizes * share).astype(np.int64)
    return total


def _size(image: str, here: Host) -> int:
    return next((one.size_bytes for one in here.node.status.images if image in one.names), 0)


def grades(ask: PodAsk, hosts: Fleet[Host], feasible: Mask) -> Array:
    sizes = spread_sizes(ask, hosts)
    if not sizes.any():
        return sizes  # no node has any of the images: all are equal
    containers = len(ask.pod.spec.containers) + len(ask.pod.spec.init_containers)
    largest = LARGEST_PER_CONTAINER * max(1, containers)
    clamped = np.clip(sizes, SMALLEST, largest)
    scores: Array = 100 * (clamped - SMALLEST) // (largest - SMALLEST)
    return scores


@node_score("ImageLocality", evaluate_all=grades)
def image_locality(ask: PodAsk, hosts: Fleet[Host]) -> Grade[Host]:
    scores = grades(ask, hosts, np.ones(len(hosts), dtype=bool))
    return lambda node_info: int(scores[hosts.index[node_info.name]])

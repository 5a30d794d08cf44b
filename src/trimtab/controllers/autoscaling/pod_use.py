"""Reads what the pods of a workload use, in every cluster in which it runs."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from trimtab.api.selectors import format_selector
from trimtab.api.value import Raw
from trimtab.controllers.contract import ReadPodUse, Topic, View
from trimtab.decide.autoscale import PodSample

SYNC_SECONDS = 15.0
"""How often autoscalers decide."""


class PodReading(NamedTuple):
    at: datetime
    """On the clock for durations."""
    pods: tuple[PodSample, ...]


POD_USE: Topic[ReadPodUse, PodReading] = Topic("pod use")


class PodUse(NamedTuple):
    """The pods as last read, and the readings that are due."""

    pods: tuple[PodSample, ...]
    due: tuple[ReadPodUse, ...]


def pod_use_of(template: Raw, clusters: Iterable[str], view: View) -> PodUse:
    """What is known about the pods that the template selects; a reading is due when it is older than a period."""
    namespace = template["metadata"].get("namespace", "")
    selector = format_selector((template.get("spec") or {}).get("selector") or {})
    pods: list[PodSample] = []
    due: list[ReadPodUse] = []
    for cluster in clusters:
        reading = ReadPodUse(cluster, namespace, selector)
        found = view.recall(POD_USE, reading)
        if found is None or (view.steady_now - found.at).total_seconds() >= SYNC_SECONDS - 1:
            due.append(reading)
        if found is not None:
            pods.extend(sample._replace(name=f"{cluster}/{sample.name}") for sample in found.pods)
    return PodUse(tuple(pods), tuple(due))

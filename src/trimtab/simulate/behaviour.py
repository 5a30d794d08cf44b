"""How the containers of a pod behave on a simulated node: how long they take, and what goes wrong with them."""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.simulate.fleet import Pace

ANNOTATION = "simulate.trimtab.dev/"
NOT_READY_ON = "fakelet/notready-on"


class Behaviour(NamedTuple):
    """What one pod will do."""

    start: float
    ready: float
    stop: float
    run: float | None
    """Seconds until it ends well by itself; None is never."""
    crash: float | None = None
    """Seconds until it ends badly, each time it is started; None is never."""
    reason: str = "Error"
    """Why it ends badly: `Error`, or `OOMKilled`."""
    exit_code: int = 1
    healthy: bool = True
    """Whether it ever becomes ready."""


class Spell(NamedTuple):
    """Makes some pods behave otherwise than usual, as long as it lasts."""

    name: str
    changes: Mapping[str, Any]
    """Fields of `Behaviour`."""
    namespace: str = ""
    selector: LabelSelector = LabelSelector()
    node: str = ""

    def holds(self, pod: Pod) -> bool:
        return (
            self.namespace in ("", pod.metadata.namespace)
            and self.node in ("", pod.spec.node_name)
            and self.selector.matches(pod.metadata.labels)
        )


CRASH: Mapping[str, Any] = {"crash": 1.0, "reason": "Error", "exit_code": 1}
OUT_OF_MEMORY: Mapping[str, Any] = {"crash": 5.0, "reason": "OOMKilled", "exit_code": 137}
NEVER_READY: Mapping[str, Any] = {"healthy": False}


def usual(pod: Pod, pace: Pace, dice: random.Random, cluster: str) -> Behaviour:
    """What a pod does by the pace of its cluster and by what it says itself."""

    def drawn(seconds: float) -> float:
        """In steps, as kubelets look at their containers in steps: what happens together is told together."""
        return round(seconds * (1 + pace.jitter * dice.random()), 1) if pace.jitter and seconds else seconds

    owner = pod.controller
    ends = pod.spec.restart_policy in ("Never", "OnFailure") and (owner is None or owner.kind == "Job")
    plain = Behaviour(
        drawn(pace.start),
        drawn(pace.ready),
        drawn(pace.stop),
        drawn(pace.run) if ends else None,
        healthy=pod.metadata.labels.get(NOT_READY_ON) != cluster,
    )
    return _as_it_says(pod, plain)


_READ: Mapping[str, Callable[[str], Any]] = {
    "start": float,
    "ready": float,
    "stop": float,
    "run": float,
    "crash": float,
    "reason": str,
    "exit-code": int,
    "healthy": lambda text: text != "false",
}


def _as_it_says(pod: Pod, plain: Behaviour) -> Behaviour:
    """Annotations `simulate.trimtab.dev/start: "5"` and their like; what cannot be read is passed over."""
    for key, text in pod.metadata.annotations.items():
        if key.startswith(ANNOTATION) and (read := _READ.get(field := key.removeprefix(ANNOTATION))):
            try:
                plain = plain._replace(**{field.replace("-", "_"): read(text)})
            except ValueError:
                continue
    return plain

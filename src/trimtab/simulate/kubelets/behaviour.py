"""How the containers of a pod behave on a simulated node: how long each phase takes, and how they fail."""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.simulate.fleet import Pace

ANNOTATION_PREFIX = "simulate.trimtab.dev/"


class Behaviour(NamedTuple):
    """Timing and failures of one pod."""

    start: float
    ready: float
    stop: float
    run: float | None
    """Seconds until it exits successfully; None means never."""
    crash: float | None = None
    """Seconds until it fails, counted from each start; None means never."""
    reason: str = "Error"
    """Termination reason of the failure: `Error` or `OOMKilled`."""
    exit_code: int = 1
    healthy: bool = True
    """Whether it ever becomes ready."""
    runs_program: bool = True
    """Whether containers run what their image and arguments ask for; annotations about their end take precedence."""


class BehaviourOverride(NamedTuple):
    """Changes the behaviour of the pods it selects, until it is removed."""

    name: str
    changes: Mapping[str, Any]
    """Fields of `Behaviour`."""
    namespace: str = ""
    selector: LabelSelector = LabelSelector()
    node: str = ""

    def applies_to(self, pod: Pod) -> bool:
        return (
            self.namespace in ("", pod.metadata.namespace)
            and self.node in ("", pod.spec.node_name)
            and self.selector.matches(pod.metadata.labels)
        )


CRASH: Mapping[str, Any] = {"crash": 1.0, "reason": "Error", "exit_code": 1}
OUT_OF_MEMORY: Mapping[str, Any] = {"crash": 5.0, "reason": "OOMKilled", "exit_code": 137}
NEVER_READY: Mapping[str, Any] = {"healthy": False}


def default_behaviour(pod: Pod, pace: Pace, rng: random.Random) -> Behaviour:
    """The behaviour that the pace of the cluster and the annotations of the pod define."""

    def with_jitter(seconds: float) -> float:
        """Rounded to 0.1 s, because kubelets sync in intervals: pods that change together are reported together."""
        return round(seconds * (1 + pace.jitter * rng.random()), 1) if pace.jitter and seconds else seconds

    owner = pod.controller
    ends = pod.spec.restart_policy in ("Never", "OnFailure") and (owner is None or owner.kind == "Job")
    behaviour = Behaviour(
        with_jitter(pace.start),
        with_jitter(pace.ready),
        with_jitter(pace.stop),
        with_jitter(pace.run) if ends else None,
    )
    return _with_annotations(pod, behaviour)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "start": float,
    "ready": float,
    "stop": float,
    "run": float,
    "crash": float,
    "reason": str,
    "exit-code": int,
    "healthy": lambda text: text != "false",
}


def _with_annotations(pod: Pod, behaviour: Behaviour) -> Behaviour:
    """Apply annotations such as `simulate.trimtab.dev/start: "5"`; values that cannot be parsed are ignored."""
    for key, text in pod.metadata.annotations.items():
        if key.startswith(ANNOTATION_PREFIX) and (parse := _PARSERS.get(field := key.removeprefix(ANNOTATION_PREFIX))):
            try:
                behaviour = behaviour._replace(**{field.replace("-", "_"): parse(text)})
                if field in ("run", "crash"):
                    behaviour = behaviour._replace(runs_program=False)
            except ValueError:
                continue
    return behaviour


class PodBehaviours:
    """The behaviour of every pod of a cluster, with the overrides set at present."""

    def __init__(self, pace: Pace, rng: random.Random) -> None:
        self._pace, self._rng = pace, rng
        self.overrides: dict[str, BehaviourOverride] = {}

    def of(self, pod: Pod) -> Behaviour:
        behaviour = default_behaviour(pod, self._pace, self._rng)
        for name in sorted(self.overrides):
            if self.overrides[name].applies_to(pod):
                behaviour = behaviour._replace(**self.overrides[name].changes)
        return behaviour

    def add_override(self, override: BehaviourOverride) -> None:
        self.overrides[override.name] = override

    def remove_override(self, name: str) -> BehaviourOverride | None:
        return self.overrides.pop(name, None)

"""What a stock kube-apiserver fills in for new pods beyond their defaults: their priority and their patience."""

from typing import NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.server.admission import Attributes
from trimtab.server.refuse import forbidden
from trimtab.store.log import Store

CLASSES = "/registry/scheduling.k8s.io/priorityclasses/"
PATIENCE_SECONDS = 300
SILENT_NODES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class PodAdmission(NamedTuple):
    """The Priority and DefaultTolerationSeconds plugins in one."""

    store: Store

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        if (
            attributes.where.served.kind.id != "pods"
            or attributes.operation != "CREATE"
            or attributes.where.subresource
        ):
            return obj
        spec = {**obj["spec"]}
        self._rank(spec, attributes)
        spec["tolerations"] = _patient(spec.get("tolerations") or [])
        return {**obj, "spec": spec}

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        """Nothing more is refused."""

    def _rank(self, spec: Raw, attributes: Attributes) -> None:
        name = spec.get("priorityClassName")
        found = self._named(name) if name else self._usual()
        if name and found is None:
            said = f"no PriorityClass with name {name} was found"
            raise forbidden("pods", "", attributes.where.name, said)
        spec["priority"] = found.get("value", 0) if found else 0
        spec["preemptionPolicy"] = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"
        if found and not name:
            spec["priorityClassName"] = found["metadata"]["name"]

    def _named(self, name: str) -> Raw | None:
        entry = self.store.get(CLASSES + name)
        return orjson.loads(entry.value) if entry else None

    def _usual(self) -> Raw | None:
        """The class that is the default of the cluster; the lowest where there are several."""
        classes = [
            orjson.loads(entry.value) for entry in self.store.list(CLASSES).entries if b"globalDefault" in entry.value
        ]
        return min((one for one in classes if one.get("globalDefault")), key=lambda one: one["value"], default=None)


def _patient(tolerations: list[Raw]) -> list[Raw]:
    missing = [key for key in SILENT_NODES if not any(_covers(one, key) for one in tolerations)]
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_SECONDS}
        for key in missing
    ]
    return [*tolerations, *added]


def _covers(toleration: Raw, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")

"""Every namespace has the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`."""

from collections.abc import Iterator

from trimtab.api.kinds.native.config import ConfigMap, ServiceAccount
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.value import Key, Object, Raw
from trimtab.controllers.contract import Effect, Ensure, Ref, Trigger, View
from trimtab.simulate.components.registry import component

ROOT_CA_SETTING = "root-ca"
ROOT_CA_NAME = "kube-root-ca.crt"
DESCRIPTION = "Contains a CA bundle that can be used to verify the kube-apiserver of this cluster."


def _namespace_of(name: str) -> Trigger:
    """Enqueue the namespace when its object of this name changes or is deleted."""

    def keys(old: Object | None, new: Object | None, view: View) -> Iterator[Key]:
        seen = new or old
        if seen is not None and old is not None and seen.metadata.name == name:
            yield Key("namespaces", "", seen.metadata.namespace)

    return Trigger(ServiceAccount if name == "default" else ConfigMap, keys)


@component(
    Namespace,
    writes=["ServiceAccount", "ConfigMap"],
    triggers=[_namespace_of("default"), _namespace_of(ROOT_CA_NAME)],
)
def namespace_objects(namespace: Namespace, view: View) -> Iterator[Effect]:
    if namespace.metadata.deletion_timestamp is not None:
        return
    name = namespace.metadata.name
    if view.get(ServiceAccount, name, "default") is None:
        yield Ensure(_object("ServiceAccount", name, "default"))
    wanted = {"ca.crt": view.settings.get(ROOT_CA_SETTING, "")}
    seen = view.raw(Ref("v1", "ConfigMap", name, ROOT_CA_NAME))
    if seen is None:
        metadata = {"annotations": {"kubernetes.io/description": DESCRIPTION}}
        made = _object("ConfigMap", name, ROOT_CA_NAME)
        yield Ensure({**made, "metadata": {**made["metadata"], **metadata}, "data": wanted})
    elif seen.get("data") != wanted:
        yield Ensure({**seen, "data": wanted}, seen)


def _object(kind: str, namespace: str, name: str) -> Raw:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}

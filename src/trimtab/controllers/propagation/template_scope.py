"""Templates that are never propagated: those of control planes, and those that every cluster makes for itself."""

import re

from trimtab.api.value import Raw
from trimtab.controllers.contract import View

RESERVED_NAMESPACES = re.compile(r"karmada-system|karmada-cluster|karmada-es-.*|kube-.*|trimtab-system")
OWN_NAMESPACE = "own-namespace"
"""An internal setting: the namespace in which the control plane itself runs, if it is another one."""


def is_reserved(namespace: str, view: View) -> bool:
    """Whether it is a namespace of Kubernetes or of a control plane, with everything in it: nothing there is propagated."""
    if not namespace:
        return False
    return bool(RESERVED_NAMESPACES.fullmatch(namespace)) or namespace == view.settings.get(OWN_NAMESPACE)


def is_generated(template: Raw, view: View) -> bool:
    """Whether every cluster makes an object of this name for itself, so that a copy of it would break a member."""
    metadata = template["metadata"]
    place = (template.get("kind"), metadata.get("namespace", ""), metadata.get("name"))
    is_known = place == ("Service", "default", "kubernetes") or (place[0], place[2]) == (
        "ConfigMap",
        "kube-root-ca.crt",
    )
    return is_known and template.get("apiVersion") == "v1" and view.profile.generated_objects_stay

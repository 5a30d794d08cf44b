"""The objects that run Trimtab in a Kubernetes cluster, as the chart renders them with its default values.

`installation.yaml` is the output of `helm template` without what only Helm needs. A test in `tests/distribution` renders the
chart and compares, so the two cannot drift.
"""

from importlib.resources import files
from typing import Any

import yaml

from trimtab.api.value import Raw

FILE = "installation.yaml"
NAMESPACE, IMAGE = "trimtab-system", "IMAGE"
"""The namespace and the image in the file."""
HELM_LABELS = ("helm.sh/chart",)
MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF, COMPONENT = "app.kubernetes.io/part-of", "app.kubernetes.io/component"
MANAGER = "trimtab-install"


def installation_objects(image: str, namespace: str = NAMESPACE) -> list[Raw]:
    """The namespace, the account with its rights, and the Deployment with two replicas."""
    text = files("trimtab.cli.support").joinpath(FILE).read_text()
    objects = [replace_words(raw, {IMAGE: image, NAMESPACE: namespace}) for raw in yaml.safe_load_all(text)]
    return [namespace_object(namespace), *objects]


def namespace_object(name: str) -> Raw:
    labels = {MANAGED_BY: MANAGER, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def replace_words(value: Any, words: dict[str, str]) -> Any:
    """The value with other words in place of these, also after the `=` of an argument."""
    if isinstance(value, dict):
        return {key: replace_words(inner, words) for key, inner in value.items()}
    if isinstance(value, list):
        return [replace_words(inner, words) for inner in value]
    if not isinstance(value, str):
        return value
    option, equals, given = value.partition("=")
    return f"{option}={words[given]}" if equals and given in words else words.get(value, value)


def without_helm(objects: list[Raw]) -> list[Raw]:
    """Rendered objects without the tests, labels and annotations of Helm."""
    kept = [raw for raw in objects if "helm.sh/hook" not in (raw["metadata"].get("annotations") or {})]
    return [_without_labels(raw) for raw in kept]


def _without_labels(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_labels(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    found = {key: _without_labels(inner) for key, inner in value.items() if key not in HELM_LABELS}
    return {**found, MANAGED_BY: MANAGER} if MANAGED_BY in found else found

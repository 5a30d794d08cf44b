"""Defaulting and validation of OCM kinds, as in Open Cluster Management's webhooks."""

from trimtab.api.field_errors import invalid
from trimtab.api.names import label_faults
from trimtab.api.paths import indexed_objects, object_at, value_at, with_value
from trimtab.api.value import Raw
from trimtab.errors import Cause

SET_LABEL = "cluster.open-cluster-management.io/clusterset"


def add_default_set_label(cluster: Raw) -> Raw:
    """Adds the label of the default cluster set to a cluster without a set."""
    if value_at(cluster, "metadata", "labels", SET_LABEL):
        return cluster
    return with_value(cluster, {**object_at(cluster, "metadata", "labels"), SET_LABEL: "default"}, "metadata", "labels")


def check_managed_cluster(cluster: Raw, old: Raw | None) -> list[Cause]:
    configs = list(indexed_objects(value_at(cluster, "spec", "managedClusterClientConfigs")))
    name = str(value_at(cluster, "metadata", "name") or "")
    causes = [invalid("metadata.name", name, fault) for fault in label_faults(name)] if configs else []
    for i, config in configs:
        url = str(config.get("url", ""))
        if not url.startswith("https://"):
            field = f"spec.managedClusterClientConfigs[{i}].url"
            causes.append(invalid(field, url, "url should be a valid URL with https scheme"))
    return causes


def check_set_binding(binding: Raw, old: Raw | None) -> list[Cause]:
    wanted, name = value_at(binding, "spec", "clusterSet"), value_at(binding, "metadata", "name")
    if wanted == name:
        return []
    detail = "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet"
    return [invalid("spec.clusterSet", wanted, detail)]

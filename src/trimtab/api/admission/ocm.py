"""What Open Cluster Management's webhooks fill in and refuse."""

from trimtab.api.admission.raw import at, mapping, objects, put
from trimtab.api.field_errors import invalid
from trimtab.api.names import label_faults
from trimtab.api.value import Raw
from trimtab.errors import Cause

SET_LABEL = "cluster.open-cluster-management.io/clusterset"


def join_default_set(cluster: Raw) -> Raw:
    """A cluster that names no set belongs to the default one."""
    if at(cluster, "metadata", "labels", SET_LABEL):
        return cluster
    return put(cluster, ("metadata", "labels"), {**mapping(at(cluster, "metadata", "labels")), SET_LABEL: "default"})


def check_managed_cluster(cluster: Raw, old: Raw | None) -> list[Cause]:
    configs = list(objects(at(cluster, "spec", "managedClusterClientConfigs")))
    name = str(at(cluster, "metadata", "name") or "")
    causes = [invalid("metadata.name", name, fault) for fault in label_faults(name)] if configs else []
    for i, config in configs:
        url = str(config.get("url", ""))
        if not url.startswith("https://"):
            field = f"spec.managedClusterClientConfigs[{i}].url"
            causes.append(invalid(field, url, "url should be a valid URL with https scheme"))
    return causes


def check_set_binding(binding: Raw, old: Raw | None) -> list[Cause]:
    wanted, name = at(binding, "spec", "clusterSet"), at(binding, "metadata", "name")
    if wanted == name:
        return []
    why = "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet"
    return [invalid("spec.clusterSet", wanted, why)]

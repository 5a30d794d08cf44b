"""Fields that a member cluster has set in propagated objects and that updates must keep."""

from collections.abc import Callable

from trimtab.api.paths import int_at, object_at, objects_at, string_at, value_at, with_value, without_value
from trimtab.api.value import Raw

RETAIN_REPLICAS = "resourcetemplate.karmada.io/retain-replicas"
TOKEN_SECRET = "kubernetes.io/service-account-token"  # noqa: S105 - the name of a type of Secret

RetainFunction = Callable[[Raw, Raw], Raw]


def _keep_observed(desired: Raw, observed: Raw, *path: str) -> Raw:
    found = value_at(observed, *path)
    return desired if found in (None, "") else with_value(desired, found, *path)


def _copy_observed(desired: Raw, observed: Raw, *path: str) -> Raw:
    found = value_at(observed, *path)
    return without_value(desired, *path) if found in (None, "", []) else with_value(desired, found, *path)


def _retain_deployment(desired: Raw, observed: Raw) -> Raw:
    if string_at(desired, "metadata", "labels", RETAIN_REPLICAS) != "true":
        return desired
    return _keep_observed(desired, observed, "spec", "replicas")


def _retain_pod(desired: Raw, observed: Raw) -> Raw:
    for field in ("nodeName", "serviceAccountName", "volumes"):
        desired = _copy_observed(desired, observed, "spec", field)
    for field in ("containers", "initContainers"):
        if objects_at(desired, "spec", field):
            observed_containers = {
                string_at(container, "name"): container for container in objects_at(observed, "spec", field)
            }
            kept = [
                _retain_volume_mounts(container, observed_containers.get(string_at(container, "name")))
                for container in objects_at(desired, "spec", field)
            ]
            desired = with_value(desired, kept, "spec", field)
    return desired


def _retain_volume_mounts(container: Raw, observed: Raw | None) -> Raw:
    return container if observed is None else _copy_observed(container, observed, "volumeMounts")


def _retain_service(desired: Raw, observed: Raw) -> Raw:
    if (port := int_at(observed, "spec", "healthCheckNodePort")) > 0:
        desired = with_value(desired, port, "spec", "healthCheckNodePort")
    return _keep_observed(desired, observed, "spec", "clusterIP")


def _retain_service_account(desired: Raw, observed: Raw) -> Raw:
    for field in ("secrets", "imagePullSecrets"):
        own = objects_at(desired, field)
        names = {string_at(entry, "name") for entry in own}
        added = [entry for entry in objects_at(observed, field) if string_at(entry, "name") not in names]
        if added:
            desired = with_value(desired, own + added, field)
    return desired


def _retain_claim(desired: Raw, observed: Raw) -> Raw:
    return _keep_observed(desired, observed, "spec", "volumeName")


def _retain_volume(desired: Raw, observed: Raw) -> Raw:
    return _keep_observed(desired, observed, "spec", "claimRef")


def _retain_job(desired: Raw, observed: Raw) -> Raw:
    desired = _keep_observed(desired, observed, "spec", "selector", "matchLabels")
    return _keep_observed(desired, observed, "spec", "template", "metadata", "labels")


def _retain_secret(desired: Raw, observed: Raw) -> Raw:
    if string_at(desired, "type") != TOKEN_SECRET or not object_at(observed, "data"):
        return desired
    return with_value(desired, observed["data"], "data")


RETAIN: dict[tuple[str, str], RetainFunction] = {
    ("apps/v1", "Deployment"): _retain_deployment,
    ("v1", "Pod"): _retain_pod,
    ("v1", "Service"): _retain_service,
    ("v1", "ServiceAccount"): _retain_service_account,
    ("v1", "PersistentVolumeClaim"): _retain_claim,
    ("v1", "PersistentVolume"): _retain_volume,
    ("batch/v1", "Job"): _retain_job,
    ("v1", "Secret"): _retain_secret,
}

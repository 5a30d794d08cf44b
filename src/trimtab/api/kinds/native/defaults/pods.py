"""Defaults of pods: containers, probes, volumes and pod templates."""

from trimtab.api.kinds.native.defaults.fill import Fill, fill_items, fill_member, fill_members, set_missing
from trimtab.api.kinds.native.defaults.storage import field_ref, pod_volume
from trimtab.api.value import Raw


def _image_pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    _, colon, tag = name.partition(":")
    return "Always" if not colon or tag == "latest" else "IfNotPresent"


def _http_get(action: Raw) -> Raw:
    return set_missing(action, path="/", scheme="HTTP")


def _probe(probe: Raw) -> Raw:
    probe = set_missing(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    probe = fill_member(probe, "grpc", lambda action: set_missing(action, service=""))
    return fill_member(probe, "httpGet", _http_get)


def _lifecycle_handler(handler: Raw) -> Raw:
    return fill_member(handler, "httpGet", _http_get)


def _lifecycle(lifecycle: Raw) -> Raw:
    return fill_member(fill_member(lifecycle, "postStart", _lifecycle_handler), "preStop", _lifecycle_handler)


def _env_variable(variable: Raw) -> Raw:
    return fill_member(variable, "valueFrom", field_ref)


def port_with_protocol(port: Raw) -> Raw:
    return set_missing(port, protocol="TCP")


_CONTAINER_DEFAULTS: dict[str, Fill] = {
    "livenessProbe": _probe,
    "readinessProbe": _probe,
    "startupProbe": _probe,
    "lifecycle": _lifecycle,
}


def container(spec: Raw) -> Raw:
    spec = set_missing(
        spec,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=_image_pull_policy(spec.get("image", "")),
    )
    spec = fill_items(fill_items(spec, "ports", port_with_protocol), "env", _env_variable)
    return fill_members(spec, _CONTAINER_DEFAULTS)


def pod_spec(spec: Raw) -> Raw:
    spec = set_missing(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec = {**spec, "serviceAccountName": account, "serviceAccount": account}
    for key in ("initContainers", "containers", "ephemeralContainers"):
        spec = fill_items(spec, key, container)
    if spec.get("hostNetwork"):
        for key in ("initContainers", "containers"):
            spec = fill_items(spec, key, _host_ports)
    return fill_items(spec, "volumes", pod_volume)


def _host_ports(spec: Raw) -> Raw:
    return fill_items(spec, "ports", lambda port: set_missing(port, hostPort=port.get("containerPort", 0)))


def _requests_from_limits(spec: Raw) -> Raw:
    """A container with a limit but no request for a resource requests the limit."""
    resources = spec.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return spec
    return {**spec, "resources": {**resources, "requests": {**limits, **resources.get("requests", {})}}}


def pod(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = set_missing(pod_spec(spec), enableServiceLinks=True)
        return fill_items(
            fill_items(spec, "containers", _requests_from_limits), "initContainers", _requests_from_limits
        )

    return fill_member(obj, "spec", fill)


def pod_template(template: Raw) -> Raw:
    return fill_member(template, "spec", pod_spec)


def pod_template_object(obj: Raw) -> Raw:
    return fill_member(obj, "template", pod_template)

import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

POD: Raw = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "n"}]}}


def test_valid_pod_is_accepted_on_create_and_update() -> None:
    assert validation_error("v1", "Pod", POD) == ""
    assert validation_error("v1", "Pod", POD, POD) == ""


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (
            ("containers",),
            [{"name": "c", "image": "n"}, {"name": "c", "image": "n"}],
            'spec.containers[1].name: Duplicate value: "c"',
        ),
        (
            ("containers", 0, "volumeMounts"),
            [{"name": "v", "mountPath": "/x"}],
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            ("containers", 0, "resources"),
            {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            ("containers", 0, "ports"),
            [{"containerPort": 99999}],
            "spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive",
        ),
        (
            ("containers", 0, "imagePullPolicy"),
            "Sometimes",
            (
                'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", '
                '"IfNotPresent", "Never"'
            ),
        ),
        (
            ("containers", 0, "readinessProbe"),
            {},
            "spec.containers[0].readinessProbe: Required value: must specify a handler type",
        ),
        (
            ("initContainers",),
            [{"name": "c", "image": "n"}],
            'spec.initContainers[0].name: Duplicate value: "c"',
        ),
        (
            ("tolerations",),
            [{"value": "x"}],
            (
                'spec.tolerations[0].operator: Invalid value: "": operator must be Exists when `key` is empty, which means '
                '"match all values and all keys"'
            ),
        ),
        (
            ("topologySpreadConstraints",),
            [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
    ],
)
def test_invalid_pod_is_rejected(path: tuple[str | int, ...], value: object, error: str) -> None:
    assert validation_error("v1", "Pod", with_change(POD, "spec", *path, to=value)) == error


def test_running_pod_may_change_its_image_but_not_its_node() -> None:
    image = with_change(POD, "spec", "containers", 0, "image", to="other")
    assert validation_error("v1", "Pod", image, POD) == ""
    assert validation_error("v1", "Pod", with_change(POD, "spec", "nodeName", to="n"), POD).startswith(
        "spec: Forbidden: pod updates"
    )


def test_only_a_gated_pod_may_change_its_node_selector() -> None:
    gated = with_change(POD, "spec", "schedulingGates", to=[{"name": "example.io/gate"}])
    for pod, is_accepted in ((gated, True), (POD, False)):
        changed = with_change(pod, "spec", "nodeSelector", to={"zone": "a"})
        assert (validation_error("v1", "Pod", changed, pod) == "") is is_accepted


def test_tolerations_may_be_added_but_not_removed() -> None:
    tolerant = with_change(POD, "spec", "tolerations", to=[{"key": "a", "operator": "Exists"}])
    assert validation_error("v1", "Pod", tolerant, POD) == ""
    assert validation_error("v1", "Pod", POD, tolerant) == (
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    )


PORT = {"containerPort": 1, "hostPort": 80}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, 'spec.schedulingGates[1]: Duplicate value: "a"'),
        (
            {"nodeName": "n", "schedulingGates": [{"name": "a"}]},
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
        (
            {"ephemeralContainers": [{"name": "e", "image": "i"}]},
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
        ),
        ({"os": {"name": "mac"}}, 'spec.os: Unsupported value: "mac": supported values: "linux", "windows"'),
        ({"dnsPolicy": "None"}, "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
        (
            {"initContainers": [{"name": "s", "image": "i", "restartPolicy": "Never"}]},
            'spec.initContainers[0].restartPolicy: Unsupported value: "Never": supported values: "Always"',
        ),
        (
            {"securityContext": {"runAsUser": -1}},
            "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ),
        (
            {"containers": [{"name": "c", "image": "i", "ports": [PORT, {**PORT, "containerPort": 2}]}]},
            'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"',
        ),
    ],
)
def test_new_pod_that_kube_apiserver_refuses_is_refused(changes: Raw, error: str) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **changes}}
    assert error in validation_error("v1", "Pod", pod)

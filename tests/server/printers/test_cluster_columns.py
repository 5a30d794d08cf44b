"""Table columns of kinds that belong to a whole cluster."""

from datetime import UTC, datetime

from trimtab.server.printers.cluster_columns import CLUSTER_COLUMNS

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def cells_of(kind_id: str, **parts: object) -> list[object]:
    """All cells but the name and the age."""
    headers, cells = CLUSTER_COLUMNS[kind_id]
    obj = {"metadata": {"name": "x", "creationTimestamp": "2030-01-01T11:00:00Z"}, **parts}
    found = dict(zip((header.name for header in headers), cells(obj, NOON), strict=True))
    return [cell for name, cell in found.items() if name not in ("Name", "Age")]


def test_endpoints_show_the_first_three_addresses() -> None:
    subset = {"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 80}]}
    assert cells_of("endpoints", subsets=[subset]) == ["10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more..."]
    assert cells_of("endpoints", subsets=[{"addresses": [{"ip": "fd00::1"}], "ports": [{"port": 80}]}]) == [
        "[fd00::1]:80"
    ]
    assert cells_of("endpoints") == ["<none>"]


def test_slice_shows_ports_and_addresses() -> None:
    slices = "endpointslices.discovery.k8s.io"
    endpoints = [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]
    ports = [{"name": "http", "port": 80}, {"name": "any"}, {}]
    assert cells_of(slices, addressType="IPv4", ports=ports, endpoints=endpoints) == [
        "IPv4",
        "80,any,*",
        "10.0.0.1,10.0.0.2",
    ]
    assert cells_of(slices, addressType="IPv4") == ["IPv4", "<unset>", "<unset>"]


def test_volume_shows_its_claim() -> None:
    spec = {
        "capacity": {"storage": "1024Mi"},
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": "n", "name": "c"},
        "storageClassName": "fast",
        "volumeMode": "Block",
    }
    assert cells_of("persistentvolumes", spec=spec, status={"phase": "Bound"}) == [
        *("1Gi", "RWO,RWX", "Retain", "Bound", "n/c", "fast", "<unset>", "", "Block")
    ]


def test_default_storage_class_is_marked() -> None:
    cells = CLUSTER_COLUMNS["storageclasses.storage.k8s.io"].cells
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    obj = {"metadata": {"name": "x", "annotations": annotations}, "provisioner": "p"}
    assert cells(obj, NOON)[:5] == ["x (default)", "p", "Delete", "Immediate", False]


def test_attachments_and_drivers_show_their_state() -> None:
    spec = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    assert cells_of("volumeattachments.storage.k8s.io", spec=spec, status={"attached": True}) == ["a", "v", "n", True]
    spec = {"attachRequired": False, "tokenRequests": [{"audience": "x"}], "volumeLifecycleModes": ["Persistent"]}
    assert cells_of("csidrivers.storage.k8s.io", spec=spec) == [False, False, False, "x", False, "Persistent"]
    assert cells_of("csinodes.storage.k8s.io", spec={"drivers": [{"name": "d"}]}) == [1]
    assert cells_of("csistoragecapacities.storage.k8s.io", storageClassName="s", capacity="1024Mi") == ["s", "1Gi"]


def test_signing_request_shows_what_happened_to_it() -> None:
    requests = "certificatesigningrequests.certificates.k8s.io"
    spec = {"signerName": "s", "username": "u", "expirationSeconds": 3600}
    assert cells_of(requests, spec=spec) == ["s", "u", "60m", "Pending"]
    status = {"conditions": [{"type": "Approved"}], "certificate": "LS0t"}
    assert cells_of(requests, spec={"username": "u"}, status=status) == ["<none>", "u", "<none>", "Approved,Issued"]
    status = {"conditions": [{"type": "Denied"}, {"type": "Failed"}]}
    assert cells_of(requests, spec={}, status=status)[-1] == "Denied,Failed"


def test_api_service_shows_where_it_is_served() -> None:
    services = "apiservices.apiregistration.k8s.io"
    conditions = [{"type": "Available", "status": "False", "reason": "ServiceNotFound"}]
    spec = {"service": {"namespace": "n", "name": "s"}}
    assert cells_of(services, spec=spec, status={"conditions": conditions}) == ["n/s", "False (ServiceNotFound)"]
    assert cells_of(services, spec={}) == ["Local", "Unknown"]


def test_policies_show_their_parameters() -> None:
    policies = "validatingadmissionpolicies.admissionregistration.k8s.io"
    spec = {"validations": [{"expression": "true"}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    assert cells_of(policies, spec=spec) == [1, "v1/ConfigMap"]
    bindings = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
    assert cells_of(bindings, spec={"policyName": "p"}) == ["p", "<unset>"]
    assert cells_of(bindings, spec={"policyName": "p", "paramRef": {"name": "c"}}) == ["p", "*/c"]
    selector = {"selector": {"matchLabels": {"a": "b"}}}
    assert cells_of(bindings, spec={"policyName": "p", "paramRef": selector}) == ["p", "a=b"]


def test_other_kinds_show_what_they_refer_to() -> None:
    assert cells_of("serviceaccounts", secrets=[{"name": "s"}]) == [1]
    assert cells_of("runtimeclasses.node.k8s.io", handler="runc") == ["runc"]
    assert cells_of("networkpolicies.networking.k8s.io", spec={"podSelector": {}}) == ["<none>"]
    parameters = {"apiGroup": "g", "kind": "K", "name": "n"}
    spec = {"controller": "c", "parameters": parameters}
    assert cells_of("ingressclasses.networking.k8s.io", spec=spec) == ["c", "K.g/n"]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert cells_of("podtemplates", template=template) == ["c", "i", "a=b"]


def test_revision_shows_its_controller() -> None:
    cells = CLUSTER_COLUMNS["controllerrevisions.apps"].cells
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    obj = {"metadata": {"name": "x", "ownerReferences": [owner]}, "revision": 3}
    assert cells(obj, NOON)[1:3] == ["daemonset.apps/d", 3]
    assert cells({"metadata": {"name": "x"}, "revision": 1}, NOON)[1] == "<none>"

from interpret.native.native_helpers import TRIMTAB, make_object


def test_claims_created_by_a_stateful_set_are_not_dependencies() -> None:
    volumes = [
        {"persistentVolumeClaim": {"claimName": "data"}},
        {"persistentVolumeClaim": {"claimName": "shared"}},
    ]
    spec = {
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        "template": {"spec": {"volumes": volumes}},
    }
    found = TRIMTAB.dependencies(make_object("StatefulSet", "apps/v1", spec=spec))
    assert [ref["name"] for ref in found] == ["shared"]


def test_tls_secrets_of_an_ingress_are_dependencies() -> None:
    tls = [{"secretName": "b"}, {"secretName": "a"}, {"hosts": ["x"]}]
    found = TRIMTAB.dependencies(make_object("Ingress", "networking.k8s.io/v1", spec={"tls": tls}))
    assert [(ref["kind"], ref["name"]) for ref in found] == [("Secret", "a"), ("Secret", "b")]


def test_pod_template_of_a_cron_job_is_found() -> None:
    template = {"spec": {"serviceAccountName": "sa"}}
    spec = {"jobTemplate": {"spec": {"template": template}}}
    found = TRIMTAB.dependencies(make_object("CronJob", "batch/v1", spec=spec))
    assert found == [{"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "ns", "name": "sa"}]


def test_service_import_depends_on_the_derived_service_and_its_slices() -> None:
    slices, service = TRIMTAB.dependencies(make_object("ServiceImport", "multicluster.x-k8s.io/v1alpha1"))
    assert slices["labelSelector"] == {"matchLabels": {"kubernetes.io/service-name": "derived-x"}}
    assert (service["kind"], service["name"]) == ("Service", "derived-x")

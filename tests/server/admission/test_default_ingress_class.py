from simulate.fixtures import run_in_whole_cluster, workload
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

CLASSES = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False)
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
SPEC = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}


def test_an_ingress_without_a_class_gets_the_newest_default_one_with_the_lowest_name() -> None:
    async def scenario(member: SimulatedMember) -> None:
        async def class_of(name: str, annotations: dict[str, str] | None = None, **spec: str) -> str | None:
            ingress = workload("Ingress", name, {**SPEC, **spec}, "networking.k8s.io/v1")
            ingress["metadata"]["annotations"] = annotations or {}
            return (await member.client.create(INGRESSES, ingress))["spec"].get("ingressClassName")

        assert await class_of("early") is None
        for name in ("b", "a", "other"):
            default = {"ingressclass.kubernetes.io/is-default-class": str(name != "other").lower()}
            body = {"metadata": {"name": name, "annotations": default}, "spec": {"controller": "example.com/c"}}
            await member.client.create(CLASSES, body)
        assert await class_of("plain") == "a"
        assert await class_of("named", ingressClassName="other") == "other"
        assert await class_of("annotated", {"kubernetes.io/ingress.class": "x"}) is None

    run_in_whole_cluster(scenario)

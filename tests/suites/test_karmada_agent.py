from typing import Any

from suites.karmada_agent import flags_of, release_works

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.local import LocalClient


def pod(*command: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "command": list(command)}]}}


def test_flags_of_the_agent_are_read_from_its_command() -> None:
    flags = flags_of(pod("/bin/karmada-agent", "--cluster-name=one", "--v=2"))
    assert flags == {"cluster-name": "one", "v": "2"}
    assert flags_of(pod("/bin/other", "--cluster-name=one")) == {}
    assert flags_of({"spec": {"containers": [{"name": "main"}]}}) == {}


def test_deleted_works_are_released_and_others_kept() -> None:
    async def scenario(client: AsgiClient) -> None:
        place = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-one/works"
        await client("POST", "/api/v1/namespaces", {"metadata": {"name": "karmada-es-one"}})
        for name in ("deleted", "kept"):
            metadata = {"name": name, "finalizers": ["karmada.io/execution-controller"]}
            work = {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": metadata}
            made = await client("POST", place, {**work, "spec": {"workload": {}}})
            assert made.status == 201
        await client("DELETE", f"{place}/deleted")
        await release_works(LocalClient(client.server), "one")
        assert [one["metadata"]["name"] for one in (await client("GET", place)).json()["items"]] == ["kept"]

    with_asgi_client(scenario)

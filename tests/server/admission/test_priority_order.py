from server.asgi import AsgiClient, with_asgi_client

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ORDERS = "/apis/trimtab.dev/v1alpha1/priorityorders"
ORDER = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "PriorityOrder", "metadata": {"name": "default"}}


async def create_class(wire: AsgiClient, name: str, value: int):
    return await wire("POST", CLASSES, {"metadata": {"name": name}, "value": value})


def test_order_is_accepted_unless_it_contradicts_class_values() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for name, value in (("critical", 1000), ("normal", 500), ("between", 500)):
            assert (await create_class(wire, name, value)).status == 201
        order = {**ORDER, "spec": {"names": ["critical", "between", "normal"]}}
        assert (await wire("POST", ORDERS, order)).status == 201
        wrong = {"spec": {"names": ["normal", "critical"]}}
        refused = await wire("PATCH", f"{ORDERS}/default", wrong, content_type="application/merge-patch+json")
        assert refused.status == 422
        assert "normal" in refused.json()["details"]["causes"][0]["message"]

    with_asgi_client(scenario)


def test_class_that_contradicts_the_order_is_refused_with_the_allowed_values() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for name, value in (("critical", 1000), ("normal", 500)):
            assert (await create_class(wire, name, value)).status == 201
        order = {**ORDER, "spec": {"names": ["critical", "late", "normal"]}}
        assert (await wire("POST", ORDERS, order)).status == 201
        for value, bound in ((3, "at least 500"), (2000, "at most 1000")):
            refused = await create_class(wire, "late", value)
            assert refused.status == 422
            (cause,) = refused.json()["details"]["causes"]
            assert cause["field"] == "value"
            assert bound in cause["message"]
        assert (await create_class(wire, "late", 700)).status == 201

    with_asgi_client(scenario)

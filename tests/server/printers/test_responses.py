"""Responses in the negotiated format."""

import orjson
import pytest

from server.asgi import AsgiClient, with_asgi_client

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as={};v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


async def create(client: AsgiClient) -> None:
    assert (await client("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})).status == 201


def test_list_as_table_has_a_row_per_object() -> None:
    async def scenario(client: AsgiClient) -> None:
        await create(client)
        table = (await client("GET", CONFIG_MAPS, accept=TABLE)).json()
        rows = {row["cells"][0]: row["cells"][1] for row in table["rows"]}
        assert (table["kind"], rows["a"]) == ("Table", 1)

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("path", "kind"), [(f"{CONFIG_MAPS}/a", "PartialObjectMetadata"), (CONFIG_MAPS, "PartialObjectMetadataList")]
)
def test_metadata_format_leaves_out_the_data(path: str, kind: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await create(client)
        response = await client("GET", path, accept=METADATA.format(kind))
        assert response.json()["kind"] == kind
        assert b'"data"' not in response.body

    with_asgi_client(scenario)


def test_built_in_object_is_sent_as_protobuf_on_request() -> None:
    async def scenario(client: AsgiClient) -> None:
        await create(client)
        response = await client("GET", f"{CONFIG_MAPS}/a", accept=PROTOBUF)
        assert (response.headers["content-type"], response.body[:4]) == (PROTOBUF, b"k8s\0")

    with_asgi_client(scenario)


def test_only_the_first_table_of_a_watch_names_the_columns() -> None:
    async def scenario(client: AsgiClient) -> None:
        await create(client)
        await client("POST", CONFIG_MAPS, {"metadata": {"name": "b"}})
        watch = await client("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1", accept=TABLE)
        events = [orjson.loads(line) for line in watch.body.splitlines()]
        assert [bool(event["object"]["columnDefinitions"]) for event in events[:2]] == [True, False]

    with_asgi_client(scenario)

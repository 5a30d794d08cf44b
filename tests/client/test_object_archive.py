"""Objects of a control plane are saved in one file and created again on an empty API server."""

import gzip
from io import BytesIO
from typing import Any

import orjson
import pytest
from compat.flows import RECORDED_SETTINGS
from compat.recorded_state import stopped_karmada

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.profile import UPSTREAM
from trimtab.client import object_archive
from trimtab.client.client import Resource
from trimtab.client.object_archive import is_archive, read_archive, restore_archive, write_archive
from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import InputError
from trimtab.rehearsal.rehearsal import rehearse
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.server.storage.uids import random_uid
from trimtab.store.store import Store

FLOW = "deploy-static-scale"
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


def test_restored_control_plane_deletes_nothing_and_moves_nothing() -> None:
    async def run() -> None:
        async with stopped_karmada(FLOW) as fleet:
            buffer = BytesIO()
            header = await write_archive(fleet.client, buffer, LoopClock().now())
            buffer.seek(0)
            assert is_archive(buffer)
            read, objects = read_archive(buffer)
            assert (read, len(objects)) == (header, header.objects)

            settings = ApiServerSettings(clock=LoopClock(), plugins=[PeerWebhooks(random_uid)])
            empty = ApiServer(Store(), settings)
            await empty.start()
            client = LocalClient(empty)
            result = await restore_archive(client, objects)
            assert (result.failed, result.created > 10) == ((), True)
            again = await restore_archive(client, objects)
            assert (again.created, again.failed) == (0, ())

            template = await client.get(DEPLOYMENTS, f"fl-{FLOW}", "web")
            binding = await client.get(BINDINGS, f"fl-{FLOW}", "web-deployment")
            assert binding["spec"]["resource"]["uid"] == template["metadata"]["uid"]
            label = "propagationpolicy.karmada.io/permanent-id"
            policy = await client.get(POLICIES, f"fl-{FLOW}", "pp")
            assert policy["metadata"]["labels"][label] == template["metadata"]["labels"][label]
            assert binding["metadata"]["ownerReferences"][0]["uid"] == template["metadata"]["uid"]

            def connect(cluster: Cluster) -> LocalClient:
                return LocalClient(fleet.world[cluster.name].server)

            found = await rehearse(client, LoopClock(), UPSTREAM, settings=RECORDED_SETTINGS, connect=connect)
            assert (found.deletions, found.placements) == ((), ())
            changed = {field for write in found.member_writes for field in write.fields}
            assert changed <= {
                "metadata.annotations.resourcetemplate.karmada.io/uid",
                "metadata.annotations.resourcetemplate.karmada.io/generation",
                "metadata.labels.propagationpolicy.karmada.io/permanent-id",
                "spec",  # of namespaces: their API server writes it again
            }, "new ids and generations are all that members get"
            await empty.stop()

    run_virtually(run())


def test_file_that_is_cut_off_or_something_else_is_refused() -> None:
    whole = gzip.compress(b'{"format":"trimtab-objects/1","taken":"t","objects":2}\n{"kind":"A"}\n')
    with pytest.raises(InputError, match="1 of 2 objects"):
        read_archive(BytesIO(whole))
    with pytest.raises(InputError, match="not a complete archive"):
        read_archive(BytesIO(whole[:-12]))
    with pytest.raises(InputError, match="has the format 'other'"):
        read_archive(BytesIO(gzip.compress(b'{"format":"other"}\n')))
    assert not is_archive(BytesIO(b"SQLite format 3"))


HEAD = {"format": "trimtab-objects/1", "taken": "2026-01-01T00:00:00Z", "objects": 1}


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [[]],
        [5],
        [{"format": "trimtab-objects/1"}],
        [{**HEAD, "objects": "1"}, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}],
        *(
            [HEAD, obj]
            for obj in (
                5,
                {},
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": []},
                {"apiVersion": {}, "kind": [], "metadata": {"name": "a"}},
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": []}},
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": 5}},
            )
        ),
    ],
)
def test_archive_of_another_shape_is_refused(lines: list[Any]) -> None:
    content = gzip.compress(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    with pytest.raises(InputError):
        read_archive(BytesIO(content))


def test_archive_that_was_damaged_or_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gzip.compress(orjson.dumps(HEAD) + b"\n" + b"x" * 1000)
    with pytest.raises(InputError, match="not a complete archive"):
        read_archive(BytesIO(whole[:14] + b"\xff" * 20))
    monkeypatch.setattr(object_archive, "MAX_BYTES", 500)
    with pytest.raises(InputError, match="has more than"):
        read_archive(BytesIO(whole))

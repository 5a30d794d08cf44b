"""Patch requests."""

from server.asgi import AsgiClient, with_asgi_client
from server.config_maps import CONFIG_MAPS, config_map


def test_apply_conflict_between_managers_is_refused_unless_forced() -> None:
    async def scenario(wire: AsgiClient) -> None:
        apply = {"content_type": "application/apply-patch+yaml"}
        await wire("PATCH", f"{CONFIG_MAPS}/x?fieldManager=one", config_map("x", k="1"), **apply)
        refused = await wire("PATCH", f"{CONFIG_MAPS}/x?fieldManager=two", config_map("x", k="2"), **apply)
        assert refused.status == 409
        assert refused.json()["details"]["causes"][0]["field"] == ".data.k"
        forced = await wire("PATCH", f"{CONFIG_MAPS}/x?fieldManager=two&force=true", config_map("x", k="2"), **apply)
        assert forced.json()["data"] == {"k": "2"}

    with_asgi_client(scenario)


def test_applied_yaml_may_begin_with_a_brace() -> None:
    async def scenario(wire: AsgiClient) -> None:
        body = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {k: 'v'}}"
        path = f"{CONFIG_MAPS}/x?fieldManager=one"
        created = await wire("PATCH", path, body, content_type="application/apply-patch+yaml")
        assert created.json()["data"] == {"k": "v"}

    with_asgi_client(scenario)


def test_strategic_patch_with_a_wrong_type_is_refused_in_the_words_of_its_decoder() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await wire("POST", CONFIG_MAPS, config_map("x", k="1"))
        body = {"metadata": {"labels": "invalid"}}
        for media, reason in (
            ("application/strategic-merge-patch+json", "cannot restore map from string"),
            ("application/merge-patch+json", "cannot unmarshal string into Go struct field"),
        ):
            refused = await wire("PATCH", f"{CONFIG_MAPS}/x", body, content_type=media)
            assert refused.status == 422
            assert reason in refused.json()["message"]

    with_asgi_client(scenario)


def test_key_that_an_applied_configuration_repeats_is_reported_with_its_line() -> None:
    async def scenario(wire: AsgiClient) -> None:
        apply = {"content_type": "application/apply-patch+yaml"}
        body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: b\n  a: c\n"
        path = f"{CONFIG_MAPS}/x?fieldManager=one&fieldValidation="
        refused = await wire("PATCH", f"{path}Strict", body, **apply)
        assert refused.status == 400
        assert 'line 6: key "a" already set in map' in refused.json()["message"]
        json_body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"b",\n"a":"c"}}'
        warned = await wire("PATCH", f"{path}Warn", json_body, **apply)
        assert 'line 2: key \\"a\\" already set in map' in warned.headers["warning"]
        assert (await wire("PATCH", f"{path}Strict", config_map("x", a="c"), **apply)).status == 200

    with_asgi_client(scenario)

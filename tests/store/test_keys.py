from trimtab.store.keys import (
    ROOT,
    group_prefix,
    key_below,
    namespace_below,
    object_key,
    own_key,
    parse_object_key,
    resource_prefix,
    resource_prefix_of,
)


def test_core_group_has_a_name_in_keys() -> None:
    assert group_prefix("") == "/registry/core/"
    assert resource_prefix("", "pods") == "/registry/core/pods/"
    assert resource_prefix("apps", "deployments") == "/registry/apps/deployments/"


def test_key_of_an_object_without_a_namespace_has_one_name() -> None:
    assert object_key("", "pods", "team", "web") == "/registry/core/pods/team/web"
    assert object_key("", "nodes", "n1") == object_key("", "nodes", "", "n1") == "/registry/core/nodes/n1"


def test_keys_and_namespaces_below_a_prefix() -> None:
    pods, nodes = resource_prefix("", "pods"), resource_prefix("", "nodes")
    assert key_below(pods, "web", "team") == object_key("", "pods", "team", "web")
    assert key_below(nodes, "n1") == object_key("", "nodes", "n1")
    assert namespace_below(pods, "team") == "/registry/core/pods/team/"
    assert namespace_below(pods, "") == pods


def test_resource_prefix_of_a_key_is_its_group_and_resource() -> None:
    assert resource_prefix_of("/registry/apps/deployments/default/web") == "/registry/apps/deployments/"
    assert resource_prefix_of("/registry//nodes//n1") == "/registry//nodes/"
    assert resource_prefix_of("/registry//nodes") == "/registry//nodes"


def test_parsed_key_has_what_it_was_built_from() -> None:
    assert parse_object_key(object_key("apps", "deployments", "team", "web")) == ("apps", "deployments", "team", "web")
    assert parse_object_key(object_key("", "nodes", "n1")) == ("", "nodes", "", "n1")


def test_own_records_are_outside_of_what_lists_and_watches_see() -> None:
    assert not own_key("binds", "n1").startswith(ROOT)

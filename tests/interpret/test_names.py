from trimtab.interpret.names import binding_name, binding_reference_key, fnv1a, work_name


def test_hash_is_32_bit_fnv_1a() -> None:
    assert fnv1a("") == 0x811C9DC5
    assert fnv1a("a") == 0xE40C292C
    assert fnv1a("foobar") == 0xBF9CF968


def test_binding_name_is_lower_case_without_colons() -> None:
    assert binding_name("ClusterRole", "system:Node") == "system.node-clusterrole"


def test_work_name_ends_with_a_hash_of_namespace_name_and_kind() -> None:
    first, second = work_name("Deployment", "web", "a"), work_name("Deployment", "web", "b")
    assert first.startswith("web-")
    assert first != second
    assert first == work_name("deployment", "web", "a")
    assert set(first.removeprefix("web-")) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_reference_key_of_a_cluster_scoped_binding_has_no_namespace() -> None:
    assert binding_reference_key("", "web") != binding_reference_key("ns", "web")

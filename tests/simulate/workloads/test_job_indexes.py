from trimtab.api.kinds.native.pod import Pod, PodStatus
from trimtab.api.value import Meta
from trimtab.simulate.workloads.job_indexes import (
    FAILURES_ANNOTATION,
    INDEX_ANNOTATION,
    format_indexes,
    index_of,
    last_failed_pods,
    parse_indexes,
)


def failed(name: str, index: int, failures: int) -> Pod:
    annotations = {INDEX_ANNOTATION: str(index), FAILURES_ANNOTATION: str(failures)}
    return Pod(metadata=Meta(name=name, annotations=annotations), status=PodStatus(phase="Failed"))


def test_indexes_are_written_as_ranges_and_read_back() -> None:
    assert format_indexes({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8"
    assert parse_indexes("0-2,5,7-8") == {0, 1, 2, 5, 7, 8}
    assert parse_indexes("") == set()


def test_the_pod_with_the_most_failures_before_it_is_the_last_of_its_index() -> None:
    found = last_failed_pods([failed("a", 0, 1), failed("b", 0, 0), failed("c", 3, 0)])
    assert {index: pod.name for index, pod in found.items()} == {0: "a", 3: "c"}


def test_a_pod_without_annotation_has_no_index() -> None:
    assert index_of(Pod()) is None

"""Request metrics."""

from trimtab.server.http.metrics import RequestMetrics


def test_requests_are_counted_by_method_and_code() -> None:
    requests = RequestMetrics()
    requests.observe("GET", 200, 0.003)
    requests.observe("GET", 200, 0.2)
    requests.observe("GET", 200, None)
    text = requests.render({"pods": 3}, 1, 17)
    assert 'apiserver_request_total{verb="GET",code="200"} 3' in text
    assert 'apiserver_storage_objects{resource="pods"} 3' in text
    assert "trimtab_store_revision 17" in text


def test_histogram_is_cumulative_and_leaves_out_watches() -> None:
    requests = RequestMetrics()
    requests.observe("GET", 200, 0.003)
    requests.observe("GET", 200, 0.2)
    requests.observe("GET", 200, None)
    lines = requests.render({}, 0, 0).splitlines()
    assert 'apiserver_request_duration_seconds_bucket{le="0.005"} 1' in lines
    assert 'apiserver_request_duration_seconds_bucket{le="+Inf"} 2' in lines
    assert "apiserver_request_duration_seconds_count 2" in lines

from trimtab.simulate.kubelet_metrics import MetricFamily, format_metrics


def test_metrics_are_written_in_the_text_format_of_prometheus() -> None:
    family = MetricFamily(
        "used_bytes", "gauge", "Bytes in use.", [({}, 1.5), ({"pod": "a", "namespace": "b"}, 33554432.0)]
    )
    assert format_metrics([family]) == (
        "# HELP used_bytes Bytes in use.\n"
        "# TYPE used_bytes gauge\n"
        "used_bytes 1.5\n"
        'used_bytes{pod="a",namespace="b"} 33554432\n'
    )

"""Alerts and dashboards: promtool accepts the rules, each alert fires when it should, and every metric exists."""

import json
import re
import subprocess
from pathlib import Path

import yaml
from distribution.tools import ROOT, run, tool

from trimtab.telemetry import METRICS, Histogram, Sample, format_histograms, format_metrics

FILES = ROOT / "charts" / "trimtab" / "files"
NAME = re.compile(r"\b(?:trimtab|process|cluster)_[a-z_]+\b")
MISNAMED_BY_KARMADA = ("update_resource_to_cluster", "eviction_kind_total")
"""One has a label in camel case, one is a gauge with the suffix of a counter; its dashboards need them as they are."""
SUFFIXES = ("_bucket", "_sum", "_count")


def test_promtool_accepts_the_rules() -> None:
    assert "SUCCESS" in run(tool("promtool"), "check", "rules", str(FILES / "rules.yaml"))


def test_promtool_finds_nothing_wrong_with_the_metrics() -> None:
    histograms = [metric for metric in METRICS.values() if metric.text.startswith("Histogram")]
    gauges = [
        metric for metric in METRICS.values() if metric not in histograms and metric.name not in MISNAMED_BY_KARMADA
    ]
    text = format_metrics(Sample(one.name, 1.0, dict.fromkeys(one.labels, "x")) for one in gauges)
    text += format_histograms(
        (one.name, {name: "x" for name in one.labels if name != "le"}, Histogram((1, 2))) for one in histograms
    )
    done = subprocess.run(
        [tool("promtool"), "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "rules_test.yaml").read_text()
    (tmp_path / "test.yaml").write_text(text.replace("[RULES]", f"[{FILES / 'rules.yaml'}]"))
    assert "SUCCESS" in run(tool("promtool"), "test", "rules", str(tmp_path / "test.yaml"))


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    rules = yaml.safe_load((FILES / "rules.yaml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    cases = yaml.safe_load((Path(__file__).parent / "rules_test.yaml").read_text())["tests"]
    firing = {case["alertname"] for test in cases for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert alerts == firing


def expressions() -> list[str]:
    rules = yaml.safe_load((FILES / "rules.yaml").read_text())
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    for path in (FILES / "dashboards").glob("*.json"):
        panels = json.loads(path.read_text())["panels"]
        found += [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return found


def test_every_metric_of_rules_and_dashboards_is_served() -> None:
    used = set()
    for expression in expressions():
        for name in NAME.findall(expression):
            base = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
            used.add(name if name in METRICS else base)
    assert used
    assert used - set(METRICS) == set()

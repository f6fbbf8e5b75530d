"""Monitors and dashboards of the chart: valid, and of metrics that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.cluster.chart import Chart
from support.repository import tree

from sparkstate_operator import labels
from sparkstate_operator.metrics import Metrics

ON: dict[str, Any] = {
    "metrics": {
        "podMonitor": {"enabled": True, "labels": {"release": "prom"}},
        "dashboards": {"enabled": True},
    }
}
NAME = "ours-sparkstate-operator"
DASHBOARDS = {
    path.stem: json.loads(path.read_text()) for path in tree.ROOT.glob("charts/*/files/dashboards/*.json")
}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Chart:
    return Chart(tmp_path_factory.mktemp("chart"))


def known() -> set[str]:
    """Every series of operator and engine, by the registry of the one and the generated page of the other."""
    types = re.findall(r"^# TYPE (\S+) (\w+)$", Metrics().text().decode(), re.M)
    page = (tree.ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    types += re.findall(r"^\| `(sparkstate_\w+)` \| (\w+) \|", page, re.M)
    assert len(types) > 25
    found = {name for name, kind in types if kind != "histogram"}
    found |= {
        f"{name}_{part}" for name, kind in types if kind == "histogram" for part in ("bucket", "sum", "count")
    }
    return found


def series(expression: str) -> set[str]:
    """The names of metrics in an expression of PromQL: not its labels."""
    bare = re.sub(r"\{[^}]*\}|(?:by|on|ignoring) \([^)]*\)|label_values\(|\$\w+", " ", expression)
    return set(re.findall(r"\bsparkstate_(?!io_)\w+", bare))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_asks_for_metrics_that_exist(name: str) -> None:
    targets = [target for panel in DASHBOARDS[name]["panels"] for target in panel["targets"]]
    queries = [one["query"] for one in DASHBOARDS[name]["templating"]["list"] if one["type"] == "query"]
    asked = set().union(*map(series, [*(target["expr"] for target in targets), *queries]))
    assert len(asked) >= 9
    assert asked - known() == set()
    assert all(series(target["expr"]) for target in targets)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_keeps_the_jobs_and_releases_of_namespaces_apart(name: str) -> None:
    """By the series that it selects, by what it groups, and by its legends."""
    (variable,) = [one for one in DASHBOARDS[name]["templating"]["list"] if one["name"] == "namespace"]
    assert variable["query"] == variable["definition"]
    for target in (target for panel in DASHBOARDS[name]["panels"] for target in panel["targets"]):
        expression = target["expr"]
        assert len(re.findall(r"\bsparkstate_(?!io_)\w+\{[^}]*namespace=~\"\$namespace\"", expression)) == 1
        (group,) = re.findall(r"\bby \(([^)]*)\)", expression)
        assert "namespace" in group.split(", ")
        assert {"sparkstate_io_job", "service"} & set(group.split(", "))
        assert target["legendFormat"].startswith("{{namespace}}/{{")


def test_an_alert_looks_at_its_own_release_and_names_it(chart: Chart) -> None:
    """Another release that has a leader hides nothing, and the alerts of two releases are two."""
    values = {"metrics": {"prometheusRule": {"enabled": True}}}
    own = 'namespace="ops", service="ours-sparkstate-operator"'
    assert chart.one("Service", values)["metadata"]["name"] == NAME, "which the ServiceMonitor makes a label"
    (group,) = chart.one("PrometheusRule", values)["spec"]["groups"]
    assert len(group["rules"]) == 3
    for rule in group["rules"]:
        selected = re.findall(r"\bsparkstate_\w+\{([^}]*)\}", rule["expr"])
        assert len(selected) == len(series(rule["expr"]))
        assert all(one.startswith(own) for one in selected)
        assert (rule["labels"]["namespace"], rule["labels"]["service"]) == ("ops", NAME)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_one_that_grafana_takes(name: str) -> None:
    """No identity of a database, distinct panels that do not overlap, a data source that can be chosen."""
    board = DASHBOARDS[name]
    assert board["uid"] == f"sparkstate-{name}"
    assert "id" not in board
    assert board["title"]
    assert board["schemaVersion"] >= 39
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    cells = [
        (panel["gridPos"]["x"] + across, panel["gridPos"]["y"] + down)
        for panel in panels
        for across in range(panel["gridPos"]["w"])
        for down in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(across for across, _ in cells) < 24
    assert board["templating"]["list"][0]["type"] == "datasource"
    for panel in panels:
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
        assert all(
            target["expr"].count(left) == target["expr"].count(right)
            for target in panel["targets"]
            for left, right in ("()", "{}", "[]")
        )


def test_dashboards_come_as_config_maps_that_the_sidecar_looks_for(chart: Chart) -> None:
    for name, board in DASHBOARDS.items():
        made = chart.one("ConfigMap", ON, f"{NAME}-{name}")
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(made["data"][f"{name}.json"]) == board


@pytest.mark.parametrize(
    ("namespaces", "chosen"),
    [([], {"any": True}), (["shop", "bank"], {"matchNames": ["shop", "bank"]})],
    ids=["all", "some"],
)
def test_the_pod_monitor_chooses_the_drivers(
    chart: Chart, namespaces: list[str], chosen: dict[str, Any]
) -> None:
    made = chart.one("PodMonitor", {**ON, "watchNamespaces": namespaces}, f"{NAME}-drivers")
    assert made["metadata"]["labels"]["release"] == "prom"
    marks = labels.of_job("orders", "uid", "driver", 1)
    assert made["spec"]["selector"]["matchLabels"].items() <= marks.items()
    assert (
        not made["spec"]["selector"]["matchLabels"].items() <= labels.of_job("o", "u", "executor", 1).items()
    )
    assert set(made["spec"]["podTargetLabels"]) <= marks.keys()
    assert made["spec"]["namespaceSelector"] == chosen
    assert made["spec"]["podMetricsEndpoints"] == [{"port": "metrics", "path": "/metrics", "interval": "30s"}]

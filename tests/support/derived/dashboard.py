"""The Grafana dashboard, `deploy/observability/dashboard.json`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

_COLUMNS, _HEIGHT = 3, 8
_WIDTH = 24 // _COLUMNS
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: expressions with their legends, in one unit of Grafana."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    about: str = ""


def _quantiles(metric: str, by: str, legend: str, *shares: float, only: str = "") -> list[tuple[str, str]]:
    rate = f"sum by ({by}, le) (rate({metric}_bucket{only}[$__rate_interval]))"
    return [(f"histogram_quantile({share}, {rate})", f"{legend} p{share * 100:g}") for share in shares]


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


ROWS: Final[Sequence[tuple[str, Sequence[Panel]]]] = (
    (
        "Users",
        (
            Panel(
                "Asks: whole way",
                "s",
                _quantiles("eunoe_ask_seconds", "stage", "{{stage}}", 0.5, 0.95, 0.99, only='{hop="whole"}'),
                "From the ask in the log to the commit of each stage; respond is what users wait for.",
            ),
            Panel(
                "Sessions: time until in memory",
                "s",
                _quantiles("eunoe_freshness_seconds", "stage", "{{stage}}", 0.95),
                "update: memories; link: timelines; tree: aggregates.",
            ),
            Panel("Dead letters", "short", [
                (_rate("eunoe_dead_letters_total", "stage, reason"), "{{stage}} {{reason}}"),
            ]),
            Panel(
                "Sessions by what they gave",
                "short",
                [(_rate("eunoe_sessions_total", "outcome"), "{{outcome}}")],
                "no_evidence: nothing that a memory may cite; none_found: nothing worth remembering.",
            ),
            Panel(
                "Replies by sessions not in memory yet",
                "short",
                [(_rate("eunoe_replies_total", "infused, behind"), "infused {{infused}}, behind {{behind}}")],
                "infused: blended before; behind 0: they knew every session.",
            ),
            Panel(
                "Gateway",
                "s",
                _quantiles("eunoe_http_seconds", "route", "{{route}}", 0.95),
                "Until the answer; of a stream until its beginning.",
            ),
        ),
    ),
    (
        "Flow",
        (
            Panel("Records handled a second", "ops", [(_rate("eunoe_events_total", "stage"), "{{stage}}")]),
            Panel("Records behind", "short", [("sum by (stage) (eunoe_lag)", "{{stage}}")]),
            Panel("Age of the oldest record in work", "s", [("max by (stage) (eunoe_lag_seconds)", "{{stage}}")]),
            Panel(
                "Decisions",
                "s",
                _quantiles("eunoe_stage_seconds", "stage", "{{stage}}", 0.5, 0.99, only='{part="deciding"}'),
            ),
            Panel(
                "Redis and Qdrant",
                "s",
                _quantiles("eunoe_stage_seconds", "stage", "{{stage}}", 0.5, 0.99, only='{part="applying"}'),
            ),
            Panel(
                "Publishing",
                "s",
                _quantiles("eunoe_stage_seconds", "stage", "{{stage}}", 0.5, 0.99, only='{part="publishing"}'),
            ),
        ),
    ),
    (
        "What stands still",
        (
            Panel("Conversations parked and held", "short", [
                ("max by (stage) (eunoe_parked)", "{{stage}} parked"),
                ("max by (stage) (eunoe_held)", "{{stage}} held"),
            ]),
            Panel("Waits for servers", "short", [("sum by (server) (eunoe_waiting)", "{{server}}")]),
            Panel("Commits refused, partitions gone back", "short", [
                (_rate("eunoe_fenced_total", "stage"), "{{stage}} fenced"),
                (_rate("eunoe_went_back_total", "stage"), "{{stage}} went back"),
            ]),
        ),
    ),
    (
        "Language model",
        (
            Panel("Answers", "s", _quantiles("eunoe_model_seconds", "stage", "{{stage}}", 0.5, 0.99)),
            Panel("Tokens a second", "short", [
                (_rate("eunoe_model_stage_tokens_total", "stage, kind"), "{{stage}} {{kind}}"),
            ]),
            Panel("Items by who decided them", "short", [
                (_rate("eunoe_model_items_total", "stage, outcome"), "{{stage}} {{outcome}}"),
            ]),
            Panel("Decisions by who made them", "short", [
                (_rate("eunoe_decisions_total", "stage, by"), "{{stage}} {{by}}"),
            ]),
            Panel("Caches", "bytes", [("sum by (cache) (eunoe_cache_bytes)", "{{cache}}")]),
        ),
    ),
)  # fmt: skip
"""The rows of the dashboard, each with its graphs."""


def expressions() -> Iterator[str]:
    """Every expression of the dashboard."""
    return (expression for _, panels in ROWS for panel in panels for expression, _ in panel.queries)


def dashboard() -> dict[str, Any]:
    """The dashboard in the JSON model of Grafana 10; the data source is a variable of it."""
    source = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": "eunoe",
        "title": "eunoe",
        "tags": ["eunoe"],
        "schemaVersion": 38,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source]},
        "panels": [*_panels()],
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for title, panels in ROWS:
        number += 1
        place = {"x": 0, "y": y, "w": 24, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        y += 1
        for at, panel in enumerate(panels):
            number += 1
            place = {"x": at % _COLUMNS * _WIDTH, "y": y + at // _COLUMNS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            yield {"id": number, "gridPos": place, **_graph(panel)}
        y += -(-len(panels) // _COLUMNS) * _HEIGHT


def _graph(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for at, (expression, legend) in enumerate(panel.queries)
        ],
    }


def with_dashboard(_: str) -> str:
    """The file's text."""
    return orjson.dumps(dashboard(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()

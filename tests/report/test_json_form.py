"""The JSON form: valid, the same bytes every time, no key absent, and read back as it was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import samples

from graphsafe.report import executed, model
from graphsafe.report.json_form import as_json, parse_reports, read_saved, render_json
from graphsafe.report.ledger import model as ledger_model
from graphsafe.report.model import DeviceResult, Fix, Location, Plan, PlannedModule, Report, Segment
from graphsafe.report.probes import PROBE_KEYS
from graphsafe.report.schema import report_schema
from graphsafe.report.shape import ReportError

REPORTS = pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())


@REPORTS
def test_validates(report: Report, valid_report: Callable[[str], Any]) -> None:
    valid_report(render_json(report))


def test_many_reports_validate(valid_report: Callable[[str], Any]) -> None:
    for reports in (list(samples.ALL.values()), [samples.SCAN], []):
        saved = valid_report(render_json(reports))
        assert saved["schema"] == "graphsafe/reports/1"
        assert len(saved["reports"]) == len(reports)


@pytest.mark.parametrize(
    "broken",
    [
        {"verdict": None},
        {"findings": [{"code": "GS101"}]},
        {"unheard": 1},
        {"schema": "graphsafe/report/2"},
        {"devices": None},
    ],
)
def test_schema_refuses(broken: dict[str, Any], valid_report: Callable[[str], Any]) -> None:
    with pytest.raises(Exception, match=r"(?s)."):
        valid_report(json.dumps(as_json(samples.CAPTURE) | broken))


@pytest.mark.parametrize("key", as_json(samples.CAPTURE))
def test_schema_requires_every_key(key: str, valid_report: Callable[[str], Any]) -> None:
    report = as_json(samples.CAPTURE)
    del report[key]
    with pytest.raises(Exception, match="required"):
        valid_report(json.dumps(report))


def test_keys_are_those_of_the_design_in_their_order() -> None:
    report = as_json(samples.CAPTURE)
    assert " ".join(report) == (
        "schema tool command created environment target name verdict evidence findings limits devices plan support "
        "executed hot_lines reach shard"
    )
    assert " ".join(report["findings"][0]) == (
        "code rule level confidence source device location region call_chain further_roots count "
        "message why fix edits data fingerprint suppressed status"
    )
    assert list(report["devices"][0]) == ["device", "verdict", "buckets", "probes", "rank", "pool"]


def test_the_schema_adds_only_to_classes_and_fields_that_exist() -> None:
    modules = (model, ledger_model, executed)
    kinds = {kind.__name__: kind for module in modules for kind in vars(module).values() if is_dataclass(kind)}
    text = Path(model.__file__).with_name("report.schema.json").read_text(encoding="utf-8")
    for key in json.loads(text)["additions"]:
        kind, _, name = key.partition(".")
        assert kind in kinds and name in ("", *(one.name for one in fields(kinds[kind]))), key


def test_a_plans_keys_are_those_of_the_schema() -> None:
    parts = {"segments": Segment, "modules": PlannedModule, "fixes": Fix}
    schema = report_schema()["$defs"]["plan"]["properties"]
    assert list(schema) == [one.name for one in fields(Plan)]
    for name, kind in parts.items():
        assert set(schema[name]["items"]["properties"]) == {one.name for one in fields(kind)}


def test_a_plan_of_an_older_version_has_one_coverage_for_each_line() -> None:
    fix = Fix("GS101", Location("model.py", 3, 9, 4, 20, None), 0.75, 1.0, None)
    report = as_json(replace(samples.CAPTURE, plan=replace(samples.PLAN, fixes=(fix,))))
    assert parse_reports(json.dumps(report)).plan.fixes == (fix,)
    del report["plan"]["fixes"][0]["together"]
    assert parse_reports(json.dumps(report)).plan.fixes == (replace(fix, together=0.75),)


def test_no_key_of_a_probe_is_ever_absent() -> None:
    report = as_json(replace(samples.READY, devices=(DeviceResult("sim:0", "inconclusive", (), {}),)))
    probes = report["devices"][0]["probes"]
    assert {name: tuple(probe) for name, probe in probes.items()} == dict(PROBE_KEYS)
    assert {probe["status"] for probe in probes.values()} == {"skipped"}
    assert {value for probe in probes.values() for key, value in probe.items() if key != "status"} == {None}


def test_what_a_probe_says_beside_its_keys_is_kept() -> None:
    probes = {"timing": {"status": "pass", "speedup": 5.1, "eager_ms": float("nan")}}
    report = as_json(replace(samples.READY, devices=(DeviceResult("sim:0", "inconclusive", (), probes),)))
    timing = report["devices"][0]["probes"]["timing"]
    assert (timing["speedup"], timing["eager_ms"]) == (5.1, None)


def test_order_of_findings_does_not_depend_on_who_found_them_first() -> None:
    backwards = replace(samples.SCAN, findings=samples.SCAN.findings[::-1])
    assert render_json(backwards) == render_json(samples.SCAN)
    places = [(f["location"]["path"], f["location"]["line"]) for f in as_json(samples.SCAN)["findings"]]
    assert places == sorted(places)


def test_data_and_settings_are_sorted() -> None:
    finding = replace(samples.FINDINGS[0], data={"b": {"data": [1], "probes": 2}, "a": (1, 2)})
    environment = replace(samples.ENVIRONMENT, settings={"Z": "1", "A": "2"})
    report = as_json(replace(samples.SCAN, findings=(finding,), environment=environment))
    assert json.dumps(report["findings"][0]["data"]) == '{"a": [1, 2], "b": {"data": [1], "probes": 2}}'
    assert list(report["environment"]["settings"]) == ["A", "Z"]


@REPORTS
def test_reads_back_what_was_written(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "graphsafe-report.json"
    path.write_text(render_json(report), encoding="utf-8")
    back = read_saved(path)
    assert isinstance(back, Report)
    assert render_json(back) == render_json(report)
    assert isinstance(back.findings, tuple)
    assert (back.environment, back.plan) == (report.environment, report.plan)


def test_reads_many_back(tmp_path: Path) -> None:
    text = render_json(list(samples.ALL.values()))
    assert render_json(parse_reports(text)) == text
    assert parse_reports(render_json([])) == ()


def test_a_path_that_is_not_utf8_survives(tmp_path: Path) -> None:
    limit = replace(samples.SCAN.limits[0], what="caf\udce9.py")
    text = render_json(replace(samples.SCAN, limits=(limit,)))
    text.encode("utf-8")
    assert parse_reports(text).limits == (limit,)


def edited(*path: str | int, value: Any) -> str:
    report = as_json(samples.CAPTURE)
    at: Any = report
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(report)


LINE = ("findings", 1, "location", "line")
PROBES = ("devices", 1, "buckets", 0, "probes")
BROKEN = [
    ("", "not JSON: Expecting value: line 1 column 1 (char 0)"),
    ("{", "not JSON: "),
    ("[]", "not a graphsafe report"),
    ("7", "not a graphsafe report"),
    ("[" * 100_000, "not a report: nested too deeply"),
    ('{"schema": "https://example.com"}', "not a graphsafe report"),
    ('{"schema": "graphsafe/report/2"}', "schema 'graphsafe/report/2' is not one that this version reads"),
    ('{"schema": "graphsafe/reports/1"}', "reports: expected a list"),
    ('{"schema": "graphsafe/reports/1", "reports": [3]}', "reports[0]: expected an object, found 3"),
    ('{"schema": "graphsafe/report/1"}', "tool: missing"),
    (edited("colour", value=1), "colour: unknown key"),
    (
        edited("verdict", value="good"),
        "verdict: expected one of ready, ready-with-breaks, inconclusive, not-ready, found",
    ),
    (edited(*LINE, value="7"), 'findings[1].location.line: expected a whole number, found "7"'),
    (edited(*LINE, value=True), "findings[1].location.line: expected a whole number, found true"),
    (edited("findings", value={}), "findings: expected a list, found {}"),
    (
        edited("findings", 0, "call_chain", value=["a" * 99]),
        'findings[0].call_chain[0]: expected an object, found "aaa',
    ),
    (edited(*PROBES, value=[]), "devices[1].buckets[0].probes: expected an object, found []"),
    (edited("environment", "settings", "A", value=3), "environment.settings.A: expected text, found 3"),
]


@pytest.mark.parametrize(("text", "line"), BROKEN)
def test_what_is_no_report_is_told_in_one_line(text: str, line: str) -> None:
    with pytest.raises(ReportError) as error:
        parse_reports(text)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    with pytest.raises(ReportError, match=r"missing\.json: cannot be read: No such file"):
        read_saved(missing)
    latin = tmp_path / "latin.json"
    latin.write_bytes(b'{"schema": "\xe9"}')
    with pytest.raises(ReportError, match=r"latin\.json: not UTF-8 text"):
        read_saved(latin)
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    with pytest.raises(ReportError, match=r"broken\.json: not a graphsafe report"):
        read_saved(broken)


def test_a_report_of_an_older_version_has_no_name_and_no_shard() -> None:
    older = as_json(samples.CAPTURE)
    del older["name"], older["shard"]
    assert parse_reports(json.dumps(older)) == parse_reports(render_json(samples.CAPTURE))


def test_a_code_may_not_end_in_a_line_break() -> None:
    saved = as_json(replace(samples.SCAN, findings=samples.FINDINGS))
    saved["findings"][0]["code"] += "\n"
    with pytest.raises(ReportError, match=r"findings\[0\]\.code: not of the form"):
        parse_reports(json.dumps(saved))

"""Every probe in every form: with all that it can say, with nothing, and with texts that try to leave the form."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin
from xml.etree import ElementTree as xml

import jsonschema
import pytest
import samples

from graphsafe.report.changes import change_lines, changes
from graphsafe.report.forms import FORMS, render
from graphsafe.report.json_form import parse_reports, render_json
from graphsafe.report.model import DeviceResult, Report
from graphsafe.report.probes import PROBE_KEYS, PROBES, Probes
from graphsafe.report.probes.capture import Capture
from graphsafe.report.probes.probe import is_unreported
from graphsafe.report.reading import hints_of
from graphsafe.report.schema import report_schema
from graphsafe.report.verdict import verdict

EVIL = '<script>alert(1)</script> & "q" \033[31m ]]> %0A\n::error::x \u202e'
VALID = jsonschema.Draft202012Validator(report_schema())
STATUSES = ("pass", "fail", "skipped", "crashed", "timeout")


def filled(kind: Any, text: str) -> Any:
    """A JSON value of a field's type, with every key and with `text` wherever text may stand."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return filled(next(one for one in arguments if one is not type(None)), text)
    if origin is Literal:
        return arguments[0]
    if origin is tuple:
        return [filled(arguments[0], text), filled(arguments[0], text)]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {text: filled(arguments[1], text)}
    if is_dataclass(kind) and isinstance(kind, type):
        return {name: filled(hint, text) for name, hint in hints_of(kind).items()}
    return {str: text, bool: True, int: 3, float: 2.5}.get(kind)


def report_of(**probes: Any) -> Report:
    """A report of one device; without findings, which other tests show."""
    said = {**{name: {"status": "skipped"} for name in PROBES}, **probes}
    return replace(samples.READY, findings=(), devices=(DeviceResult("sim:0", verdict(said), (), said),))


def nothing(name: str, status: str) -> dict[str, Any]:
    return {**dict.fromkeys(PROBE_KEYS[name]), "status": status}


@pytest.mark.parametrize("name", PROBES)
def test_every_probe_is_shown_and_escaped_in_every_form(name: str) -> None:
    evil = filled(PROBES[name], EVIL)
    for status in STATUSES:
        said = [evil if status in ("pass", "fail") else {"reason": EVIL}, nothing(name, status)]
        for report in [report_of(**{name: {**one, "status": status}}) for one in said]:
            texts = {form: render(report, form, source=lambda path: None) for form in FORMS}
            for form in ("terminal", "concise", "github"):
                assert all(line.isprintable() for line in texts[form].splitlines()), form
                assert not any(line.lstrip().startswith("::error::x") for line in texts[form].splitlines()), form
            assert "<script" not in texts["html"] and "\033" not in texts["html"]
            xml.fromstring(texts["junit"])
            VALID.validate(json.loads(texts["json"]))
            assert parse_reports(texts["json"]) == parse_reports(render_json(report))
            for form in ("terminal", "html"):
                assert name in texts[form] and status in texts[form], form
            assert all(line.isprintable() for line in change_lines(changes([samples.READY], [report])))


@pytest.mark.parametrize("name", PROBES)
def test_what_a_probe_says_stands_in_the_terminal_and_in_html(name: str) -> None:
    said = {**filled(PROBES[name], "seen-here"), "status": "pass", "reason": None}
    probe = dict(Probes.of({name: said}))[name]
    report = report_of(**{name: said})
    assert probe.told()
    for form in ("terminal", "html"):
        text = " ".join(render(report, form, width=1000, source=lambda path: None).split())
        assert probe.told() in text, form


def test_the_kinds_of_nodes_are_counted() -> None:
    assert Capture("pass", nodes={"kernel": 4, "memcpy": 1}).text() == "5 nodes: 4 kernels and 1 memcpy"


def test_keys_are_the_fields_that_a_report_has() -> None:
    for name, kind in PROBES.items():
        assert PROBE_KEYS[name] == tuple(one.name for one in fields(kind) if not is_unreported(one))
        assert Probes.of({}) == Probes.of(dict.fromkeys(PROBES)) == Probes()

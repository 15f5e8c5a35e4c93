"""JUnit XML: the findings of a scan, or the devices and buckets of a capture, as test cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as xml

from graphsafe.report.capture_text import reason
from graphsafe.report.model import Finding, Report, in_order, title_of, unsuppressed
from graphsafe.report.no_line import unplaced
from graphsafe.report.text import BIDI_CONTROLS, INVISIBLE, part_name, without_commands

_BIDI_CONTROLS = re.compile(f"[{BIDI_CONTROLS}]")
_NOT_XML = re.compile("[^\t\n\r\u0020-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(reports: Sequence[Report]) -> str:
    """Return the test cases as XML.

    A scan's errors are failures, and suppressed findings are skipped. Warnings and notes pass, and their message is the
    output. A device or bucket is a failure if it is not ready, and an error if it is inconclusive. If it is ready with
    breaks, it is skipped, because only the target's configuration says whether that is a success.
    """
    root = xml.Element("testsuites", name="graphsafe")
    for report in reports:
        suite = _add(root, "testsuite", name=title_of(report), timestamp=report.created.removesuffix("Z"))
        if report.devices is None:
            _scan_cases(suite, report)
        else:
            _capture_cases(suite, report)
        suite.set("tests", str(len(suite)))
        for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))
    xml.indent(root)
    text = without_commands(xml.tostring(root, encoding="unicode"), INVISIBLE)
    text = _BIDI_CONTROLS.sub(lambda found: f"&#{ord(found[0])};", text)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _scan_cases(suite: xml.Element, report: Report) -> None:
    for finding in in_order(report.findings):
        at = finding.location
        case = _case(suite, at.path, f"{finding.code} {finding.rule} {at.line}:{at.column}")
        if finding.suppressed is not None:
            _add(case, "skipped", message=finding.suppressed.reason or "suppressed")
        elif finding.level == "error":
            _add(case, "failure", _text(finding), type=finding.code, message=finding.message)
        else:
            _add(case, "system-out", _text(finding))
    without = unplaced(report.limits)
    for one in without:
        case = _case(suite, report.called or "graphsafe", f"{one.code} {one.rule}")
        if one.level == "error":
            _add(case, "failure", one.text, type=one.code, message=one.message)
        else:
            _add(case, "system-out", one.text)
    if not report.findings and not without:
        _case(suite, "graphsafe", "no findings")


def _capture_cases(suite: xml.Element, report: Report) -> None:
    for device in report.devices or ():
        found = "\n\n".join(_text(one) for one in unsuppressed(report) if one.device in (None, device.device))
        for part in device.parts:
            case = _case(suite, report.called or "capture", part_name(device, part))
            verdict, why = part.verdict, reason(part.probes, report.plan, part.verdict)
            if verdict == "not-ready":
                _add(case, "failure", found, type=verdict, message=why or verdict)
            elif verdict == "inconclusive":
                _add(case, "error", found, type=verdict, message=why or verdict)
            elif verdict == "ready-with-breaks":
                _add(case, "skipped", message=f"{verdict}: {why}" if why else verdict)
    if not report.devices:
        case = _case(suite, report.called or "capture", "capture")
        why = "; ".join(f"{limit.what}: {limit.why}" for limit in report.limits)
        _add(case, "error", type="inconclusive", message=why)


def _case(suite: xml.Element, classname: str, name: str) -> xml.Element:
    return _add(suite, "testcase", classname=classname, name=name, time="0")


def _add(parent: xml.Element, tag: str, text: str | None = None, **attributes: str) -> xml.Element:
    element = xml.SubElement(parent, tag, {name: _NOT_XML.sub("?", value) for name, value in attributes.items()})
    element.text = _NOT_XML.sub("?", text) if text else None
    return element


def _text(finding: Finding) -> str:
    at = finding.location
    place = f"{at.path}:{at.line}:{at.column}: {finding.code} {finding.message}"
    return "\n".join(filter(None, (place, finding.why, finding.fix and f"Fix: {finding.fix}")))

"""Fingerprints stay when code moves, and differ where findings do."""

from __future__ import annotations

from dataclasses import replace

from samples import FINDINGS

from graphsafe.report.fingerprint import fingerprint, fingerprinted, normalised, same_cause
from graphsafe.report.model import Finding, Location
from graphsafe.report.source import line_of

READ = FINDINGS[0]


def at(line: int, column: int = 9, **more: object) -> Finding:
    location = Location("src/layer.py", line, column, line, column + 5, "Layer.forward")
    return replace(READ, location=location, **more)  # type: ignore[arg-type]


def prints(text: str, *findings: Finding, root: str = "") -> list[str]:
    found = fingerprinted(findings, lambda path, line: line_of(text.splitlines(), line), lambda path: root + path)
    return [finding.fingerprint for finding in found]


def test_is_16_hexadecimal_digits_and_the_same_on_every_machine() -> None:
    assert fingerprint("GS101", "src/layer.py", "Layer.forward", "n = x.item()", 0) == "4e5f1103a930c04a"


def test_every_part_counts() -> None:
    parts = ("GS101", "src/layer.py", "Layer.forward", "n = x.item()", 0)
    others = [
        fingerprint(*{**dict(enumerate(parts)), at: other}.values())  # type: ignore[arg-type]
        for at, other in enumerate(("GS102", "src/other.py", None, "m = x.item()", 1))
    ]
    assert len({fingerprint(*parts), *others}) == 6


def test_moving_respacing_and_commenting_a_line_changes_nothing() -> None:
    before = prints("n = x.item()", at(1))
    assert prints("\n\n    n  =  x.item()  # graphsafe: ignore[GS101] once", at(3)) == before
    assert prints("n = y.item()", at(1)) != before


def test_a_hash_in_a_string_is_no_comment() -> None:
    assert normalised("""  f("a # b", 'it\\'s #')  # c 'd' """) == """f("a # b", 'it\\'s #')"""
    assert normalised("print('open # string") == "print('open"


def test_equal_lines_of_one_function_are_counted() -> None:
    text = "n = x.item()\nn = x.item()\nn = x.item(); m = x.item()"
    first, second, third, fourth = prints(text, at(2), at(1), at(3, 5), at(3, 19))
    assert len({first, second, third, fourth}) == 4
    assert [first] == prints(text, at(1))


def test_devices_and_sources_share_a_fingerprint() -> None:
    found = prints("n = x.item()", at(1), at(1, device="cuda:0", source="capture"), at(1, device="cuda:1"))
    assert len(set(found)) == 1


def test_counts_from_the_project_root() -> None:
    assert prints("n = x.item()", at(1), root="sub/") != prints("n = x.item()", at(1))


def test_a_file_that_is_gone_has_empty_lines() -> None:
    (gone,) = fingerprinted([at(1)], lambda path, line: line_of(None, line), lambda path: path)
    assert gone.fingerprint == fingerprint("GS101", "src/layer.py", "Layer.forward", "", 0)
    assert prints("one line", at(9)) == [gone.fingerprint]


def test_a_prediction_about_state_has_the_cause_of_a_finding_in_its_function_or_on_its_line() -> None:
    def about(line: int, function: str, code: str = "GS702") -> Finding:
        return replace(at(line, code=code), location=Location("src/layer.py", line, 5, line, 9, function))

    predicted = about(4, "factory")
    assert same_cause(predicted, about(6, "factory"))
    assert same_cause(predicted, about(4, "factory.<lambda>"))
    assert not same_cause(predicted, about(6, "factory.<lambda>"))
    assert not same_cause(predicted, about(4, "factory.<lambda>", "GS703"))

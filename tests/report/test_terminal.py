"""The terminal form, as a person reads it at 80 columns and as a pipe gets it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest
import samples

from graphsafe.report.forms import render
from graphsafe.report.model import CallSite, DeviceResult, Limit, Location, Report, in_order
from graphsafe.report.terminal import code_frame
from graphsafe.report.text import COLOURS, Sheet, cells, chained, count, listed, painter, printable, wrapped

PLAIN = painter(False)


def terminal(report: Report, *, colour: bool = False, width: int = 80) -> str:
    return render(report, "terminal", colour=colour, width=width, source=samples.source)


def block(text: str, start: str) -> str:
    """The paragraph that begins with `start`."""
    return next(part for part in text.split("\n\n") if part.startswith(start))


def test_a_finding_has_its_code_a_caret_the_chain_why_and_fix() -> None:
    assert (
        block(terminal(samples.SCAN), "GS104")
        == """\
GS104 error: an f-string formats `tokens.sum()`, a device tensor
  --> engine/routing.py:7:11 in bucket (likely)
  |
7 |     print(f"tokens: {tokens.sum()}")
  |           ^^^^^^^^^^^^^^^^^^^^^^^^^
  hot because: DecoderLayer.forward (engine/layer.py:17)
      -> route (engine/routing.py:2) -> here
  why: The host waits for the device, and waiting is not permitted while a
       stream is being captured.
  fix: Keep the value on the device: `torch.where`, a mask, or a 0-d tensor as
       an operand."""
    )


def test_a_long_list_explains_each_code_once() -> None:
    first = next(finding for finding in samples.FINDINGS if finding.code == "GS104")
    lines = range(1, 4)
    findings = tuple(replace(first, location=replace(first.location, line=line, end_line=line)) for line in lines)
    text = terminal(replace(samples.SCAN, findings=findings))
    assert text.count(first.why.split(",")[0]) == 1
    assert text.count("why: as above; more with `graphsafe explain GS104`") == 2
    assert text.count("fix: ") == 3


def test_a_long_way_is_told_once_in_a_row() -> None:
    first = next(finding for finding in samples.FINDINGS if finding.code == "GS104")
    way = tuple(CallSite(f"engine/{name * 20}.py", 1, name) for name in "abc")
    findings = tuple(
        replace(first, call_chain=way[:end], location=replace(first.location, line=line, end_line=line))
        for line, end in ((1, 3), (2, 3), (3, 1))
    )
    text = terminal(replace(samples.SCAN, findings=findings))
    assert [line for line in text.splitlines() if "hot because" in line] == [
        "  hot because: a (engine/aaaaaaaaaaaaaaaaaaaa.py:1)",
        "  hot because: as above",
        "  hot because: a (engine/aaaaaaaaaaaaaaaaaaaa.py:1) -> here",
    ]


def test_many_findings_are_a_line_a_function_and_end_on_where_to_start() -> None:
    first, other = samples.FINDINGS[:2]
    findings = tuple(replace(first, location=replace(first.location, line=line, end_line=line)) for line in range(60))
    central = replace(other, further_roots=7, location=replace(other.location, function="shared"))
    text = terminal(replace(samples.SCAN, findings=(*findings, central)))
    assert text.count("GS101 error") == 2 and "57, 58 and 59" in text, "one line, and the proposal to start with"
    assert "\n\n60  GS101  scalar-read\n 1  GS102  device-value-branch\n\nStart here" in text
    start = text[text.index("Start here") :].splitlines()
    assert "GS102 error, reached from 8 roots" in start[1] and "GS101 error, reached from" in start[2]
    assert start[-1] == "61 errors in 1 file"


def test_a_root_begins_a_step() -> None:
    text = " ".join(block(terminal(samples.SCAN), "GS102").split())
    begins = "DecoderLayer.forward begins a step: forward of a torch module (and from 2 further roots)"
    assert f"hot because: {begins}" in text


def test_what_no_step_reaches_is_not_called_hot() -> None:
    assert "hot because" not in block(terminal(samples.SCAN), "GS703")


def test_what_capture_saw_is_not_called_hot() -> None:
    chain = (CallSite("engine/layer.py", 7, "DecoderLayer.__init__"),)
    finding = replace(samples.CAPTURE.findings[0], call_chain=chain)
    text = terminal(replace(samples.CAPTURE, findings=(finding,)))
    assert "  called by: DecoderLayer.__init__ (engine/layer.py:7) -> here\n" in text
    assert "hot because" not in text


def test_order_is_place_then_notes_then_fresh_buffers_then_limits_then_the_sum() -> None:
    text = terminal(samples.SCAN)
    begins = [part.split()[0] for part in text.strip().split("\n\n")]
    assert begins == [
        "GS101",
        "GS102",
        "GS202",
        "GS101",
        "GS703",
        "GS104",
        "engine/routing.py:3:12:",
        "GS401",
        "Not",
        "5",
    ]
    assert text.endswith("\n\n5 errors, 1 warning and 3 notes in 2 files; 1 suppressed\n")


def test_fresh_buffers_are_one_line_a_file() -> None:
    fresh = samples.FINDINGS[4]
    elsewhere = replace(fresh, location=replace(fresh.location, path="engine/cache.py", line=2))
    report = replace(samples.SCAN, findings=(*samples.FINDINGS, elsewhere))
    assert block(terminal(report), "GS401").splitlines() == [
        "GS401 note: 3 fresh buffers every step, in 2 files",
        "  --> engine/layer.py:9 and line 10",
        "  --> engine/cache.py:2",
        "  fix: Allocate it once, in `__init__`, and fill it in place.",
    ]


def test_notes_of_one_code_are_told_once_a_function() -> None:
    note = next(one for one in samples.FINDINGS if one.level == "note" and one.code != "GS401")
    others = tuple(replace(note, location=replace(note.location, line=line)) for line in (7, 8))
    elsewhere = replace(note, location=replace(note.location, line=9, function="another"))
    text = terminal(replace(samples.SCAN, findings=(note, *others, elsewhere)), width=200)
    assert text.splitlines()[:3] == [
        f"engine/routing.py:3:12: {note.code} note: {note.message}, and lines 7 and 8",
        f"engine/routing.py:9:12: {note.code} note: {note.message}",
        "",
    ]
    assert text.endswith("4 notes in 1 file\n")


def test_nothing_suppressed_is_shown() -> None:
    assert "bincount" not in terminal(samples.SCAN)


def test_no_findings() -> None:
    assert terminal(samples.EMPTY_SCAN) == "no findings\n"


def test_devices_that_say_the_same_are_one_finding() -> None:
    first = samples.CAPTURE.findings[0]
    others = tuple(replace(first, device=device) for device in ("cuda:0", "cuda:1", "cuda:2"))
    text = terminal(replace(samples.CAPTURE, findings=others))
    assert text.count("GS101 error") == 1
    assert "(proven on cuda:0, cuda:1 and cuda:2, confirmed)" in text


def test_capture_shows_devices_buckets_probes_and_reasons() -> None:
    text = terminal(samples.CAPTURE)
    assert block(text, "cuda:0").startswith(
        "cuda:0: ready: captured, and 3 replays on changed inputs equal the reference\n  construct  pass\n"
    )
    second = block(text, "cuda:1")
    assert "  batch=1 q_len=2: ready: captured" in second
    assert "  batch=4 q_len=2: not-ready: the capture failed: CUDA error: operation not\n      permitted" in second
    gain = "5.1 times as fast, pool 34.0 MiB, a step takes 20.0 MiB at once, most of it at engine/layer.py:9"
    assert f"equal the reference; {gain}" in " ".join(second.split())
    assert "    step       fail     3 syncs, 1 copy and 12 allocations\n" in second
    assert "    memory     timeout  300 s\n" in second
    assert text.endswith("\nexamples/decoder_bad/factory.py:build: not-ready; 2 errors in 1 file\n")


def test_capture_shows_the_lines_that_take_memory() -> None:
    first = " ".join(block(terminal(samples.CAPTURE), "cuda:0").split())
    assert "a step takes 20.0 MiB at once (16.0 MiB at engine/layer.py:9 and 4.0 MiB at no known line)" in first
    assert "the graph uses 16.0 MiB of its 34.0 MiB at once" in first
    assert "in use between replays: 4.0 KiB (4.0 KiB at engine/layer.py:15)" in first


def test_a_prediction_says_so() -> None:
    assert "Predicted on the simulated device" in terminal(samples.READY)
    assert "Predicted" not in terminal(samples.CAPTURE)


def test_a_reason_is_only_given_where_the_probes_give_that_verdict() -> None:
    odd = replace(samples.READY, devices=(DeviceResult("sim:0", "inconclusive", (), samples.PASSED),))
    assert "sim:0: inconclusive\n" in terminal(odd)


def test_a_long_error_shows_its_first_line() -> None:
    error = {"message": "CUDA error: unspecified\nCUDA kernel errors might be asynchronously reported"}
    probes = samples.FAILED | {"capture": {"status": "fail", "first_error": error}}
    text = terminal(replace(samples.READY, devices=(DeviceResult("cuda:0", "not-ready", (), probes),)))
    assert "CUDA error: unspecified" in text
    assert "asynchronously" not in text


def test_many_limits_are_cut() -> None:
    limits = tuple(Limit("no-root", f"part{number}", "none") for number in range(25))
    text = terminal(replace(samples.EMPTY_SCAN, limits=limits))
    assert "part19" in text
    assert "part20" not in text
    assert "and 5 more, in the JSON form" in text


@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())
@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(report: Report, width: int) -> None:
    for line in terminal(report, width=width).splitlines():
        assert cells(line) <= width, line


@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())
def test_colour_changes_nothing_but_colour(report: Report) -> None:
    plain, coloured = terminal(report), terminal(report, colour=True)
    assert "\033" not in plain
    assert "\033[" in coloured or report is samples.EMPTY_SCAN
    assert re.sub(r"\033\[[0-9;]*m", "", coloured) == plain


def test_text_cannot_drive_the_terminal() -> None:
    finding = replace(samples.FINDINGS[0], message="\033]0;title\a \u202eolleh", why="\r\033[2J", fix="a\nb")
    report = replace(samples.SCAN, findings=(finding,), limits=(Limit("k\033", "w\b", "y\x9b"),))
    evil = ["x = 1  # \033[31m"] * 30
    text = render(report, "terminal", source=lambda path: evil)
    assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}


def test_a_file_that_is_gone_has_no_frame() -> None:
    text = render(samples.SCAN, "terminal", source=lambda path: None)
    assert "^^^" not in text
    assert "  --> engine/layer.py:11:19 in DecoderLayer.forward (likely)\n  why: " in text


def span(line: str, marked: str) -> Location:
    column = line.index(marked) + 1
    return Location("a.py", 1, column, 1, column + len(marked), None)


def under_caret(line: str, marked: str, width: int) -> str:
    """What stands over the carets, by cells."""
    _, code, caret = code_frame(span(line, marked), [line], Sheet(width, PLAIN), "red")
    assert cells(code) <= width and cells(caret) <= width
    start, end = caret.index("^"), caret.rindex("^") + 1
    column = 0
    shown = ""
    for character in code:
        if start <= column < end:
            shown += character
        column += cells(character)
    return shown


WIDE_LINES = [
    ("x = y.item()", "y.item()"),
    ("\t\tx = y.item()", "y.item()"),
    ("        " * 9 + "x = y.item()", "y.item()"),
    ("a = " + "b + " * 40 + "y.item()", "y.item()"),
    ("a = " + "b + " * 40 + "y.item()" + " + c" * 40, "y.item()"),
    ("y.item()" + " + c" * 40, "y.item()"),
    ("长度 = '长度长度' + y.item()", "y.item()"),
    ("长度 = '" + "长" * 60 + "' + y.item()", "y.item()"),
    ("x = '" + "e\u0301" * 60 + "' + y.item() # " + "长" * 60, "y.item()"),
]


@pytest.mark.parametrize(("line", "marked"), WIDE_LINES)
@pytest.mark.parametrize("width", [40, 80])
def test_carets_stand_under_the_span(line: str, marked: str, width: int) -> None:
    assert under_caret(line, marked, width) == marked


def test_a_span_that_is_wider_than_the_terminal_is_cut() -> None:
    line = "x = torch.cat([" + ", ".join(f"part_{number}" for number in range(60)) + "])"
    code, caret = code_frame(span(line, line[4:]), [line], Sheet(80, PLAIN), "red")[1:]
    assert code.startswith("1 | x = torch.cat([part_0") and code.endswith("...")
    assert caret == "  |     " + "^" * (80 - len("1 | x = ") - 3)


def test_of_several_lines_the_first_is_shown() -> None:
    lines = ["x = f(  ", "    y.item(),", ")"]
    code, caret = code_frame(Location("a.py", 1, 5, 3, 2, None), lines, Sheet(80, PLAIN), "red")[1:]
    assert (code, caret) == ("1 | x = f(", "  |     ^^")


@pytest.mark.parametrize("location", [Location("a.py", 9, 1, 9, 2, None), Location("a.py", 1, 99, 1, 120, None)])
def test_a_file_that_changed_since_does_no_harm(location: Location) -> None:
    frame = code_frame(location, ["x = 1"], Sheet(80, PLAIN), "red")
    assert frame == [] or frame[2].endswith("^")


def test_piped_form_needs_neither_rich_nor_anything_else_that_is_slow() -> None:
    code = (
        "import sys, graphsafe.report.forms as forms, graphsafe.report.terminal, graphsafe.report.concise;"
        "print(*sorted({name.split('.')[0] for name in sys.modules} & {'rich', 'libcst', 'torch', 'yaml', 'click'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_concise_is_one_line_a_finding_and_one_a_file_for_fresh_buffers_behind_them() -> None:
    text = render(samples.SCAN, "concise")
    *others, last = text.splitlines()
    assert last == "engine/layer.py:9:17: GS401 note: 2 fresh buffers every step, here and line 10"
    assert len(others) == sum(one.suppressed is None and one.code != "GS401" for one in samples.FINDINGS)
    alone = tuple(one for one in samples.FINDINGS if one.location.line != 10)
    assert (
        render(replace(samples.SCAN, findings=alone), "concise").splitlines()[-1].endswith(samples.FINDINGS[4].message)
    )
    raised = tuple(replace(one, level="warning") for one in samples.FINDINGS if one.code == "GS401")
    assert render(replace(samples.SCAN, findings=raised), "concise").count("GS401 warning: `torch") == 2
    assert all(re.fullmatch(r"\S+:\d+:\d+: [A-Z]+\d+ .+", line) for line in text.splitlines())
    assert render(samples.EMPTY_SCAN, "concise") == ""


def test_concise_ends_with_the_verdict() -> None:
    assert render(samples.CAPTURE, "concise").splitlines()[-1] == "examples/decoder_bad/factory.py:build: not-ready"


def test_concise_keeps_a_message_on_its_line() -> None:
    finding = replace(samples.FINDINGS[0], message="two\nlines")
    assert render(replace(samples.SCAN, findings=(finding,)), "concise").count("\n") == 1


def test_order_is_the_same_whoever_found_first() -> None:
    backwards = replace(samples.SCAN, findings=samples.FINDINGS[::-1])
    assert in_order(backwards.findings) == in_order(samples.FINDINGS)
    for form in ("terminal", "concise"):
        assert render(backwards, form, source=samples.source) == render(samples.SCAN, form, source=samples.source)


def test_words() -> None:
    assert [count(number, "copy") for number in (0, 1, 2)] == ["0 copies", "1 copy", "2 copies"]
    assert count(2, "replay") == "2 replays"
    assert [count(number, "empty") for number in (1, 2)] == ["1 empty", "2 empties"]
    assert [listed("abcd"[:number]) for number in range(5)] == ["", "a", "a and b", "a, b and c", "a, b, c and d"]
    assert listed("abcdef", most=3) == "a, b, c and 3 more"
    assert wrapped("", 10, "> ") == ["> "]
    assert wrapped("one two three", 9, "- ", "  ") == ["- one two", "  three"]
    assert wrapped("abcdefghij k", 6, "> ", "  ") == ["> abcd", "  efgh", "  ij k"]
    assert wrapped("长长长", 5, "", "") == ["长长", "长"]
    assert chained(["a", "b", "c"], 9, "x: ", "  ") == ["x: a -> b", "  -> c"]
    assert chained(["f (p:1)", "here"], 9, "hot: ", " ") == ["hot: f", " (p:1)", " -> here"]
    assert printable("a\tb\033\u200b") == "a   b??"


def test_colours_can_be_read_on_black_and_on_white() -> None:
    """By the contrast ratio of WCAG, of which 3 is asked for large text and 4.5 for small."""

    def luminance(number: int) -> float:
        cube = number - 16
        levels = (0, 95, 135, 175, 215, 255)
        parts = (levels[cube // 36] / 255, levels[cube // 6 % 6] / 255, levels[cube % 6] / 255)
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for name, number in COLOURS.items():
        light = luminance(number)
        assert 1.05 / (light + 0.05) > 3.9 and (light + 0.05) / 0.05 > 3.9, name


def test_a_reason_is_printed_once_and_probes_after_it_are_left_out() -> None:
    why = "the factory failed: RuntimeError: weights are missing (model.py:9)"
    skipped = {name: {"status": "skipped"} for name in ("step", "capture", "replay")}
    built = {"construct": {"status": "pass"}, "step": {"status": "fail", "ran": False, "reason": why}}
    for probes, shown in (
        (
            {"construct": {"status": "fail", "built": False, "reason": why, "calls": ["model.py:9 in build"]}},
            "the target was not built: {}\n  construct  fail     not built\n    at model.py:9 in build\n",
        ),
        ({"construct": {"status": "timeout", "reason": why}}, "construction timed out: {}\n  construct  timeout\n"),
        (built, "the step fails eagerly: {}\n  construct  pass\n  step       fail\n"),
    ):
        device = DeviceResult("sim:0", "inconclusive", (), {**skipped, **probes})
        known = Limit("bad-request", "model.py:build", why), Limit("simulated", "sim:0", "this machine has no GPU")
        report = replace(samples.READY, verdict="inconclusive", devices=(device,), limits=known, findings=())
        text = terminal(report, width=200)
        assert "sim:0: inconclusive: " + shown.format(why) + "\n" in text
        assert text.startswith("Not known:\n  sim:0: this machine has no GPU [simulated]\n\n")
    # Without devices, nothing else gives the reason.
    assert f"model.py:build: {why} [bad-request]" in terminal(replace(report, devices=()), width=200)


def test_the_reason_in_one_line_is_that_of_the_rank_that_failed() -> None:
    waiting = DeviceResult("sim:0", "inconclusive", (), {"step": {"status": "skipped", "reason": "rank 1 had ended"}})
    failed = replace(waiting, device="sim:1", probes={"construct": {"status": "fail", "built": False, "reason": "no"}})
    report = replace(samples.READY, verdict="inconclusive", devices=(waiting, failed))
    assert render(report, "concise").endswith(": inconclusive: the target was not built: no\n")

"""The rulebook: graphsafe's own rules are consistent, packs are read, and a malformed file gives one clear line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphsafe import cli
from graphsafe.report.model import LEVELS
from graphsafe.rule_cases import rule_faults, run_cases
from graphsafe.rulebook import book
from graphsafe.rulebook.book import RulebookError, load_pack, load_rulebook
from graphsafe.rulebook.rulefile import CODE, expected_lines
from graphsafe.rulebook.vocabulary import HOWS

RULES = Path(__file__).parents[1] / "rules"

PACK = """
code: OUR101
name: our-rule
level: warning
summary: It does what we do not want.
what: Text.
why: Text.
fix: Text.
fix_short: do the other thing
message: "`{expr}` reads {value}"
match:
  - event: HostRead
    how: [method]
  - event: Branch
cases:
  bad:
    - title: a read
      code: |
        x.item()  # expect: OUR101
  good:
    - title: nothing
      code: |
        pass
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def edited(old: str, new: str) -> str:
    assert old in PACK
    return PACK.replace(old, new)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "cache"))
    return tmp_path / "cache" / "graphsafe"


def test_the_rules_of_graphsafe_hold_together() -> None:
    rulebook = load_rulebook()
    assert list(rule_faults()) == []
    assert len(rulebook.rules) == len(list(RULES.glob("GS*.yaml")))
    for rule in rulebook.rules.values():
        assert CODE.fullmatch(rule.code) and rule.level in LEVELS
    assert "execute_model" in rulebook.entry_points
    assert rulebook.ops.method("item") is not None


def test_every_error_refers_to_rules_that_exist() -> None:
    rulebook = load_rulebook()
    for error in rulebook.errors:
        assert set(error.rules) <= set(rulebook.rules), error.texts


def test_rules_test_finds_what_no_case_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(book, "leads_out", lambda file, folder: False)  # as for a file in the rules/ of a checkout
    text = PACK.replace("x.item()", "pass").replace("OUR101", "GS198").replace("  - event: Branch\n", "")
    more = "see_also: [GS101, GS199]\n"
    unknown = "evidence:\n  - {torch: 2.11.0, atlas: [no_such_snippet], says: x}\n"
    assert list(rule_faults([write(tmp_path / "GS198.yaml", text + more)])) == [
        "GS198: see_also names GS199, and there is no such rule",
        "GS198: give `evidence`, or the source of its facts (rules/README.md)",
        "GS198: its file must be called GS198-our-rule.yaml",
    ]
    named = write(tmp_path / "GS198-our-rule.yaml", text + unknown)
    assert list(rule_faults([named])) == ["GS198: atlas names no_such_snippet, unknown to rules/ops/torch-*.json"]
    assert cli.main(["rules", "test", str(named)]) == 1
    assert "atlas names no_such_snippet" in capsys.readouterr().out


def test_the_page_about_rules_names_every_event() -> None:
    page = (RULES / "README.md").read_text(encoding="utf-8")
    for kind, hows in HOWS.items():
        row = next((line for line in page.splitlines() if line.startswith(f"| {kind} |")), "")
        missing = hows - set(re.findall(r"[\w-]+", row.partition(f"| {kind} |")[2]))
        assert not missing, f"add {sorted(missing)} to the line {kind} of rules/README.md"


@pytest.mark.child
def test_every_case_of_graphsafes_own_rules_passes() -> None:
    problems = [problem for problem in run_cases() if problem is not None]
    assert not problems, "\n".join(problems)


def test_a_pack_joins_the_rulebook_and_its_matches_are_found(tmp_path: Path) -> None:
    rulebook = load_rulebook([write(tmp_path / "pack.yaml", PACK)])
    codes = {rule.code for rule, _ in rulebook.matching("HostRead", "method")}
    assert codes == {"GS101", "OUR101"}
    assert "OUR101" in {rule.code for rule, _ in rulebook.matching("Branch", "any how at all")}
    assert "OUR101" not in {rule.code for rule, _ in rulebook.matching("HostRead", "cast")}
    assert rulebook.digest != load_rulebook().digest


def test_a_pack_may_be_a_folder_and_a_file_may_hold_a_list(tmp_path: Path) -> None:
    second = PACK.replace("OUR101", "OUR102").replace("our-rule", "our-other-rule").strip()
    listed = "\n".join("- " + text.replace("\n", "\n  ") for text in (PACK.strip(), second))
    (tmp_path / "pack").mkdir()
    write(tmp_path / "pack" / "ours.yaml", listed)
    assert {"OUR101", "OUR102"} <= set(load_rulebook([tmp_path / "pack"]).rules)


def test_a_pack_that_is_tried_stands_in_for_graphsafes_own_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = (RULES / "GS101-scalar-read.yaml").read_text(encoding="utf-8")
    changed = re.sub(r"^summary:.*$", "summary: Changed.", own, flags=re.MULTILINE)
    pack = write(tmp_path / "GS101.yaml", changed)
    with pytest.raises(RulebookError, match=r"GS101: codes that begin with GS are graphsafe's own"):
        load_pack(pack)
    monkeypatch.setattr(book, "leads_out", lambda file, folder: False)  # as for a file in the rules/ of a checkout
    rulebook, codes = load_pack(pack)
    assert codes == {"GS101"}
    assert rulebook.rules["GS101"].summary == "Changed."
    assert "GS102" in rulebook.rules


MALFORMED = {
    "unknown key": (edited("summary:", "sumary:"), 'sumary: unknown key (did you mean "summary"?)'),
    "missing key": (edited("why: Text.\n", ""), "why: missing"),
    "wrong type": (edited("name: our-rule", "name: [a]"), "name: expected a string, got ['a']"),
    "code": (edited("code: OUR101", "code: our1"), "code: expected capital letters and three digits"),
    "level": (edited("level: warning", "level: fatal"), "level: expected one of note, warning, error, got 'fatal'"),
    "event": (edited("event: Branch", "event: Brunch"), "match[1].event: expected one of"),
    "match key": (edited("how: [method]", "hov: [method]"), 'match[0].hov: unknown key (did you mean "how"?)'),
    "empty how": (edited("[method]", "[]"), "match[0].how: an empty list matches nothing"),
    "placeholder": (edited("{value}", "{value.__class__}"), "message: expected plain placeholders"),
    "brace": (edited("{value}", "{value"), "message: expected '}' before end of string"),
    "two lines": (edited("do the other thing", "|\n  one\n  two"), "fix_short: expected one line"),
    "no mark": (edited("  # expect: OUR101", ""), "cases.bad[0].code: no line ends with `# expect: OUR101`"),
    "no cases": (PACK[: PACK.index("cases:")], "cases: a rule that matches events needs at least one bad and one good"),
    "twice": (PACK + "level: error\n", 'the key "level" is given twice'),
    "not yaml": ("code: [", "pack.yaml:2: "),
    "not a rule": ("just text", "expected a table, got 'just text'"),
    "an object": ("!!python/object/apply:os.system ['exit 1']", "could not determine a constructor"),
    "versions": (PACK + "torch: new\n", "torch: expected versions such as \">=2.6,<2.12\", got 'new'"),
    "reserved": (PACK.replace("OUR101", "GS999"), "codes that begin with GS are graphsafe's own"),
    "lists in lists": ("- " * 5000 + "1", "pack.yaml:1: nested too deeply"),
    "tables in tables": ("{a: " * 5000 + "1" + "}" * 5000, "pack.yaml:1: nested too deeply"),
    "open lists": ("[" * 1_000_000, "pack.yaml:1: nested too deeply"),
    "aliases of aliases": (
        PACK + "error_text: &a [x, x]\nchecklist: &b [*a, *a, *a, *a]\nsee_also: [*b, *b, *b, *b]\n",
        "a rule file has no aliases",
    ),
    "itself": ("&a [*a]", "pack.yaml:1: a rule file has no aliases"),
    "a list as a key": ("? [1]\n: 2\n", "pack.yaml:1: expected a string as a key"),
    "a control character": (edited("do the other thing", '"do \\e[31m it"'), "fix_short: contains a control character"),
    "a number of many digits": (PACK + f"checklist: [{'9' * 6000}]\n", "Exceeds the limit"),
    "a large number": (PACK + f"checklist: [0x{'f' * 9000}]\n", "checklist[0]: expected a number of at most 63 bits"),
    "same name": (edited("our-rule", "scalar-read"), "OUR101: GS101 has the same name, scalar-read"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_rule_is_one_line_with_file_key_and_reason(tmp_path: Path, kind: str) -> None:
    text, problem = MALFORMED[kind]
    path = write(tmp_path / "pack.yaml", text)
    with pytest.raises(RulebookError) as raised:
        load_rulebook([path])
    line = str(raised.value)
    assert problem in line and "\n" not in line
    assert kind == "same name" or str(path) in line


def test_two_rules_with_one_code_are_refused(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.yaml", PACK.replace("our-rule", name)) for name in ("one", "two")]
    with pytest.raises(RulebookError, match="OUR101: two rules have this code: one and two"):
        load_rulebook(paths)


@pytest.mark.parametrize("name", ["absent.yaml", "empty"])
def test_a_pack_that_is_not_there_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RulebookError, match=name):
        load_rulebook([tmp_path / name])


@pytest.mark.skipif(os.name == "nt", reason="needs a fifo")
def test_a_pack_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "packs").mkdir()
    os.mkfifo(tmp_path / "packs" / "pack.yaml")
    for pack in (tmp_path / "packs", tmp_path / "packs" / "pack.yaml", Path("/dev/zero")):
        with pytest.raises(RulebookError, match="not a regular file"):
            load_rulebook([pack])


def test_a_pack_of_ten_megabytes_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "pack.yaml", PACK + "# a comment that is long\n" * 400_000)
    with pytest.raises(RulebookError, match="larger than 4 MB"):
        load_rulebook([path])


def test_selectors_are_codes_or_their_beginnings() -> None:
    rulebook = load_rulebook()
    assert rulebook.selected(["GS10"], ["GS102"]) == rulebook.codes(["GS10", "GS900"], "select") - {"GS102"}
    assert rulebook.selected(["GS101"], ["GS9"]) == {"GS101"}
    assert rulebook.selected([], []) == frozenset(rulebook.rules)
    for wrong in ("GS999", "item", ""):
        with pytest.raises(RulebookError, match=f'select: unknown rule "{wrong}"'):
            rulebook.selected([wrong], [])


def test_expectations_are_read_from_the_ends_of_lines() -> None:
    source = 'x.item()  # expect: GS101, GS104\n"# expect: GS101 in a text"\ny()  # expect: GS104'
    assert expected_lines("GS101", source) == {1}
    assert expected_lines("GS104", source) == {1, 3}


def test_a_cached_pack_is_used_until_its_content_changes(tmp_path: Path, own_cache: Path) -> None:
    path = write(tmp_path / "pack.yaml", PACK)
    load_rulebook([path])
    before = set(own_cache.iterdir())
    assert load_rulebook([path]).rules["OUR101"].level == "warning"
    assert set(own_cache.iterdir()) == before
    write(path, edited("level: warning", "level: error"))
    assert load_rulebook([path]).rules["OUR101"].level == "error"


def test_a_broken_or_unwritable_cache_costs_only_time(tmp_path: Path, own_cache: Path) -> None:
    path = write(tmp_path / "pack.yaml", PACK)
    load_rulebook([path])
    for cached in own_cache.iterdir():
        cached.write_bytes(cached.read_bytes().replace(b"OUR101", b"OUR102"))
    assert "OUR101" in load_rulebook([path]).rules
    for cached in own_cache.iterdir():
        write(cached, "{")
    assert "OUR101" in load_rulebook([path]).rules
    for cached in own_cache.iterdir():
        cached.unlink()
    own_cache.rmdir()
    write(own_cache, "a file where the folder should be")
    assert "OUR101" in load_rulebook([path]).rules


@pytest.mark.child
def test_processes_that_start_together_on_an_empty_cache_agree(own_cache: Path) -> None:
    script = "from graphsafe.rulebook.book import load_rulebook; print(load_rulebook().digest)"
    started = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    digests = {process.communicate()[0].strip() for process in started}
    assert digests == {load_rulebook().digest}
    assert all(json.loads(path.read_text(encoding="utf-8").partition("\n")[2])["rules"] for path in own_cache.iterdir())


@pytest.mark.parametrize(
    ("code", "how", "text"),
    [
        ("GS106", "nested", "enable_nested_tensor=False"),
        ("GS702", "rate", "a device tensor (Adam with capturable=True"),
        ("GS702", "by-call", "between replays instead"),
        ("GS703", "swapped", "changes places"),
        ("GS703", "pooled", "does not make replays wrong"),
        ("GS106", "scaler", "fused=True"),
        ("GS802", "rate-decay", "has no capturable=True"),
    ],
)
def test_a_cause_with_another_repair_has_its_own_text(code: str, how: str, text: str) -> None:
    texts = load_rulebook().rules[code].texts(how)
    assert text in " ".join(texts)
    assert texts != load_rulebook().rules[code].texts(None)

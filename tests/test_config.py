"""The configuration: its place, its valid contents, and the error messages for an invalid one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphsafe.config import Config, ConfigError, FunctionPattern, Target, load_config

FULL = """
[tool.graphsafe]
hot-paths = ["engine.runner:Runner.step*", "kernels/", { path = "layers/", compiled = true }]
cold-paths = ["engine/debug.py"]
select = ["GS1", "GS203"]
ignore = ["GS104"]
exclude = ["third_party/"]
fail-level = "warning"
rules = ["packs/ours.yaml"]
settings = ["ENGINE_FALLBACK"]

[tool.graphsafe.per-file-ignores]
"tests/*" = ["GS1"]

[tool.graphsafe.targets.decoder]
factory = "model.py:build"
device = "cuda:1"
buckets = { batch = [1, 2], mode = ["decode"] }
breaks = true

[tool.graphsafe.targets.moe]
factory = "engine.moe:build"
compiled = true
"""


def write(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_is_read(tmp_path: Path) -> None:
    source = write(tmp_path, FULL)
    assert load_config(tmp_path / "engine" / "runner.py") == Config(
        root=tmp_path,
        source=source,
        hot_paths=(
            FunctionPattern("engine.runner", "Runner.step*"),
            FunctionPattern("kernels/"),
            FunctionPattern("layers/", compiled=True),
        ),
        cold_paths=(FunctionPattern("engine/debug.py"),),
        select=("GS1", "GS203"),
        ignore=("GS104",),
        per_file_ignores={"tests/*": ("GS1",)},
        fail_level="warning",
        exclude=("third_party/",),
        rule_packs=(tmp_path / "packs" / "ours.yaml",),
        settings=("ENGINE_FALLBACK",),
        targets={
            "decoder": Target("decoder", "model.py:build", ("cuda:1",), {"batch": (1, 2), "mode": ("decode",)}, True),
            "moe": Target("moe", "engine.moe:build", compiled=True),
        },
    )


def test_graphsafe_toml_has_the_same_keys_without_a_prefix_and_comes_first(tmp_path: Path) -> None:
    write(tmp_path, '[tool.graphsafe]\nfail-level = "note"\n')
    own = write(tmp_path, 'fail-level = "warning"\n', "graphsafe.toml")
    config = load_config(tmp_path)
    assert (config.fail_level, config.source) == ("warning", own)


def test_the_nearest_configuration_holds(tmp_path: Path) -> None:
    write(tmp_path, 'ignore = ["GS1"]\n', "graphsafe.toml")
    write(tmp_path / "part", "[project]\nname = 'part'\n")  # says nothing about graphsafe
    inner = write(tmp_path / "part" / "inner", 'ignore = ["GS2"]\n', "graphsafe.toml")
    assert load_config(tmp_path / "part").ignore == ("GS1",)
    assert load_config(inner.parent / "deep.py").ignore == ("GS2",)


def test_the_search_ends_at_the_repository(tmp_path: Path) -> None:
    write(tmp_path, 'ignore = ["GS1"]\n', "graphsafe.toml")
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    (tmp_path / "repository" / "src").mkdir()
    assert load_config(tmp_path / "repository" / "src") == Config(root=tmp_path / "repository")


def test_without_configuration_the_root_is_the_nearest_project(tmp_path: Path) -> None:
    write(tmp_path, "[project]\nname = 'part'\n")
    (tmp_path / "src").mkdir()
    assert load_config(tmp_path / "src") == Config(root=tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hot-path = []", 'tool.graphsafe.hot-path: unknown key (did you mean "hot-paths"?)'),
        ("zzz = 1", "tool.graphsafe.zzz: unknown key"),
        ('select = "GS1"', "tool.graphsafe.select: expected a list, got 'GS1'"),
        ("ignore = [1]", "tool.graphsafe.ignore[0]: expected a string, got 1"),
        ('fail-level = "fatal"', "tool.graphsafe.fail-level: expected one of note, warning, error, got 'fatal'"),
        ('hot-paths = ["a:"]', "tool.graphsafe.hot-paths[0]: expected module.or.path.py:Qualified.name, got 'a:'"),
        ("hot-paths = [{ compiled = true }]", "tool.graphsafe.hot-paths[0].path: missing"),
        ('hot-paths = [{ path = "a", compile = 1 }]', 'hot-paths[0].compile: unknown key (did you mean "compiled"?)'),
        ('hot-paths = [{ path = "a", compiled = 1 }]', "hot-paths[0].compiled: expected true or false, got 1"),
        ('cold-paths = [{ path = "a" }]', "tool.graphsafe.cold-paths[0]: expected a string, got {"),
        ("targets = []", "tool.graphsafe.targets: expected a table, got []"),
        ("targets.a = {}", "tool.graphsafe.targets.a.factory: missing"),
        ('targets.a = { factory = "build" }', "targets.a.factory: expected FILE.py:FACTORY or package.module:FACTORY"),
        (
            'targets.a = { factory = "m:f", divice = "cuda" }',
            'tool.graphsafe.targets.a.divice: unknown key (did you mean "device"?)',
        ),
        ('targets.a = { factory = "m:f", device = "gpu" }', "expected cuda, cuda:N, all, sim or sim:N, got 'gpu'"),
        ('targets.a = { factory = "m:f", buckets = { b = 1 } }', "targets.a.buckets.b: expected a list of numbers"),
        (
            'targets.a = { factory = "m:f", breaks = 1 }',
            "tool.graphsafe.targets.a.breaks: expected true or false, got 1",
        ),
        ('targets.a = { factory = "m:f", buckets = { b = [[1]] } }', "buckets.b[0]: expected a whole number, got [1]"),
        (
            'targets.a = { factory = "m:f", buckets = { b = [0x' + "f" * 9000 + "] } }",
            "b[0]: expected a number of at most",
        ),
        ("ignore = [", "pyproject.toml: "),
        ('exclude = ["ok/", "!"]', "tool.graphsafe.exclude[1]: not a pattern: '!'"),
        ('exclude = ["[z-a]"]', "tool.graphsafe.exclude[0]: not a pattern: '[z-a]'"),
        ("select = " + "[" * 5000 + "]" * 5000, "pyproject.toml: nested too deeply"),
        ("select = " + "{a = " * 5000 + "1" + "}" * 5000, "pyproject.toml: nested too deeply"),
        ("select = " + "[" * 100 + "]" * 100, "tool.graphsafe.select[0]: expected a string, got [["),
        ("select = [" + "9" * 6000 + "]", "pyproject.toml: Exceeds the limit"),
        ("select = [0x" + "f" * 9000 + "]", "tool.graphsafe.select[0]: expected a string, got a int too large to show"),
        ('rules = ["a\\u0000b"]', "tool.graphsafe.rules[0]: contains a control character"),
        ('"\\u001b[31m\\n" = 1', "pyproject.toml: tool.graphsafe: expected strings as keys, got '\\x1b[31m\\n'"),
    ],
)
def test_a_wrong_configuration_is_one_line_with_its_file_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    write(tmp_path, f"[tool.graphsafe]\n{text}\n")
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path)
    line = str(raised.value)
    assert line.startswith("../pyproject.toml: ") and problem in line, "the file's name from the working directory"
    assert "\n" not in line


def test_the_other_files_table_in_graphsafe_toml_is_explained(tmp_path: Path) -> None:
    write(tmp_path, "[tool.graphsafe]\nignore = []\n", "graphsafe.toml")
    with pytest.raises(ConfigError, match=r"tool: unknown key \(graphsafe.toml has the keys of \[tool.graphsafe\]"):
        load_config(tmp_path)


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "graphsafe.toml").write_bytes(b'\xef\xbb\xbfignore = ["GS1"]\n')
    assert load_config(tmp_path).ignore == ("GS1",)


def test_a_configuration_that_is_not_utf8_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "graphsafe.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"graphsafe\.toml: .*utf-8"):
        load_config(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="needs a fifo")
@pytest.mark.parametrize("name", ["graphsafe.toml", "pyproject.toml"])
@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_a_configuration_that_is_no_file_is_not_waited_for(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(ConfigError, match=rf"{name}: not a regular file"):
        load_config(tmp_path)


def test_a_configuration_of_ten_megabytes_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, "[tool.graphsafe]\n" + "# a comment that is long\n" * 400_000)
    with pytest.raises(ConfigError, match="larger than 4 MB"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "function", "matches"),
    [
        (FunctionPattern("engine.runner"), "Runner.step", True),
        (FunctionPattern("engine/runner.py", "Runner.step"), "Runner.step", True),
        (FunctionPattern("engine/", "*.step"), "Runner.step", True),
        (FunctionPattern("*/runner.py", "Runner.*"), "Runner.step", True),
        (FunctionPattern("engine.runner", "step"), "Runner.step", False),
        (FunctionPattern("engine"), "Runner.step", False),
    ],
)
def test_patterns_name_functions(pattern: FunctionPattern, function: str, matches: bool) -> None:
    assert pattern.matches("engine/runner.py", "engine.runner", function) is matches


def test_a_configured_factory_is_found_from_any_folder(tmp_path: Path) -> None:
    target = Target("decoder", "models/decoder.py:build")
    assert Path(target.factory_from(tmp_path, tmp_path / "ci")) == Path("../models/decoder.py:build")
    assert Target("moe", "engine.moe:build").factory_from(tmp_path, tmp_path / "ci") == "engine.moe:build"

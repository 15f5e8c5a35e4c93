"""docs/ci.md, the GitHub action and the GitLab template: every block is run with `bash -e`, as a CI system runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BASH = shutil.which("bash") or ""
pytestmark = [pytest.mark.child, pytest.mark.skipif(not BASH, reason="needs bash")]

HOT = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * {factor}


def build(device):
    return Step().to(device), (torch.ones(4, device=device),)
"""
BAD, GOOD = HOT.format(factor="x.sum().item()"), HOT.format(factor="x.sum()")
TARGET = '[tool.graphsafe.targets.step]\nfactory = "src/step.py:build"\ndevice = "sim"\n'


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def data(self) -> Any:
        return yaml.safe_load(self.text)


def blocks() -> list[Block]:
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def block(word: str) -> Block:
    (found,) = (one for one in blocks() if word in one.text)
    return found


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment that has everything but graphsafe, which the blocks install."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    (library,) = folder.glob("lib/*/site-packages")
    (library / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build, only once, the wheel that the blocks install. graphsafe's action installs the checkout instead."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


class Job:
    """A checkout in which steps run one after the other, until one fails."""

    def __init__(self, folder: Path, scripts: Path, wheel: Path) -> None:
        self.folder = folder
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "PYTHON", "GITHUB_"))}
        self.environment = {
            **kept,
            "PATH": f"{scripts}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "GRAPHSAFE": str(wheel),
            "PIP_NO_COMPILE": "1",  # most modules are never imported
            "PIP_NO_DEPS": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip inverts the meaning of this variable
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PRE_COMMIT_HOME": str(folder.parent / "pre-commit"),
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        self.output = ""
        self.bash("git init -q -b main")

    def bash(self, script: str, extra: Mapping[str, str] | None = None) -> int:
        ran = subprocess.run(
            [BASH, "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env={**self.environment, **(extra or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output += ran.stdout
        return ran.returncode

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")

    def commit(self, *options: str) -> int:
        who = "-c user.name=a -c user.email=a@example.com"
        return self.bash(f"git add -A && git {who} commit -q -m change {' '.join(options)}")

    def github(self, workflow: Any) -> int:
        """Run the steps of a workflow's only job. Steps that use other actions than graphsafe's are not run."""
        (job,) = workflow["jobs"].values()
        environment = {key: value for key, value in job.get("env", {}).items() if key not in self.environment}
        for step in job["steps"]:
            if "run" in step:
                code = self.bash(step["run"], environment)
            elif step["uses"] == "./graphsafe":
                code = self.action(step["with"])
            else:
                assert re.fullmatch(r"actions/[a-z-]+@v\d", step["uses"])
                code = 0
            if code:
                return code
        return 0

    def action(self, given: Mapping[str, str]) -> int:
        action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
        inputs = {name: given.get(name, said["default"]) for name, said in action["inputs"].items()}
        assert given.keys() <= inputs.keys()
        for step in action["runs"]["steps"]:
            assert step["shell"] == "bash"
            said = {name: _filled(value, inputs) for name, value in step.get("env", {}).items()}
            code = self.bash(step["run"], {"GITHUB_ACTION_PATH": str(ROOT), **said})
            if code:
                return code
        return 0

    def gitlab(self, job: Any) -> int:
        variables = {key: value for key, value in job.get("variables", {}).items() if key not in self.environment}
        return self.bash("\n".join(job["script"]), variables)


def _filled(text: str, inputs: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], text)


@pytest.fixture
def job(tmp_path: Path, scripts: Path, wheel: Path) -> Iterator[Job]:
    folder = tmp_path / "checkout"
    folder.mkdir()
    yield Job(folder, scripts, wheel)


def lines(one: Block) -> str:
    """Return the commands of a console block."""
    return "\n".join(line[2:] for line in one.text.splitlines() if line.startswith("$ "))


def test_every_block_of_the_page_is_run_here() -> None:
    words = (
        "repo: local",
        "pre-commit install",
        "--write-baseline",
        "upload-artifact",
        "uses: ./graphsafe",
        "include:",
        "image: python",
        "graphsafe report graphsafe-scan",
        "graphsafe diff",
        "--shard",
    )
    assert sorted(block(word).text for word in words) == sorted(one.text for one in blocks())


@pytest.mark.parametrize("word", [pytest.param("upload-artifact", marks=pytest.mark.slow), "uses: ./graphsafe"])
def test_github(word: str, job: Job) -> None:
    summary = job.folder.parent / "summary.md"
    job.environment["GITHUB_STEP_SUMMARY"] = str(summary)
    job.write({"src/step.py": GOOD, "pyproject.toml": "[tool.graphsafe]\n"})
    workflow = block(word).data
    assert job.github(workflow) == 0, job.output
    job.write({"src/step.py": BAD})
    assert job.github(workflow) == 1, job.output
    assert "::error file=src/step.py,line=7," in job.output
    log = json.loads((job.folder / "graphsafe.sarif").read_text(encoding="utf-8"))
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["GS101"]
    assert "| error | GS101 | src/step.py:7 |" in summary.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_lock_over_shards(job: Job) -> None:
    configured = TARGET + TARGET.replace("targets.step", "targets.again")
    job.write({"src/step.py": GOOD, "pyproject.toml": f"[tool.graphsafe]\n{configured}"})
    assert job.bash("graphsafe capture --all --update-lock -q") == 0, job.output
    assert job.bash(lines(block("--shard"))) == 0, job.output
    merged = json.loads((job.folder / "graphsafe-report.json").read_text(encoding="utf-8"))
    assert len(merged["reports"]) == 2
    job.write({"src/step.py": BAD})
    assert job.bash(lines(block("--shard"))) == 1
    assert "step: ready → not-ready; src/step.py:7 " in job.output


def test_arguments_of_the_action_are_no_script(job: Job) -> None:
    job.write({"src/step.py": GOOD})
    job.action({"paths": "src; touch owned", "arguments": "$(touch owned)"})
    assert not (job.folder / "owned").exists()


@pytest.mark.slow
def test_gitlab(job: Job) -> None:
    job.write({"src/step.py": BAD})
    template = yaml.safe_load((ROOT / "templates" / "graphsafe.gitlab-ci.yml").read_text(encoding="utf-8"))
    include = block("include:").data
    assert include["include"] == [{"local": "templates/graphsafe.gitlab-ci.yml"}]
    merged = {
        **template["graphsafe"],
        "variables": {**template["graphsafe"]["variables"], **include["graphsafe"]["variables"]},
    }
    own = block("image: python").data["graphsafe"]
    for one in (template["graphsafe"], merged, own):
        (job.folder / "gl-code-quality-report.json").unlink(missing_ok=True)
        assert job.gitlab(one) == 1, job.output
        report = one["artifacts"]["reports"]
        issues = json.loads((job.folder / report["codequality"]).read_text(encoding="utf-8"))
        assert [issue["location"]["path"] for issue in issues] == ["src/step.py"]
    assert xml.parse(job.folder / "graphsafe.xml").getroot().find(".//failure") is not None
    job.write({"src/step.py": GOOD})
    assert job.gitlab(merged) == 0, job.output


def test_any_other_ci(job: Job) -> None:
    job.bash('python -m pip install --quiet "$GRAPHSAFE"')
    job.write({"src/step.py": GOOD})
    assert job.bash(lines(block("graphsafe report graphsafe-scan"))) == 0, job.output
    assert (job.folder / "graphsafe.html").read_text(encoding="utf-8").startswith("<!")
    job.write({"src/step.py": BAD})
    assert job.bash(lines(block("graphsafe report graphsafe-scan"))) == 1


def test_what_a_change_has_done(job: Job) -> None:
    job.bash('python -m pip install --quiet "$GRAPHSAFE"')
    job.write({"src/step.py": GOOD})
    job.bash("graphsafe scan -o main.json && graphsafe scan -o graphsafe-report.json")
    assert job.bash(lines(block("graphsafe diff"))) == 0, job.output
    job.write({"src/step.py": BAD})
    job.bash("graphsafe scan -o graphsafe-report.json")
    assert job.bash(lines(block("graphsafe diff"))) == 1
    assert "GS101" in job.output


def test_the_local_hooks(job: Job) -> None:
    job.bash('python -m pip install --quiet "$GRAPHSAFE"')
    job.write({".pre-commit-config.yaml": block("repo: local").text, "src/step.py": BAD, ".gitignore": "*.json\n"})
    assert job.bash(lines(block("pre-commit install"))) == 0, job.output
    assert job.commit() == 1
    assert "src/step.py:7" in job.output and "GS101" in job.output
    assert job.bash(lines(block("--write-baseline"))) == 0
    assert job.commit() == 0, job.output

    job.output = ""
    assert job.bash("pre-commit run --hook-stage pre-push --all-files") == 0, job.output
    assert "nothing to capture: no target under [tool.graphsafe.targets]" in job.output
    assert "graphsafe scan" not in job.output


@pytest.mark.slow
def test_the_hook_before_a_push_proves_the_targets(job: Job) -> None:
    pytest.importorskip("torch")
    job.bash('python -m pip install --quiet "$GRAPHSAFE"')
    config = block("repo: local").text
    job.write({".pre-commit-config.yaml": config, "pyproject.toml": TARGET, "src/step.py": BAD})
    job.commit("--no-verify")
    assert job.bash("pre-commit run --hook-stage pre-push --all-files") == 1
    assert "not-ready" in job.output


def test_the_hooks_of_the_repository_are_those_of_the_page() -> None:
    (local,) = block("repo: local").data["repos"]
    own = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
    for hook in local["hooks"]:
        assert {key: own[hook["id"]][key] for key in hook if key != "language"} == {
            key: value for key, value in hook.items() if key != "language"
        }

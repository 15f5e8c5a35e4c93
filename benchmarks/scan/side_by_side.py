"""Run other linters and graphsafe on the same files, `vllm/v1`, and compare their cost and the vLLM waits that they
name.

    pip download --no-deps vllm==0.33.0
    python benchmarks/scan/side_by_side.py vllm-0.33.0-*.whl --tools FOLDER     # the table of docs/performance.md

Each tool is installed from PyPI into its own environment under FOLDER, which is kept for the next run. The tools run
once, one after the other, each in its own process. First the marks of vllm_recall.py are removed. A marked wait counts
as named if a finding is in its lines.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpus import unpack
from speed import SCAN, measured
from vllm_recall import Block, prepare

Line = tuple[str, int]

NAMES = f"""
import ast, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from corpus import named_lines
for path in sorted(Path(sys.argv[1]).rglob("*.py")):
    for line in named_lines(ast.parse(path.read_bytes())):
        print(f"{{path}}:{{line}}: name")
"""
FIXIT = "UseAsyncSleepInAsyncDef NoStaticIfCondition UseFstring".split()
"Three rules, one of which resolves qualified names. None of them is about torch, because Fixit has no such rule."


def printed(text: str) -> Iterator[Line]:
    """Yield each place that a line of output begins with: `path:line`, or `path@line` as Fixit writes it."""
    for match in re.finditer(r"^(\S+?\.py)[:@](\d+)[:\s]", text, re.M):
        yield match[1], int(match[2])


def hotpath(text: str) -> Iterator[Line]:
    for file in json.loads(text)["files"]:
        for finding in file["findings"]:
            yield file["path"], finding["line"]


def graphsafe(text: str) -> Iterator[Line]:
    for finding in json.loads(text)["findings"]:
        if finding["level"] != "note" and finding["suppressed"] is None and not finding["code"].startswith("GS4"):
            yield finding["location"]["path"], finding["location"]["line"]


@dataclass(frozen=True, slots=True)
class Tool:
    title: str
    command: Sequence[str]
    "The command line. `{tools}` is the folder of environments. The path to lint is appended."
    read: Callable[[str], Iterator[Line]] = printed
    package: str | None = None
    around: Sequence[str] = field(default=())
    "The paths to lint, from the folder that contains the package. By default: `vllm/v1`."


ALONE = (*SCAN, "--no-cache", "-j1")
TOOLS = (
    Tool("TorchFix, all rules", ("{tools}/torchfix/bin/torchfix", "--select=ALL", "-j1"), package="torchfix"),
    Tool(
        "Fixit, three rules",
        ("{tools}/fixit/bin/fixit", "--rules", ",".join(f"fixit.rules:{rule}" for rule in FIXIT), "lint"),
        package="fixit",
    ),
    Tool(
        "hotpath-ai",
        ("{tools}/hotpath-ai/bin/hotpath", "analyze", "--format", "json", "--include-heuristics"),
        hotpath,
        "hotpath-ai",
    ),
    Tool(
        "Ruff, its default rules",
        ("{tools}/ruff/bin/ruff", "check", "--isolated", "--no-cache", "--output-format", "concise"),
        package="ruff",
    ),
    Tool("names alone", (sys.executable, "-c", NAMES)),
    Tool("graphsafe", ALONE, graphsafe),
    Tool("graphsafe, with the whole package to follow calls into", ALONE, graphsafe, around=("vllm",)),
)


def install(package: str, tools: Path) -> str | None:
    """Install a package. Return the reason if this fails, otherwise None."""
    home = tools / package
    if not home.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
    pip = [home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", package]
    done = subprocess.run(pip, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def version(package: str, tools: Path) -> str:
    script = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    return subprocess.run(
        [tools / package / "bin" / "python", "-c", script], capture_output=True, text=True
    ).stdout.strip()


def row(tool: Tool, tools: Path, folder: Path, blocks: Sequence[Block]) -> str:
    title = tool.title
    if tool.package is not None:
        problem = install(tool.package, tools)
        if problem is not None:
            return f"| {title} | not installed: {problem} | | | |"
        title += f" ({version(tool.package, tools)})"
    command = [part.format(tools=tools) if "{tools}" in part else part for part in tool.command]
    cost, text = measured(*command, *(tool.around or ("vllm/v1",)), cwd=folder)
    found = {(Path(path).as_posix(), line) for path, line in tool.read(text)}
    found = {(path, line) for path, line in found if path.startswith("vllm/v1/")}
    named = sum(any(block.covers(*place) for place in found) for block in blocks)
    return f"| {title} | {cost.wall:.1f} | {cost.cpu:.1f} | {len(found)} | {named} of {len(blocks)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument(
        "--tools", type=Path, required=True, help="where the environments of the other linters are kept"
    )
    options = parser.parse_args()
    tools = options.tools.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(options.wheel, folder)
        blocks = [block for block in prepare(folder)[0] if block.path.startswith("vllm/v1/")]
        files = [path.read_bytes() for path in (folder / "vllm" / "v1").rglob("*.py")]
        lines = sum(text.count(b"\n") for text in files)
        print(f"{len(files)} files, {lines} lines\n")
        print("| | wall s | CPU s | lines with findings | marked waits named |\n|---|---|---|---|---|")
        for tool in TOOLS:
            print(row(tool, tools, folder, blocks), flush=True)


if __name__ == "__main__":
    main()

"""How well scan tells measured snippets apart: those that break a capture or its replay, and the clean ones.

Each snippet becomes the `forward` of a module in a file of its own, in each way of WRAPPINGS, and is scanned. A bad one
is found where a finding above note has the right family; a clean one is silent where there is none, GS401 aside.

    python benchmarks/atlas_accuracy.py       # the numbers, and what was missed, as the tables of docs/accuracy.md
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsafe.config import load_config
from graphsafe.scan.api import scan_paths

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
SETS = {"atlas": DATA / "op_atlas.jsonl", "extra": DATA / "op_extra.jsonl"}
"Snippets by the file they are in; `extra` was measured later, with the engine already written."

DEVICE_TENSORS = {
    "x": "torch.randn(64, 64{device})",
    "v": "torch.randn(64{device})",
    "idx": "torch.randint(0, 64, (64,){device})",
    "idx_perm": "torch.randperm(64{device})",
    "mask": "torch.rand(64{device}) > 0.5",
    "tok": "torch.zeros(1, dtype=torch.int64{device})",
    "zero": "torch.zeros((), dtype=torch.int64{device})",
    "scale": "torch.ones((){device})",
    "lengths": "torch.full((4,), 16, dtype=torch.int64{device})",
    "buf": "torch.zeros(64, dtype=torch.int64{device})",
    "fbuf": "torch.zeros(64{device})",
    "big": "torch.randn(1 << 20{device})",
    "sorted": "torch.linspace(-3, 3, 64{device})",
    "spd": "torch.eye(64{device}) * 2",
    "sp": "torch.eye(64{device}).to_sparse()",
    "xh": "torch.randn(64, 64, dtype=torch.float16{device})",
    "q": "torch.randn(1, 8, 64, 64, dtype=torch.float16{device})",
    "state": "torch.zeros(64{device})",
    "kv": "torch.zeros(1, 64{device})",
    "kvbuf": "torch.zeros(8, 64{device})",
    "pos": "torch.zeros(1, dtype=torch.int64{device})",
    "offs": "torch.full((4,), 16, dtype=torch.int32{device}).cumsum(0, dtype=torch.int32)",
}
HOST_STATE = """\
self.cpu = torch.randn(64)
self.cpu0 = torch.tensor(2.0)
self.cpu_idx = torch.arange(4)
self.cpu_idx2 = torch.tensor([16, 32])
self.pin = torch.randn(64).pin_memory()
self.pin_out = torch.empty(64, pin_memory=True)
self.np = np.ones(64, dtype=np.float32)
self.count = 0
self.lazy = None
self.cache = {}
"""
DEVICE_STATE = """\
self.param = nn.Parameter(torch.randn(64, 64{device}))
self.lstm = nn.LSTM(64, 64, batch_first=True{device})
self.gru = nn.GRU(64, 64, batch_first=True{device})
self.bn = nn.BatchNorm1d(64{device})
self.mha = nn.MultiheadAttention(64, 4, batch_first=True{device})
self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, batch_first=True{device}), 1)
self.rng_state = torch.cuda.get_rng_state()
self.scaler = torch.amp.GradScaler("cuda")
self.side = torch.cuda.Stream()
self.gen = torch.Generator(device="cuda")
self.sgd = torch.optim.SGD([self.param], lr=0.1)
self.adam = torch.optim.Adam([self.param], lr=0.1)
self.adamc = torch.optim.Adam([self.param], lr=0.1, capturable=True)
self.adamwf = torch.optim.AdamW([self.param], lr=0.1, fused=True, capturable=True)
"""
IMPORTS = "import numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def as_buffers(step: str) -> str:
    """Tensors are registered buffers, moved to the device by whoever builds the module; `forward` calls itself `s`."""
    buffers = "".join(f'self.register_buffer("{n}", {e.format(device="")})\n' for n, e in DEVICE_TENSORS.items())
    state = buffers + HOST_STATE + DEVICE_STATE.format(device="")
    return module("self", state, f"s = self\ndev = self.x.device\n{step}\nreturn out\n")


def as_attributes(step: str) -> str:
    """Tensors are plain attributes made on the device that the constructor was given."""
    tensors = "".join(f"self.{name} = {e.format(device=', device=dev')}\n" for name, e in DEVICE_TENSORS.items())
    state = "self.dev = dev\n" + tensors + HOST_STATE + DEVICE_STATE.format(device=", device=dev")
    step = re.sub(r"\bs\.", "self.", re.sub(r"\bdev\b", "self.dev", step))
    return module("self, dev: torch.device", state, f"{step}\nreturn out\n")


def module(parameters: str, state: str, body: str) -> str:
    init = textwrap.indent("super().__init__()\n" + state, " " * 8)
    forward = textwrap.indent(body, " " * 8)
    head = f"{IMPORTS}\n\nclass Step(nn.Module):\n    def __init__({parameters}):\n"
    return f"{head}{init}\n    def forward(self):\n{forward}"


WRAPPINGS = {"buffers": as_buffers, "attributes": as_attributes}


@dataclass(frozen=True, slots=True)
class Row:
    """One snippet of the atlas and what was found in it: codes of findings above note, GS401 and GS9xx left out."""

    name: str
    step: str
    expected: tuple[str, ...]
    "The codes that are right; none for a clean snippet."
    found: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        families = {code[:3] for code in self.expected}
        return any(code[:3] in families for code in self.found) if self.expected else not self.found

    @property
    def is_exact(self) -> bool:
        return any(code in self.expected for code in self.found)


@dataclass(frozen=True, slots=True)
class Accuracy:
    rows: Sequence[Row]

    @property
    def bad(self) -> Sequence[Row]:
        return [row for row in self.rows if row.expected]

    @property
    def clean(self) -> Sequence[Row]:
        return [row for row in self.rows if not row.expected]

    @property
    def recall(self) -> float:
        """Share of the bad snippets that have a finding of the right family."""
        return share(row.is_right for row in self.bad)

    @property
    def exact(self) -> float:
        """Share of the bad snippets that have a finding of the right code."""
        return share(row.is_exact for row in self.bad)

    @property
    def silence(self) -> float:
        """Share of the clean snippets without a finding."""
        return share(row.is_right for row in self.clean)

    @property
    def wrong(self) -> Sequence[Row]:
        return [row for row in self.rows if not row.is_right]


def share(answers: Iterable[bool]) -> float:
    counted = list(answers)
    return sum(counted) / len(counted)


def snippets_of(file: Path) -> Sequence[Mapping[str, Any]]:
    """The snippets that run eagerly."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["family"] != "invalid"]


def measure(name: str, wrapping: str, folder: Path) -> Accuracy:
    """Write every snippet of one of SETS into `folder`, wrapped, and scan them all at once."""
    snippets = snippets_of(SETS[name])
    for number, snippet in enumerate(snippets):
        (folder / f"row{number:03}.py").write_text(WRAPPINGS[wrapping](snippet["step"]), encoding="utf-8")
    report = scan_paths([folder], load_config(folder))
    found: dict[str, list[str]] = {}
    for finding in report.findings:
        if finding.level != "note" and finding.code != "GS401" and not finding.code.startswith("GS9"):
            found.setdefault(Path(finding.location.path).stem, []).append(finding.code)
    return Accuracy(
        [
            Row(
                snippet["name"],
                snippet["step"],
                codes(snippet["code"]),
                tuple(sorted(found.get(f"row{number:03}", ()))),
            )
            for number, snippet in enumerate(snippets)
        ]
    )


def codes(code: str | list[str] | None) -> tuple[str, ...]:
    return () if code is None else (code,) if isinstance(code, str) else tuple(code)


def main() -> int:
    print("| snippets | wrapping | bad ones found | with the right code | clean ones silent |")
    print("|---|---|---|---|---|")
    results = {}
    for name in SETS:
        for wrapping in WRAPPINGS:
            with tempfile.TemporaryDirectory() as folder:
                result = results[name, wrapping] = measure(name, wrapping, Path(folder))
            print(
                f"| {name} | {wrapping} | {result.recall:.1%} of {len(result.bad)} | {result.exact:.1%} "
                f"| {result.silence:.1%} of {len(result.clean)} |"
            )
    print("\n| snippet | wrapping | | expected | found |\n|---|---|---|---|---|")
    for (_, wrapping), result in results.items():
        for row in result.wrong:
            step = row.step.replace("\n", "; ").replace("|", "\\|")
            expected, found = (", ".join(side) or "nothing" for side in (row.expected, row.found))
            print(f"| {row.name} | {wrapping} | `{step}` | {expected} | {found} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

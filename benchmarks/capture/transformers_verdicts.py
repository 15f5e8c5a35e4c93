"""Compare the oracle and `graphsafe capture` on one step of each causal language model of transformers.

The models are those that ran a forward and a decode step in transformers_truth.py. Each model contributes one step:
forward or decode, in float32 or bfloat16, in turn. The first models contribute a second step. `--shift 1`, 2 and 3
choose the other combinations. If a capture fails, the line to blame is the innermost line of transformers in the trace
of the first error.

    python benchmarks/capture/transformers_verdicts.py --device cuda --part 1/2 --out FOLDER  # a GPU: ten minutes
    python benchmarks/capture/transformers_verdicts.py --device sim --truth FOLDER/transformers-capture.json  # no GPU
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.agreement import Case, carry_out, parser

HERE = Path(__file__).resolve().parent
COUNT = 150
KINDS = (("forward", "float32"), ("decode", "bfloat16"), ("forward", "bfloat16"), ("decode", "float32"))


def steps(shift: int) -> list[Case]:
    known = json.loads((HERE.parent / "data" / "transformers_truth.json").read_text(encoding="utf-8"))["models"]
    models = [name for name, made in known.items() if made.get("forward") == made.get("decode") == "ran"]
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.origin is not None, "transformers is not installed"
    root = str(Path(spec.origin).parent)
    cases = []
    for number in range(COUNT):
        turn, at = divmod(number, len(models))
        model, kind, dtype = models[at], *KINDS[(at + turn + shift) % 4]
        name = f"{model}__{kind}__{dtype}"
        target = f"{HERE / 'transformers_steps.py'}:{name}"
        cases.append(Case(name, target, pure=kind == "forward", root=root))
    return cases


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--shift", type=int, default=0)
    chosen = options.parse_args()
    carry_out(steps(chosen.shift), chosen, "transformers-capture", together=8)

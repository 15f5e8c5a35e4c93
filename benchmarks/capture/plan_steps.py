"""Plan many steps on one device. Report verdict, coverage, the eager, planned and ideal times, and the planning time.

    python benchmarks/capture/plan_steps.py --device cuda:0 --out FOLDER [TARGET...]

With --check, the emitted code is run too. If it is wrong or missing, the row's limits say so. Without targets, the
examples and the modules of tests/gpu/plans.yaml are planned, and the cuts of these modules are compared with that file.
--transformers plans the steps of transformers models that cannot be captured as a whole
(data/transformers_capture_truth.json), and the same forward steps in the other dtype. --labels FILE plans a set of
broken steps and compares each coverage with the best coverage in its label (broken_second/labels.json). After each
batch, FOLDER/plans.jsonl has a line with the report of each target, and FOLDER/plans.md summarises the reports.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from graphsafe.capture.api import capture_all  # noqa: E402
from graphsafe.capture.request import CaptureRequest  # noqa: E402
from graphsafe.config import Config  # noqa: E402
from graphsafe.report.json_form import render_json  # noqa: E402
from graphsafe.report.model import Plan  # noqa: E402
from tests.gpu.test_plans import PLANS, agrees, cuts, file_of  # noqa: E402

EXAMPLES = [
    "decoder_bad.py:build_layer",
    "systems/system5_port.py:build_layer",
    "hf_decode.py:gpt2",
]
DTYPES = {"float32": "bfloat16", "bfloat16": "float32"}


def transformers_targets():
    """Return decode and forward steps in turn: two forward steps after each decode step."""
    rows = json.loads((HERE.parent / "data" / "transformers_capture_truth.json").read_text(encoding="utf-8"))
    failed = [row["case"]["name"] for row in rows if row["oracle"]["label"] == "not-ready"]
    decode = [name for name in failed if "__decode__" in name]
    forward = [name for name in failed if "__forward__" in name]
    forward += [f"{name.rpartition('__')[0]}__{DTYPES[name.rpartition('__')[2]]}" for name in forward]
    forward = [name for name in dict.fromkeys(forward)]
    turns = itertools.zip_longest(decode, forward[::2], forward[1::2])
    return [f"{HERE / 'transformers_steps.py'}:{name}" for turn in turns for name in turn if name is not None]


def cost(report):
    """Return the seconds for the plan and the seconds for the capture without it. They are computed from the seconds of
    the children, three of which run in parallel."""
    probes = report.devices[0].probes if report.devices else {}
    children = (probes.get("timing") or {}).get("children") or {}
    if "plan" not in children:
        return None
    aside = max(children.get(name, 0.0) for name in ("step", "reference", "capture"))
    return children["plan"], aside + sum(children.get(name, 0.0) for name in ("build", "diagnose", "measure"))


def row(report, seconds, agreed, best):
    plan = report.plan or Plan()
    probes = report.devices[0].probes if report.devices else {}
    return {
        "target": report.target,
        "verdict": report.verdict,
        "verified": plan.verified,
        "coverage": plan.coverage,
        "best": best,
        "operations": plan.operations,
        "segments": sum(segment.kind == "graph" for segment in plan.segments),
        "breaks": sum(segment.kind == "eager" for segment in plan.segments),
        "eager_ms": plan.eager_ms,
        "planned_ms": plan.planned_ms,
        "ideal_ms": plan.ideal_ms,
        "pool_bytes": plan.pool_bytes,
        "reason": plan.reason,
        "cuts": cuts(report),
        "agrees": agreed,
        "limits": [f"{limit.kind}: {limit.what}: {limit.why}" for limit in report.limits],
        "seconds": (probes.get("timing") or {}).get("seconds"),
        "children": (probes.get("timing") or {}).get("children"),
        "batch_seconds": seconds,
        "cost": cost(report),
    }


def summary(rows):
    planned = [one for one in rows if one["verified"] and one["coverage"]]
    ratios = [one["eager_ms"] / one["planned_ms"] for one in planned if one["eager_ms"] and one["planned_ms"]]
    judged = [one for one in rows if one["agrees"] is not None]
    shares = [plan / capture for plan, capture in (one["cost"] for one in rows if one["cost"]) if capture > 0]
    lines = [
        f"{len(rows)} steps, {len(planned)} planned and verified, "
        f"{sum(one['agrees'] for one in judged)} of {len(judged)} cut as plans.yaml says, "
        f"median speed-up {statistics.median(ratios):.2f}"
        if ratios
        else f"{len(rows)} steps, {len(planned)} verified",
        f"planning took {statistics.median(shares):.2f} times the capture before it (median), at most {max(shares):.2f}"
        if shares
        else "",
        *labelled([one for one in rows if one["best"] is not None]),
        "",
        "| step | verdict | coverage | graphs | breaks | eager ms | planned ms | seconds | agrees | reason |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        share = "" if one["coverage"] is None else f"{one['coverage']:.0%}"
        times = [f"{one[key]:.3f}" if one[key] is not None else "" for key in ("eager_ms", "planned_ms")]
        cells = [one["target"].rpartition("/")[2], one["verdict"], share, one["segments"], one["breaks"], *times]
        cells += [one["seconds"], one["agrees"], one["reason"] or ""]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def labelled(rows):
    """Compare coverages with the labels' best ones. A plan that was not verified covers nothing."""
    if not rows:
        return []
    pairs = [(one["coverage"] if one["verified"] and one["coverage"] else 0.0, one["best"]) for one in rows]
    found, best = (statistics.median(column) for column in zip(*pairs, strict=True))
    near = sum(share >= most - 0.05 for share, most in pairs)
    return [f"median coverage {found:.3f}, at best {best:.3f}; {near} of {len(rows)} within 5 points of the best"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--device", default="sim:0")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no batch is begun")
    parser.add_argument("--check", action="store_true", help="run the emitted code too (breakable-cuda-graphs)")
    parser.add_argument("--transformers", action="store_true")
    parser.add_argument("--labels", type=Path, help="labels.json of a set of broken steps")
    parser.add_argument("--together", type=int, default=8, help="targets in a batch")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    named = {f"{file_of(name)}:build_{name}": name for name in PLANS}
    if arguments.transformers:
        arguments.targets = transformers_targets()
    best = {}
    if arguments.labels is not None:
        labels = json.loads(arguments.labels.read_text(encoding="utf-8"))
        best = {f"{arguments.labels.parent / name}": label["best_coverage"] for name, label in labels.items()}
        arguments.targets = arguments.targets or list(best)
    targets = arguments.targets or [f"{ROOT / 'examples' / name}" for name in EXAMPLES] + list(named)
    rows, begun = [], time.monotonic()
    with (arguments.out / "plans.jsonl").open("w") as lines:
        for at in range(0, len(targets), arguments.together):
            if time.monotonic() - begun > arguments.budget:
                break
            chosen = targets[at : at + arguments.together]
            started = time.monotonic()
            requests = [
                CaptureRequest(
                    target,
                    Config(root=ROOT),
                    devices=(arguments.device,),
                    plan=True,
                    emit=(arguments.out / f"{target.rpartition(':')[2]}_plan.py").absolute(),
                    check=arguments.check,
                )
                for target in chosen
            ]
            for target, report in zip(chosen, capture_all(requests), strict=True):
                name = named.get(target)
                agreed = None if name is None else agrees(report, PLANS[name])
                rows.append(row(report, round(time.monotonic() - started, 1), agreed, best.get(target)))
                lines.write(json.dumps({**rows[-1], "report": json.loads(render_json(report))}) + "\n")
                lines.flush()
            (arguments.out / "plans.md").write_text(summary(rows))
    print(summary(rows))


if __name__ == "__main__":
    main()

"""Compare graphsafe's answers about Inductor's CUDA graphs with Inductor's own counters, for six compiled steps.

    python benchmarks/capture/compiled_steps.py --out FOLDER --device cuda:0

The counters come from separate processes without graphsafe, which run the same steps. Results: FOLDER/compiled.json.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
NAMES = ("good", "max_autotune", "mask_index", "cpu_scalar", "mutated_input", "dynamic_batch")
STEPS = 3
"The number of warm-up steps, and of steps on changed inputs."


class Block(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.up, self.down = nn.Linear(256, 512, device=device), nn.Linear(512, 256, device=device)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class MaskIndex(Block):
    def forward(self, x):
        y = super().forward(x)
        return y[y > 0].sum() + y.sum(0)


class CpuScalar(Block):
    def forward(self, x, scale):
        return super().forward(x * scale) + 1


class MutatedInput(Block):
    def forward(self, x, cache):
        cache.add_(x)
        return super().forward(cache)


class DynamicBatch(nn.Module):
    """A module that gets another number of rows in each step."""

    def __init__(self, device):
        super().__init__()
        self.block = compiled(Block(device), dynamic=True)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return self.block(x[: 8 + 4 * (self.steps % 3)]).sum(0)


def compiled(module, mode="reduce-overhead", **options):
    return torch.compile(module.requires_grad_(False), mode=mode, **options)


def rows(device):
    return torch.randn(16, 256, device=device)


def good(device):
    return compiled(Block(device)), (rows(device),)


def max_autotune(device):
    return compiled(Block(device), mode="max-autotune"), (rows(device),)


def mask_index(device):
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    return compiled(MaskIndex(device)), (rows(device),)


def cpu_scalar(device):
    return compiled(CpuScalar(device)), (rows(device), torch.tensor(0.5))


def mutated_input(device):
    return compiled(MutatedInput(device)), (rows(device), torch.zeros(16, 256, device=device))


def dynamic_batch(device):
    return DynamicBatch(device), (rows(device),)


def counted(name, device):
    """Return Inductor's counters after the steps that graphsafe also runs, and the kernels by their launcher."""
    from torch._dynamo.utils import counters
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    fn, args = globals()[name](torch.device(device))
    for step in range(2 * STEPS):
        if step >= STEPS:
            args[0].copy_(torch.randn_like(args[0]))
        fn(*args)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        fn(*args)
        torch.cuda.synchronize()
    trace = Path(f"/tmp/compiled_steps_{name}.json")
    profiler.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    launches = {
        event["args"]["correlation"]
        for event in events
        if "GraphLaunch" in event.get("name", "") and "correlation" in event.get("args", {})
    }
    kernels = [event for event in events if event.get("cat") == "kernel"]
    return {
        "cudagraph_skips": counters["inductor"]["cudagraph_skips"],
        "cudagraph_partitions": counters["inductor"]["cudagraph_partitions"],
        "kernels": len(kernels),
        "from_graphs": sum(event["args"].get("correlation") in launches for event in kernels),
    }


def told(names, device):
    from graphsafe.capture.api import capture_all
    from graphsafe.capture.request import CaptureRequest
    from graphsafe.config import Config
    from graphsafe.report.model import Plan

    requests = [CaptureRequest(f"{HERE}:{name}", Config(root=ROOT), devices=(device,), plan=True) for name in names]
    for name, report in zip(names, capture_all(requests), strict=True):
        said = (report.devices[0].probes["step"].get("compiled") if report.devices else None) or {}
        plan = report.plan or Plan()
        yield (
            name,
            {
                "verdict": report.verdict,
                "compiled": said,
                "plan": {
                    key: getattr(plan, key) for key in ("verified", "reason", "coverage", "eager_ms", "planned_ms")
                },
                "findings": [
                    f"{finding.code} {finding.location.path}:{finding.location.line} {finding.message}"
                    for finding in report.findings
                ],
                "limits": [f"{limit.kind}: {limit.why}" for limit in report.limits],
            },
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--count", choices=NAMES, help="the part that runs without graphsafe")
    arguments = parser.parse_args()
    if arguments.count:
        print(json.dumps(counted(arguments.count, arguments.device)))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    running = {
        name: subprocess.Popen(
            [sys.executable, str(HERE), "--out", str(arguments.out), "--device", arguments.device, "--count", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in NAMES
    }
    found = dict(told(NAMES, arguments.device))
    for name, process in running.items():
        out, err = process.communicate(timeout=120)
        found[name]["counters"] = json.loads(out.splitlines()[-1]) if process.returncode == 0 else err[-1500:]
    (arguments.out / "compiled.json").write_text(json.dumps(found, indent=1))
    for name, one in found.items():
        said, counters = one["compiled"], one["counters"]
        counts = {**said.get("counters", {}), "kernels": said.get("kernels"), "from_graphs": said.get("from_graphs")}
        same = isinstance(counters, dict) and all(counts.get(key) == value for key, value in counters.items())
        print(f"{name}: {'agrees' if same else 'DIFFERS'}: graphsafe {counts}, Inductor {counters}")


if __name__ == "__main__":
    main()

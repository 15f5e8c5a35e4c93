"""Plan and run 512 tokens of a decoder with a growing cache and a compressor that gives a result in every fourth step.

    python benchmarks/capture/growing_kv.py --out FOLDER --device cuda:0 [--tokens 512]

First graphsafe plans two layers, verifies the plan and writes the code that applies it. Then processes without
graphsafe run that code, and compare each token with eager steps of an equal decoder. They use one GPU. If there are two
GPUs, they also use both, with half of the layers on each and events between their streams. Results:
FOLDER/growing_kv.json.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
WIDTH, HEADS, LAYERS, RATIO = 512, 8, 8, 4
CODE = "growing_kv_plan.py"


class Attention(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.query, self.out = nn.Linear(WIDTH, WIDTH, device=device), nn.Linear(WIDTH, WIDTH, device=device)
        self.key, self.value = nn.Linear(WIDTH, WIDTH, device=device), nn.Linear(WIDTH, WIDTH, device=device)
        self.keys = torch.zeros(HEADS, 0, WIDTH // HEADS, device=device)
        self.values = torch.zeros(HEADS, 0, WIDTH // HEADS, device=device)
        self.seen = 0

    def compress(self):
        """Return, in every fourth step, the mean of the entries that the last four steps have added."""
        self.seen += 1
        if self.seen % RATIO:
            return None
        return self.values[:, -RATIO:].mean(1, keepdim=True)

    def attend(self, query, key, value):
        self.keys, self.values = torch.cat([self.keys, key], 1), torch.cat([self.values, value], 1)
        compressed = self.compress()
        mixed = torch.softmax(query @ self.keys.transpose(1, 2) * WIDTH**-0.5, dim=-1) @ self.values
        return mixed if compressed is None else mixed + compressed

    def forward(self, x):
        query, key, value = (part(x).view(HEADS, 1, -1) for part in (self.query, self.key, self.value))
        return self.out(self.attend(query, key, value).reshape(1, WIDTH))


class Layer(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.norm, self.norm2 = (nn.LayerNorm(WIDTH, device=device) for _ in range(2))
        self.attention = Attention(device)
        self.gate, self.up = (nn.Linear(WIDTH, 4 * WIDTH, device=device) for _ in range(2))
        self.down = nn.Linear(4 * WIDTH, WIDTH, device=device)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        hidden = self.norm2(x)
        return x + self.down(F.silu(self.gate(hidden)) * self.up(hidden))


class Decoder(nn.Module):
    def __init__(self, layers, device):
        super().__init__()
        self.layers = nn.ModuleList(Layer(device) for _ in range(layers))

    @torch.no_grad()
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build_two_layers(device):
    return Decoder(2, device), (torch.randn(1, WIDTH, device=device),)


def decoder(layers, device, seed):
    torch.manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        made = Decoder(layers, "cpu")
    made.to(device)
    for layer in made.layers:
        layer.attention.keys = layer.attention.keys.to(device)
        layer.attention.values = layer.attention.values.to(device)
    return made


def tokens(count, device):
    drawn = torch.Generator().manual_seed(5)
    return [torch.randn(1, WIDTH, generator=drawn).to(device) for _ in range(count)]


class Stages:
    """Parts of a decoder, each on its own GPU and stream. Events order the streams; the host never waits."""

    def __init__(self, steps, devices):
        self.steps, self.devices = steps, devices
        self.streams = [torch.cuda.Stream(device) for device in devices]
        self.done = [torch.cuda.Event() for _ in devices]

    def __call__(self, x):
        before = None
        for step, device, stream, done in zip(self.steps, self.devices, self.streams, self.done, strict=True):
            with torch.cuda.device(device), torch.cuda.stream(stream):
                if before is not None:
                    stream.wait_event(before)
                x = step(x.to(device, non_blocking=True))
                done.record(stream)
                before = done
        for stream in self.streams:
            torch.cuda.current_stream(stream.device).wait_stream(stream)
        return x


def run(folder, devices, count):
    """Run the tokens with the emitted code and eagerly, in a process without graphsafe."""
    assert importlib.util.find_spec("graphsafe") is None
    sys.path[:0] = [str(folder), str(HERE.parent)]
    import growing_kv as model  # the emitted code uses this name
    import growing_kv_plan

    share = LAYERS // len(devices)
    inputs = model.tokens(count, devices[0])
    eager = Stages([model.decoder(share, device, seed) for seed, device in enumerate(devices)], devices)
    eager_out, eager_ms = timed(eager, inputs)
    warmup = 4
    planned = []
    for seed, device in enumerate(devices):
        part = model.decoder(share, device, seed)
        with torch.cuda.device(device):
            example = torch.zeros(1, WIDTH, device=device)
            planned.append(growing_kv_plan.capture(part, (example,), warmup=warmup - 1))
        for layer in part.layers:  # the warm-up and the capture were steps too, so start again
            attention = layer.attention
            attention.keys, attention.values = attention.keys[:, :0].clone(), attention.values[:, :0].clone()
            attention.seen = 0
    for device in devices:
        torch.cuda.synchronize(device)
    planned_out, planned_ms = timed(Stages(planned, devices), inputs)
    different = [
        k for k, (one, two) in enumerate(zip(eager_out, planned_out, strict=True)) if not torch.equal(one, two)
    ]
    apart = max(float((one - two).abs().max()) for one, two in zip(eager_out, planned_out, strict=True))
    return {
        "devices": devices,
        "tokens": count,
        "tokens_that_differ": len(different),
        "first_that_differs": different[:1],
        "largest_difference": apart,
        "largest_value": max(float(one.abs().max()) for one in eager_out),
        "eager_ms_per_token": eager_ms,
        "planned_ms_per_token": planned_ms,
        "graphs": sum(type(one).__name__ == "CUDAGraph" for step in planned for one in step._graph._segments),
        "eager_breaks": sum(type(one).__name__ != "CUDAGraph" for step in planned for one in step._graph._segments),
    }


def timed(step, inputs):
    outputs, taken = [], []
    for x in inputs:
        begun = time.perf_counter()
        out = step(x)
        outputs.append(out.clone().cpu())
        taken.append((time.perf_counter() - begun) * 1000)
    return outputs, statistics.median(taken)


def plan(folder, device):
    from graphsafe.capture.api import capture_target
    from graphsafe.capture.request import CaptureRequest
    from graphsafe.config import Config
    from graphsafe.report.model import Plan

    report = capture_target(
        CaptureRequest(
            f"{HERE}:build_two_layers", Config(root=ROOT), devices=(device,), plan=True, emit=folder / CODE, check=True
        )
    )
    found = report.plan or Plan()
    segments = [(segment.kind, segment.operations, segment.ms, segment.reason) for segment in found.segments]
    told = {
        key: getattr(found, key) for key in ("verified", "reason", "coverage", "eager_ms", "planned_ms", "ideal_ms")
    }
    return {"verdict": report.verdict, **told, "segments": segments, "limits": [limit.why for limit in report.limits]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--run", nargs="+", metavar="DEVICE", help="the part that runs without graphsafe")
    arguments = parser.parse_args()
    folder = arguments.out.absolute()
    if arguments.run:
        print(json.dumps(run(folder, arguments.run, arguments.tokens)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    told = {"plan": plan(folder, arguments.device), "runs": []}
    write(folder, told)
    count = 0 if arguments.device.startswith("sim") else torch.cuda.device_count()
    for devices in (["cuda:0"], ["cuda:0", "cuda:1"])[:count]:
        command = [
            sys.executable,
            str(HERE),
            "--out",
            str(folder),
            "--tokens",
            str(arguments.tokens),
            "--run",
            *devices,
        ]
        paths = [
            part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and Path(part).name != "src"
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=200)
        answer = json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr[-2000:]}
        told["runs"].append(answer)
        write(folder, told)
    print(json.dumps(told, indent=1))


def write(folder, told):
    (folder / "growing_kv.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()

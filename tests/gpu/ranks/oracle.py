"""What really happens to the targets in two ranks: ground truth that shares no code with graphsafe.

Each rank builds the target three times from the same seed. One is warmed up and captured, and replayed on new inputs;
another makes the same eager steps; a third one has its first step on these inputs, and keeps nothing of earlier ones.
All three have to agree, in every rank. A rank that does not come to an end is ended after a while: before its eager
steps were done, the step does not run eagerly; after that, the graph cannot be replayed.

    python tests/gpu/ranks/oracle.py [NAME...]    # a line of JSON each
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

FOLDER = Path(__file__).parent
RANKS = 2
SECONDS = 45
AT_A_TIME = 6


def put(args, first, k):
    import torch

    draw = torch.Generator().manual_seed(k)
    for tensor, value in zip(args, first, strict=True):
        tensor.copy_(value * (0.5 + torch.rand(value.shape, generator=draw).to(value.device)))


def agree(ours, theirs):
    import torch

    return torch.allclose(ours.double(), theirs.double(), rtol=1e-4, atol=1e-4)


def judge(name, rank, store, note):
    import torch
    import torch.distributed as dist

    sys.path.insert(0, str(FOLDER))
    import targets

    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    file = dist.FileStore(store, RANKS)
    file.set_timeout(timedelta(minutes=5))
    dist.init_process_group(
        "nccl", store=dist.PrefixStore("group", file), rank=rank, world_size=RANKS, device_id=device
    )
    dist.all_reduce(torch.zeros(1, device=device))
    make = getattr(targets, name)

    def everyone(key, value):
        file.set(f"{key}/{rank}", str(int(value)))
        return all(int(file.get(f"{key}/{other}")) for other in range(RANKS))

    with torch.no_grad():
        (fn, args), (warm_fn, warm_args) = make(device), make(device)
        first = [tensor.clone() for tensor in args]
        stream = torch.cuda.Stream(device)
        for step, stepped in ((fn, args), (warm_fn, warm_args)):
            with torch.cuda.stream(stream):
                for _ in range(3):
                    step(*stepped)
            torch.cuda.synchronize()
        if not everyone("eager", True):
            return None
        note("eager")
        graph, error = torch.cuda.CUDAGraph(), None
        try:
            with torch.cuda.graph(graph, stream=stream):
                out = fn(*args)
        except Exception as raised:
            error = raised
        if not everyone("captured", error is None):
            why = "another rank cannot" if error is None else f"{type(error).__name__}: {error}".splitlines()[0]
            return {"label": "not-ready", "why": f"captured: {why}"[:200]}
        for k in (1, 2, 3):
            fresh_fn, fresh_args = make(device)
            for stepped in (args, warm_args, fresh_args):
                put(stepped, first, k)
            graph.replay()
            torch.cuda.synchronize()
            ours = out.clone()
            warm, fresh = warm_fn(*warm_args).clone(), fresh_fn(*fresh_args).clone()
            torch.cuda.synchronize()
            if not everyone(f"warm {k}", agree(ours, warm)):
                return {"label": "not-ready", "why": f"replay {k} differs from the eager step"}
            if not everyone(f"fresh {k}", agree(ours, fresh)):
                return {"label": "not-ready", "why": f"replay {k} differs from a first step"}
    return {"label": "ready", "why": None}


def run_rank(name, rank, folder):
    import os

    place = Path(folder)

    def note(what):
        (place / f"{rank}.{what}").touch()

    try:
        told = judge(name, rank, str(place / "store"), note)
    except Exception as error:
        told = {"label": None, "why": f"{type(error).__name__}: {error}"[:300]}
    (place / f"{rank}.json").write_text(json.dumps(told))
    os._exit(0)


def start(name):
    folder = Path(tempfile.mkdtemp(prefix=f"oracle-{name}-"))
    command = [sys.executable, __file__, "--rank", name, str(folder)]
    ranks = [subprocess.Popen([*command, str(rank)], stderr=subprocess.DEVNULL) for rank in range(RANKS)]
    return name, folder, ranks, time.monotonic() + SECONDS


def finish(name, folder, ranks, deadline):
    for rank in ranks:
        with contextlib.suppress(subprocess.TimeoutExpired):
            rank.wait(timeout=max(deadline - time.monotonic(), 0.1))
    for rank in ranks:
        rank.kill()
        rank.wait()
    answers = [folder / f"{rank}.json" for rank in range(RANKS)]
    if all(answer.exists() for answer in answers):
        told = [json.loads(answer.read_text()) for answer in answers]
        worst = next((one for one in told if one["label"] != "ready"), told[0])
        return worst
    stepped = all((folder / f"{rank}.eager").exists() for rank in range(RANKS))
    return {"label": "not-ready" if stepped else "inconclusive", "why": "a rank did not come to an end"}


def main(names):
    import yaml

    known = yaml.safe_load((FOLDER / "labels.yaml").read_text(encoding="utf-8"))
    names = names or [name for labelled in known.values() for name in labelled]
    for at in range(0, len(names), AT_A_TIME):
        for running in [start(name) for name in names[at : at + AT_A_TIME]]:
            told = finish(*running)
            expected = next((label for label, labelled in known.items() if running[0] in labelled), None)
            print(json.dumps({"name": running[0], "expected": expected, **told}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        run_rank(sys.argv[2], int(sys.argv[4]), sys.argv[3])
    main(sys.argv[1:])

"""What really happens to the buckets of a target in one pool: ground truth that shares no code with graphsafe.

All buckets are built in one process, warmed up and captured, the largest first. They are then replayed in mixed order,
and stepped eagerly in the same order from the same state: results have to agree, or to be what the bucket gave when it
had just been captured. Then the largest bucket is replayed with three requests, the rows behind them filled with zeros
and with a repeated request: one of the two has to give what an eager step on three gives.

    python tests/gpu/buckets/oracle.py [NAME...]    # a line of JSON each
"""

import copy
import gc
import inspect
import json
import os
import sys
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves, tree_map

FOLDER = Path(__file__).parent
BUCKETS = [{"batch": 5}, {"batch": 2}]
LIVE = 3


def tensors(value):
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def cloned(value):
    torch.cuda.synchronize()
    return [tensor.detach().clone() for tensor in tensors(value)]


def close(ours, theirs, tolerance=1e-5):
    return len(ours) == len(theirs) and all(
        one.shape == two.shape and torch.allclose(one.double(), two.double(), rtol=tolerance, atol=tolerance)
        for one, two in zip(ours, theirs, strict=True)
    )


class Bucket:
    def __init__(self, make, axes, device):
        self.fn, self.args = make(device, **axes)
        self.first = cloned(self.args)

    def put(self, k):
        draw = torch.Generator().manual_seed(k)
        for tensor, first in zip(tensors(self.args), self.first, strict=True):
            drawn = 0.5 + torch.rand(first.shape, generator=draw).to(first.device)
            tensor.copy_(first * drawn if first.is_floating_point() else first)

    def eager(self, k):
        self.put(k)
        return cloned(self.fn(*self.args))

    def replay(self, k=None):
        if k is not None:
            self.put(k)
        junk = [torch.full((2**n,), float("nan"), device="cuda") for n in range(2, 18) for _ in range(4)]
        del junk
        self.graph.replay()
        return cloned(self.out)


def state_of(modules):
    return [
        (
            module,
            [(tensor, tensor.clone()) for tensor in module.state_dict().values()],
            {name: copy.copy(value) for name, value in vars(module).items() if isinstance(value, (int, set, dict))},
        )
        for module in modules
    ]


def put_back(state):
    """In place, for graphs keep addresses."""
    for module, values, attributes in state:
        for tensor, value in values:
            tensor.copy_(value)
        for name, value in attributes.items():
            if not name.startswith("_"):
                setattr(module, name, copy.copy(value))


def judge(name):
    sys.path.insert(0, str(FOLDER))
    import targets

    make, device = getattr(targets, name), torch.device("cuda")
    axes = [{**one, "q_len": q} for one in BUCKETS for q in (2, 1)] if takes_q_len(make) else BUCKETS
    with torch.no_grad():
        buckets = [Bucket(make, one, device) for one in axes]
        stream, pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        alone = {}
        modules = {id(m): m for b in buckets if isinstance(b.fn, torch.nn.Module) for m in b.fn.modules()}.values()
        for at, bucket in enumerate(buckets):
            with torch.cuda.stream(stream):
                for _ in range(3):
                    bucket.fn(*bucket.args)
            torch.cuda.synchronize()
            bucket.graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(bucket.graph, pool=pool, stream=stream):
                    bucket.out = bucket.fn(*bucket.args)
            except Exception as error:
                return {"label": "not-ready", "why": f"{axes[at]} cannot be captured: {type(error).__name__}"}
            start = state_of(modules)
            for k in (1, 2):
                alone[at, k] = bucket.replay(k)
                put_back(start)
        gc.collect()
        order = [(at, k) for k in (1, 2) for at in [*range(len(buckets)), *reversed(range(len(buckets)))]]
        start, held, overwritten = state_of(modules), {}, False
        eager = [buckets[at].eager(k) for at, k in order]
        put_back(start)
        for number, (at, k) in enumerate(order):
            found = buckets[at].replay(k)
            if not close(found, eager[number]) and not close(found, alone[at, k]):
                return {"label": "not-ready", "why": f"{axes[at]} differs beside other buckets"}
            overwritten |= any(not close(cloned(buckets[one].out), was, 0) for one, was in held.items() if one != at)
            held = {at: found}
        if why := padded(buckets[0], start):
            return {"label": "not-ready", "why": why}
        return {"label": "ready", "why": "outputs are overwritten" if overwritten else None}


def padded(bucket, start):
    """Why padding reaches the first three of five requests, if it does."""
    batch = BUCKETS[0]["batch"]
    results = []
    for fill in ("zeros", "dummy"):
        put_back(start)
        bucket.put(1)
        for tensor in tensors(bucket.args):
            if tensor.dim() and tensor.shape[0] == batch:
                tensor[LIVE:] = 0 if fill == "zeros" else tensor[LIVE].clone()
        bucket.graph.replay()
        results.append([one[:LIVE] if one.dim() and one.shape[0] == batch else one for one in cloned(bucket.out)])
    put_back(start)
    bucket.put(1)
    live = tree_map(lambda one: one[:LIVE].clone() if one.dim() and one.shape[0] == batch else one, bucket.args)
    right = cloned(bucket.fn(*live))
    return None if any(close(one, right) for one in results) else "rows behind the live ones reach them"


def takes_q_len(make):
    return "q_len" in inspect.signature(make).parameters


def main(names):
    """Each in a fork of its own: a failed capture spoils its process."""
    import yaml

    known = yaml.safe_load((FOLDER / "labels.yaml").read_text(encoding="utf-8"))
    children = []
    for name in names or [name for labelled in known.values() for name in labelled]:
        read, write = os.pipe()
        if child := os.fork():
            os.close(write)
            children.append((name, child, read))
            continue
        try:
            told = judge(name)
        except BaseException as error:
            told = {"label": None, "why": f"{type(error).__name__}: {error}"[:300]}
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    for name, child, read in children:
        with os.fdopen(read) as pipe:
            told = json.loads(pipe.read() or '{"label": null, "why": "died"}')
        os.waitpid(child, 0)
        expected = next((label for label, labelled in known.items() if name in labelled), None)
        print(json.dumps({"name": name, "expected": expected, **told}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

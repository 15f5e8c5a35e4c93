"""Lines that real projects repaired, each in a small module of its own, and code that looks like them and is sound."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .conftest import Scan

HAZARDS = {
    "a running average without a momentum": """
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(8, momentum=None)

            def forward(self, x):
                return torch.relu(self.norm(x))  # expect: GS106
        """,
    "a running average of a student": """
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(8, momentum=None)

            def forward(self, x):
                return torch.relu(self.norm(x))  # expect: GS106

        def learn(student, teacher, batches):
            teacher.eval()
            for x in batches:
                (student(x) - teacher(x)).square().sum().backward()
        """,
    "weights loaded from the host": """
        class Slow:
            def __init__(self, net):
                self.net = net
                self.saved = {k: v.detach().cpu() for k, v in net.state_dict().items()}

            def pull(self, x):
                self.net.load_state_dict(self.saved)  # expect: GS304
                return self.net(x)

        def build(device):
            return Slow(nn.Linear(4, 4).to(device)).pull, (torch.rand(2, 4, device=device),)
        """,
    "saved tensors kept on the host": """
        class Offload(nn.Module):
            def pack(self, t):
                return t.device, t.cpu()  # expect: GS103

            def unpack(self, packed):
                device, t = packed
                return t.to(device)  # expect: GS304

            def forward(self, x):
                with torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
                    return (x * x).sum()
        """,
    "an index that numpy drew": """
        import numpy as np

        class Shuffle:
            def __init__(self, n, device):
                self.u = torch.rand(n, device=device)
                self.order = np.random.permutation(n)

            def step(self):
                return self.u[self.order]  # expect: GS302

        def build(device):
            return Shuffle(8, device).step, ()
        """,
    "fields of a dataclass moved one by one": """
        from dataclasses import dataclass, fields, replace

        @dataclass
        class Batch:
            ids: torch.Tensor
            n: int = 0

            def to(self, device):
                moved = {}
                for f in fields(self):
                    v = getattr(self, f.name)
                    moved[f.name] = v.to(device) if isinstance(v, torch.Tensor) else v  # expect: GS304
                return replace(self, **moved)

        class Scorer:
            def __init__(self, device):
                self.device = device
                self.table = torch.rand(8, 4, device=device)
                self.batch = Batch(torch.zeros(4, dtype=torch.long))

            def step(self):
                return self.table[self.batch.to(self.device).ids]

        def build(device):
            return Scorer(device).step, ()
        """,
    "a counter in an object that each step replaces": """
        from dataclasses import dataclass, replace

        @dataclass(frozen=True)
        class Clock:
            tick: int = 0
            rate: float = 0.1

        class Decay:
            def __init__(self, device):
                self.clock = Clock()
                self.w = torch.rand(8, device=device)

            def step(self):
                self.clock = replace(self.clock, tick=self.clock.tick + 1)  # expect: GS702
                self.w.mul_(1 - self.clock.rate / (1 + self.clock.tick))
                return self.w

        def build(device):
            return Decay(device).step, ()
        """,
    "a key whose hash is on the device": """
        class Slot:
            def __init__(self, t):
                self.t = t

            def __hash__(self):
                return hash(self.t.item())  # expect: GS101

            def __eq__(self, other):
                return torch.equal(self.t, other.t)  # expect: GS106

        class Memo:
            def __init__(self):
                self.known = {}

            def step(self, x):
                return x if Slot(x.sum()) in self.known else x + 1

        def build(device):
            return Memo().step, (torch.rand(4, device=device),)
        """,
    "an event that is recorded before the work": """
        class Early:
            def __init__(self, device):
                self.side = torch.cuda.Stream(device)
                self.done = torch.cuda.Event()
                self.w = torch.rand(64, 64, device=device)

            def step(self, x):
                main = torch.cuda.current_stream()
                self.side.wait_stream(main)
                with torch.cuda.stream(self.side):  # expect: GS603
                    self.done.record()
                    y = x @ self.w
                main.wait_event(self.done)
                return y + x

        def build(device):
            return Early(device).step, (torch.rand(64, device=device),)
        """,
    "one of several lanes that is joined": """
        class Lanes:
            def __init__(self, device):
                self.lanes = [torch.cuda.Stream(device) for _ in range(3)]
                self.w = torch.rand(16, 16, device=device)

            def step(self, x):
                main = torch.cuda.current_stream()
                found = []
                for lane in self.lanes:
                    lane.wait_stream(main)
                    with torch.cuda.stream(lane):  # expect: GS603
                        found.append(x @ self.w)
                main.wait_stream(self.lanes[0])
                return sum(found)

        def build(device):
            return Lanes(device).step, (torch.rand(16, device=device),)
        """,
    "work of a thread": """
        from concurrent.futures import ThreadPoolExecutor

        class Halves:
            def __init__(self, device):
                self.pool = ThreadPoolExecutor(2)
                self.w = torch.rand(16, 16, device=device)

            def half(self, x):
                return x @ self.w

            def step(self, a, b):
                later = self.pool.submit(self.half, a)  # expect: GS604
                return later.result() + self.half(b)

        def build(device):
            return Halves(device).step, (torch.rand(16, device=device), torch.rand(16, device=device))
        """,
    "work of a thread that the step makes": """
        import threading

        class Sides:
            def __init__(self, device):
                self.w = torch.rand(16, 16, device=device)
                self.made = {}

            def left(self, x):
                self.made["left"] = x @ self.w

            def step(self, x):
                worker = threading.Thread(target=self.left, args=(x,))  # expect: GS604
                worker.start()
                worker.join()
                return self.made["left"] + x

        def build(device):
            return Sides(device).step, (torch.rand(16, device=device),)
        """,
    "work of threads, in a lambda": """
        from concurrent.futures import ThreadPoolExecutor

        class Votes(nn.Module):
            def __init__(self, count):
                super().__init__()
                self.heads = nn.ModuleList(nn.Linear(8, 1) for _ in range(count))
                self.pool = ThreadPoolExecutor(count)

            def forward(self, x):
                return x * sum(self.pool.map(lambda head: head(x).mean(), self.heads))  # expect: GS604
        """,
    "saved tensors kept on the host by a context of one's own": """
        from torch.autograd.graph import saved_tensors_hooks

        class Offload(saved_tensors_hooks):
            def __init__(self):
                def pack(t):
                    return t.device, t.cpu()  # expect: GS103

                def unpack(packed):
                    device, t = packed
                    return t.to(device)  # expect: GS304

                super().__init__(pack, unpack)

        class Net(nn.Module):
            def forward(self, x):
                with Offload():
                    x = (x * x).exp()
                with torch.autograd.graph.save_on_cpu():  # expect: GS103
                    return (x * x).sum()
        """,
    "attributes moved in a loop over vars": """
        class Movable:
            def moved(self, device):
                for name, value in vars(self).items():
                    if hasattr(value, "to"):
                        setattr(self, name, value.to(device))  # expect: GS304
                return self

        class View(Movable):
            def __init__(self, size):
                self.size = size
                self.pixels = torch.zeros(size, 16)

        class Player:
            def act(self, x):
                return View(4).moved(x.device).pixels @ x

        def build(device):
            return Player().act, (torch.rand(16, 4, device=device),)
        """,
    "a distribution of one's own": """
        class Diagonal(torch.distributions.Normal):
            def log_prob(self, value):
                return super().log_prob(value).sum(-1)  # expect: GS106

        class Coin(torch.distributions.Bernoulli):
            def mean_entropy(self):
                return self.entropy().mean()

        class Policy(nn.Module):
            def forward(self, x, action):
                mean, scale = x.chunk(2, -1)
                return Diagonal(mean, scale.exp()).log_prob(action) + (  # expect: GS106
                    Coin(logits=mean, validate_args=False).mean_entropy()
                )
        """,
    "the default stream chosen": """
        class Plain(nn.Module):
            def forward(self, x):
                torch.cuda.set_stream(torch.cuda.default_stream())  # expect: GS604
                return x * 2
        """,
    "a state bound anew in a dict of the caller": """
        class Mixer(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Parameter(torch.rand(8))

            def forward(self, x, params):
                state = params["ssm"] * self.a + x
                params["ssm"] = state  # expect: GS703
                return state

        def build(device):
            return Mixer().to(device), (torch.rand(8, device=device), {"ssm": torch.zeros(8, device=device)})
        """,
    "a hook that another function makes": """
        class Monitor:
            def __init__(self):
                self.peak = 0.0

            def attach(self, model):
                def watch(name):
                    def hook(layer, given, result):
                        self.peak = max(self.peak, result.abs().max().item())  # expect: GS101

                    return hook

                for name, layer in model.named_modules():
                    layer.register_forward_hook(watch(name))
        """,
    "a hook of an optimizer's step": """
        def regularise(optimizer, *args):
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad.norm() > 1.0:  # expect: GS102
                        p.grad.mul_(0.5)

        class Steady(torch.optim.SGD):
            def __init__(self, params, lr):
                super().__init__(params, lr)
                self.register_step_pre_hook(regularise)
        """,
    "a step of a sampler": """
        class Euler:
            def sample_step(self, model, x, sigma):
                d = (x - model(x, sigma)) / sigma
                if sigma.item() > 0.1:  # expect: GS101
                    d = d + torch.randn_like(d) * 0.01
                return x + d
        """,
    "work that the version of an input decides": """
        class Cached:
            def __init__(self, device):
                self.w = torch.rand(8, 8, device=device)
                self.kept = torch.zeros(8, device=device)
                self.seen = -1

            def solve(self, x):
                if x._version != self.seen:  # expect: GS702
                    self.kept.copy_(self.w @ x)
                    self.seen = x._version  # expect: GS702
                return self.kept * 2

        def build(device):
            return Cached(device).solve, (torch.rand(8, device=device),)
        """,
    "a table that is made anew for another shape": """
        class Detect(nn.Module):
            def __init__(self):
                super().__init__()
                self.grid = torch.zeros(1)

            def forward(self, x):
                if self.grid.shape[-2:] != x.shape[-2:]:
                    self.grid = torch.arange(x.shape[-1], device=x.device).float()  # expect: GS705
                return x + self.grid
        """,
    "what a graph of any function returns": """
        class Replayer:
            def __init__(self, fn, example):
                self.given = example.clone()
                side = torch.cuda.Stream("cuda:0")
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    fn(self.given)
                torch.cuda.current_stream().wait_stream(side)
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=side):
                    self.made = fn(self.given)

            def run(self, x):
                self.given.copy_(x)
                self.graph.replay()
                return self.made.clone()

        def rollout(policy, obs, n):
            replayer = Replayer(policy, obs)
            for _ in range(n):
                act = replayer.run(obs)
                obs = obs + act
                if act.abs().max() > 100:  # expect: GS102
                    break
            return obs
        """,
    "a method that is timed": """
        import time

        def bench(fn, n=100):
            begin = time.perf_counter()
            for _ in range(n):
                fn()
            return (time.perf_counter() - begin) / n

        class Jacobi:
            def __init__(self, n):
                self.a = torch.rand(n, n, device="cuda:0")
                self.x = torch.zeros(n, device="cuda:0")

            def sweep(self):
                self.x.sub_(self.a @ self.x)
                return float(self.x.norm())  # expect: GS101

        if __name__ == "__main__":
            print("seconds", bench(Jacobi(256).sweep))
        """,
    "a class of the script that captures": """
        class Mix:
            def __init__(self, n, device):
                self.w = torch.rand(n, n, device=device)

            def step(self, x):
                y = x @ self.w
                return y if y.sum() > 0 else -y  # expect: GS102

        side = torch.cuda.Stream("cuda:0")
        mix, x = Mix(8, "cuda:0"), torch.rand(8, device="cuda:0")
        with torch.cuda.stream(side):
            mix.step(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            y = mix.step(x)
        graph.replay()
        """,
    "a loop that serves a model": """
        class Server:
            def __init__(self, model):
                self.model = model.cuda()
                self.eos = 2

            async def serve(self, inbox, outbox):
                while True:
                    ids = await inbox.get()
                    logits = self.model(ids.cuda(non_blocking=True))
                    if (logits.argmax(-1) == self.eos).all():  # expect: GS102
                        break
                    await outbox.put(logits.argmax(-1).tolist())  # expect: GS101
        """,
    "gradients of parameters from elsewhere": """
        class Scaler:
            def __init__(self, params):
                self.params = list(params)

            def norm(self):
                return torch.nn.utils.get_total_norm([p.grad for p in self.params]).item()  # expect: GS101

        class Opt(torch.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {})
                self.scaler = Scaler(self.param_groups[0]["params"])

            def step(self, closure=None):
                norm = self.scaler.norm()
                for group in self.param_groups:
                    for p in group["params"]:
                        p.data.add_(p.grad, alpha=-1.0 / norm)
        """,
    "a class that its decorator enters in a table": """
        PENALTIES = {}

        def register(name):
            def enter(cls):
                PENALTIES[name] = cls
                return cls

            return enter

        @register("repeat")
        class Repeat:
            def apply_to(self, logits, seen):
                logits[:, seen.unique()] -= 1.0  # expect: GS201
                return logits

        class Head(nn.Module):
            def __init__(self, settings):
                super().__init__()
                self.out = nn.Linear(16, 100)
                self.penalty = PENALTIES[settings.penalty]()

            def forward(self, h, ids):
                return self.penalty.apply_to(self.out(h), ids)
        """,
    "a class that a call enters in a table": """
        PENALTIES = {}

        def enter(name, cls):
            if name in PENALTIES:
                raise ValueError(name)
            PENALTIES[name] = cls

        class Repeat:
            def apply_to(self, logits, seen):
                logits[:, seen.unique()] -= 1.0  # expect: GS201
                return logits

        class Head(nn.Module):
            def __init__(self, settings):
                super().__init__()
                self.out = nn.Linear(16, 100)
                self.penalty = PENALTIES[settings.penalty]()

            def forward(self, h, ids):
                return self.penalty.apply_to(self.out(h), ids)

        enter("repeat", Repeat)
        """,
    "a list of numbers that may be tensors of the host": """
        class Scheduler:
            def set_timesteps(self, steps: int, device="cpu"):
                self.sigmas = torch.linspace(0, 1, steps, device=device)

            def step(self, sample: torch.Tensor, at: int):
                ratios = []
                for back in range(1, 3):
                    ratios.append(self.sigmas[at - back] / self.sigmas[at])
                ratios.append(1.0)
                return sample * torch.tensor(ratios, device=sample.device)  # expect: GS301

        def build(device):
            scheduler = Scheduler()
            scheduler.set_timesteps(8)
            return scheduler.step, (torch.rand(3, device=device), 4)
        """,
    "objects of classes that an annotation names": """
        from typing import Set, Type

        class Penalty:
            def apply(self, logits):
                raise NotImplementedError

        class Ends(Penalty):
            def __init__(self, device):
                self.ends = torch.zeros(4, device=device)

            def apply(self, logits: torch.Tensor):
                logits[self.ends > 0] += self.ends[self.ends > 0]  # expect: GS202

        class Sampler(nn.Module):
            def __init__(self, kinds: Set[Type[Penalty]], device):
                super().__init__()
                self.all = {kind: kind(device) for kind in kinds}

            def forward(self, logits: torch.Tensor):
                for one in self.all.values():
                    one.apply(logits)
                return logits
        """,
    "a stream that the import has made": """
        def attend(x, stream=torch.cuda.current_stream()):  # expect: GS604
            return torch.ops.kernels.attend(x, stream.cuda_stream)

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                return attend(x)
        """,
}
SOUND = {
    "a class that a call of another table's function enters": """
        PENALTIES = {}
        OTHERS = {}

        def enter(name, cls):
            OTHERS[name] = cls

        class Repeat:
            def apply(self, logits, seen):
                logits[:, seen.unique()] -= 1.0
                return logits

        class Head(nn.Module):
            def __init__(self, settings):
                super().__init__()
                self.out = nn.Linear(16, 100)
                self.penalty = PENALTIES[settings.penalty]()

            def forward(self, h, ids):
                return self.penalty.apply(self.out(h), ids)

        enter("repeat", Repeat)
        """,
    "a norm that keeps no average": """
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(8, momentum=None, track_running_stats=False)

            def forward(self, x):
                return torch.relu(self.norm(x))
        """,
    "a norm in evaluation mode": """
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(8, momentum=None)

            def forward(self, x):
                return torch.relu(self.norm(x))

        def build(device):
            net = Encoder().to(device)
            net.eval()
            return net, (torch.rand(2, 8, device=device),)
        """,
    "a norm that its module keeps in evaluation mode": """
        class Frozen(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(8, momentum=None)

            def train(self, mode=True):
                super().train(mode)
                for layer in self.modules():
                    if isinstance(layer, nn.BatchNorm1d):
                        layer.eval()
                return self

            def forward(self, x):
                return torch.relu(self.norm(x))
        """,
    "a table that the first step makes": """
        class Detect(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.n = n
                self.grid = None

            def forward(self, x):
                if self.grid is None:
                    self.grid = torch.arange(self.n, device=x.device).float()
                return x + self.grid
        """,
    "an entry for the identity of a weight": """
        class Folded(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.rand(8, 8))
                self.known = {}

            def forward(self, x: torch.Tensor):
                if id(self.w) not in self.known:
                    self.known[id(self.w)] = self.w @ self.w
                return x @ self.known[id(self.w)]
        """,
    "a helper that tries again": """
        def repeat_on_error(fn, n=3):
            for _ in range(n):
                try:
                    return fn()
                except OSError:
                    pass

        class Loader:
            def read_all(self):
                return float(torch.load("weights.pt")["scale"])

        if __name__ == "__main__":
            repeat_on_error(Loader().read_all)
        """,
    "lanes that are all joined by events": """
        class Lanes:
            def __init__(self, device):
                self.lanes = [torch.cuda.Stream(device) for _ in range(3)]
                self.done = [torch.cuda.Event() for _ in range(3)]
                self.w = torch.rand(16, 16, device=device)

            def step(self, x):
                main = torch.cuda.current_stream()
                found = []
                for lane, done in zip(self.lanes, self.done):
                    lane.wait_stream(main)
                    with torch.cuda.stream(lane):
                        found.append(x @ self.w)
                        done.record()
                for done in self.done:
                    main.wait_event(done)
                return sum(found)

        def build(device):
            return Lanes(device).step, (torch.rand(16, device=device),)
        """,
    "a thread that chooses the stream of the step": """
        from concurrent.futures import ThreadPoolExecutor

        class Halves:
            def __init__(self, device):
                self.pool = ThreadPoolExecutor(2)
                self.w = torch.rand(16, 16, device=device)

            def half(self, x, stream):
                with torch.cuda.stream(stream):
                    return x @ self.w

            def step(self, a):
                return self.pool.submit(self.half, a, torch.cuda.current_stream()).result()

        def build(device):
            return Halves(device).step, (torch.rand(16, device=device),)
        """,
    "threads that work for the host, or on the stream of the step": """
        import threading
        from concurrent.futures import ThreadPoolExecutor

        class Watched(nn.Module):
            def __init__(self):
                super().__init__()
                self.pool = ThreadPoolExecutor(2)
                threading.Thread(target=self.watch, args=(torch.rand(4, device="cuda:0"),), daemon=True).start()

            def watch(self, x):
                return x * 2

            def forward(self, x):
                stream = torch.cuda.current_stream()
                made = []

                def work():
                    with torch.cuda.stream(stream):
                        made.append(x * 2)

                worker = threading.Thread(target=work)
                worker.start()
                worker.join()
                names = ["a", "b"]
                threading.Thread(target=lambda: print(names)).start()
                self.pool.map(lambda x: print(x), names)
                return made[0] + x
        """,
    "saved tensors that stay on the device": """
        from torch.autograd.graph import saved_tensors_hooks

        class Half(saved_tensors_hooks):
            def __init__(self):
                super().__init__(lambda t: t.bfloat16(), lambda t: t.float())

        class Net(nn.Module):
            def forward(self, x):
                with Half():
                    return (x * x).sum()
        """,
    "attributes on the device, listed with vars": """
        class Listed:
            def __init__(self, w):
                self.size = 4
                self.w = w

            def total(self, x):
                found = [value for value in vars(self).values() if isinstance(value, torch.Tensor)]
                for value in vars(self).values():
                    if hasattr(value, "to"):
                        x = x + value.to(x.device)
                return x + sum(found)

        def build(device):
            return Listed(torch.rand(4, device=device)).total, (torch.rand(4, device=device),)
        """,
    "a distribution of one's own that checks nothing": """
        class Diagonal(torch.distributions.Normal):
            def __init__(self, mean, scale):
                super().__init__(mean, scale, validate_args=False)

            def log_prob(self, value):
                return super().log_prob(value).sum(-1)

        class Told(torch.distributions.Normal):
            def summed(self, value):
                return self.log_prob(value).sum(-1)

        class Policy(nn.Module):
            def forward(self, x, action):
                mean, scale = x.chunk(2, -1)
                told = Told(mean, scale.exp(), validate_args=False).summed(action)
                return Diagonal(mean, scale.exp()).log_prob(action) + told
        """,
    "an entry of the caller's dict written in place": """
        class Mixer(nn.Module):
            def forward(self, x, params):
                params["ssm"].mul_(0.9).add_(x)
                params["out"] = params["ssm"] + 1
                return params["out"]

        def build(device):
            return Mixer(), (torch.rand(8, device=device), {"ssm": torch.zeros(8, device=device)})
        """,
    "gradients in pinned memory": """
        class Offload(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.rand(8))
                self.kept = torch.empty(8, pin_memory=True)

            def forward(self, x):
                self.kept.grad.copy_(self.w.grad, non_blocking=True)
                return x * self.w
        """,
    "entries that the first step of an optimizer makes": """
        class Lion(torch.optim.Optimizer):
            @torch.no_grad()
            def step(self, closure=None):
                for group in self.param_groups:
                    if "start" not in group:
                        group["start"] = group["params"][0].grad.norm().item()
                    for p in group["params"]:
                        state = self.state[p]
                        if "scale" not in state:
                            state["scale"] = torch.tensor(1.0, device=p.device)
                        p.sub_(p.grad.sign() * state["scale"])
        """,
    "the host's copy of lengths": """
        class Varlen(nn.Module):
            def forward(self, q, cu_seqlens, cu_seqlens_cpu):
                if (cu_seqlens_cpu[1:] - cu_seqlens_cpu[:-1]).max() > 8:
                    q = q * 2
                return q[: int(cu_seqlens_cpu[-1])] + cu_seqlens[0]
        """,
    "the state of the host's generator": """
        class Drop(nn.Module):
            def forward(self, x):
                torch.set_rng_state(torch.get_rng_state())
                return x
        """,
    "code for steps without graphs": """
        class Experts(nn.Module):
            def __init__(self, settings):
                super().__init__()
                self.enable_cuda_graph = settings.graphs
                self.w = nn.Parameter(torch.rand(4, 8, 8))

            def forward(self, x, expert, use_cuda_graph: bool = True):
                if not use_cuda_graph:
                    x = x + expert.unique().sum()
                if self.enable_cuda_graph:
                    return x @ self.w.sum(0)
                return x @ self.w[expert.unique()].sum(0)
        """,
    "a plan that takes a number over": """
        from dataclasses import dataclass, replace

        @dataclass(frozen=True)
        class Plan:
            scale: float
            width: int

        class Mover:
            def __init__(self):
                self.plan = Plan(scale=1.0, width=4)

            def step(self, x):
                self.plan = replace(self.plan, scale=self.plan.scale, width=x.shape[0])
                return x * self.plan.scale

        def build(device):
            return Mover().step, (torch.rand(4, device=device),)
        """,
    "a list of tensors that are stacked where they are": """
        class Scheduler:
            def set_timesteps(self, steps: int, device="cpu"):
                self.sigmas = torch.linspace(0, 1, steps, device=device)

            def step(self, sample: torch.Tensor, at: int):
                ratios = []
                for back in range(1, 3):
                    ratios.append(self.sigmas[at - back] / self.sigmas[at])
                host = torch.tensor(ratios, device="cpu")
                return sample * torch.stack(ratios), host
        """,
    "a table of classes, of which no step makes objects": """
        from typing import Type

        class Penalty:
            def __init__(self, device):
                self.ends = torch.zeros(4, device=device)

            def show(self):
                return self.ends.tolist()

        class Sampler(nn.Module):
            def __init__(self, kind: Type[Penalty]):
                super().__init__()
                self.kind = kind

            def forward(self, logits: torch.Tensor):
                return logits if self.kind.__name__ == "Penalty" else logits * 2
        """,
    "a stream that each call asks for": """
        def attend(x, stream=None):
            return torch.ops.kernels.attend(x, (stream or torch.cuda.current_stream()).cuda_stream)

        def scale(x, stream=torch.cuda.current_stream()):
            return torch.ops.kernels.scale(x, stream.cuda_stream)

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                return attend(scale(x, torch.cuda.current_stream()))
        """,
}


@pytest.mark.parametrize("source", HAZARDS.values(), ids=HAZARDS)
def test_lines_that_wait_copy_or_go_stale(scan: Scan, source: str) -> None:
    expected = [
        (match[1], line.strip()) for line in source.splitlines() if (match := re.search(r"expect: (\w+)", line))
    ]
    assert scan(source) == expected


@pytest.mark.parametrize("source", SOUND.values(), ids=SOUND)
def test_code_that_only_looks_like_it(scan: Scan, source: str) -> None:
    assert scan(source) == []


def test_a_table_that_the_first_step_moves_is_a_note(tmp_path: Path) -> None:
    source = """
        class Rotary(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.freq = torch.arange(8) / 8

            def forward(self, x: torch.Tensor):
                self.freq = self.freq.to(x.device)
                return x * self.freq
    """
    (tmp_path / "rotary.py").write_text("import torch\n" + textwrap.dedent(source), encoding="utf-8")
    found = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [(f.code, f.level, f.location.line) for f in found] == [("GS304", "note", 9)]

import math
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


def fill_randn(shape):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(shape))

    return refresh


class LoraLinear(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.b = nn.Parameter(torch.randn(base.out_features, rank) * 0.1)
        self.scaling = 2.0

    def forward(self, x):
        return self.base(x) + self.scaling * F.linear(F.linear(x, self.a), self.b)


def build_lora_swap(device):
    """Faulty: another adapter is made active by assigning its parameters to the layer, and the graph reads those of the capture."""
    layers = [LoraLinear(nn.Linear(12, 12)).to(device).requires_grad_(False) for _ in range(2)]
    model = nn.Sequential(layers[0], nn.SiLU(), layers[1])
    adapters = {
        name: [(torch.randn_like(m.a) * 0.2, torch.randn_like(m.b) * 0.2) for m in layers] for name in ("sql", "chat")
    }

    def activate(name):
        for layer, (a, b) in zip(layers, adapters[name]):
            layer.a = nn.Parameter(a, requires_grad=False)
            layer.b = nn.Parameter(b, requires_grad=False)

    activate("sql")
    events = {"switch to chat": lambda: activate("chat")}
    return Step(model, (torch.randn(4, 12, device=device),), refresh=fill_randn((4, 12)), events=events)


class LoraBank(nn.Module):
    """Adapters in slots of one tensor; each row of the batch names its slot."""

    def __init__(self, d, slots, rank, device):
        super().__init__()
        self.base = nn.Linear(d, d, device=device)
        self.register_buffer("a", torch.zeros(slots, rank, d, device=device))
        self.register_buffer("b", torch.zeros(slots, d, rank, device=device))
        self.register_buffer("scale", torch.zeros(slots, device=device))
        self.names = [None] * slots

    def load(self, name, a, b, scale):
        slot = self.names.index(name) if name in self.names else self.names.index(None) if None in self.names else 1
        self.names[slot] = name
        self.a[slot].copy_(a), self.b[slot].copy_(b)
        self.scale[slot : slot + 1].fill_(scale)
        return slot

    def forward(self, x, slot):
        low = torch.einsum("bd,brd->br", x, self.a[slot])
        return self.base(x) + torch.einsum("br,bdr->bd", low, self.b[slot]) * self.scale[slot][:, None]


def build_lora_bank(device, batch=4):
    """Sound: adapters are loaded into slots in place, and the rows' slots are an input on the device."""
    bank = LoraBank(12, 3, 2, device).requires_grad_(False)
    for i in range(2):
        bank.load(f"adapter{i}", torch.randn(2, 12), torch.randn(12, 2), 0.5 + i)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 12))
        if k % 16 == 7:
            bank.load(f"adapter{k}", torch.randn(2, 12), torch.randn(12, 2), 1.0 + k % 3)
        args[1].copy_(torch.tensor([i % 3 for i in range(k, k + batch)]))

    args = (torch.randn(batch, 12, device=device), torch.zeros(batch, dtype=torch.long, device=device))
    return Step(bank, args, refresh=refresh)


class Int8Linear(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * 0.2, requires_grad=False)
        self.packed = None

    def load(self, weight):
        self.weight.copy_(weight)
        self.packed = None

    def quantised(self):
        if self.packed is None:
            scale = self.weight.abs().amax(1, keepdim=True) / 127
            self.packed = (self.weight / scale).round().clamp(-127, 127).to(torch.int8), scale
        return self.packed

    def forward(self, x):
        q, scale = self.quantised()
        s = x.abs().amax(-1, keepdim=True).clamp_min(1e-5) / 127
        xq = (x / s).round().clamp(-127, 127)
        return (xq @ q.to(x.dtype).t()) * s * scale.t()


def build_int8_repack(device):
    """Faulty: after a reload the weights are quantised again in the next eager step, but a replay reads the old packed ones."""
    model = nn.Sequential(Int8Linear(12, 16), nn.ReLU(), Int8Linear(16, 6)).to(device)

    def update_weights():
        for m in model:
            if isinstance(m, Int8Linear):
                m.load(torch.randn(m.weight.shape) * 0.2)

    return Step(model, (torch.randn(4, 12, device=device),), refresh=fill_randn((4, 12)), events={"update weights": update_weights})


class ObservedLinear(nn.Linear):
    """Collects the range of its input in the first calls, then quantises with it."""

    def __init__(self, *args, calls=50):
        super().__init__(*args)
        self.calls, self.seen = calls, 0
        self.register_buffer("amax", torch.zeros(()))

    def forward(self, x):
        if self.seen < self.calls:
            self.seen += 1
            torch.maximum(self.amax, x.abs().max(), out=self.amax)
        s = self.amax / 127
        return F.linear((x / s).round().clamp(-127, 127) * s, self.weight, self.bias)


def build_observer(device):
    """Faulty: calibration ends after 50 calls by a Python counter, but the captured graph goes on calibrating."""
    model = nn.Sequential(ObservedLinear(12, 16), nn.ReLU(), ObservedLinear(16, 6)).to(device)
    model.requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 12) * (1 + 0.02 * k))

    return Step(model, (torch.randn(4, 12, device=device),), refresh=refresh)


class Moe(nn.Module):
    def __init__(self, d=12, experts=4, top=2):
        super().__init__()
        self.gate = nn.Linear(d, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, d, 2 * d) * 0.2)
        self.w2 = nn.Parameter(torch.randn(experts, 2 * d, d) * 0.2)
        self.top = top
        self.register_buffer("bias", torch.zeros(experts))
        self.register_buffer("load", torch.zeros(experts))

    def forward(self, x):
        score = self.gate(x).sigmoid()
        index = (score + self.bias).topk(self.top, dim=-1).indices
        weight = score.gather(1, index)
        weight = weight / weight.sum(-1, keepdim=True)
        mask = F.one_hot(index, self.gate.out_features).to(x.dtype)
        self.load.copy_(mask.sum((0, 1)))
        combine = torch.einsum("tk,tke->te", weight, mask)
        h = F.silu(torch.einsum("td,edh->teh", x, self.w1))
        return torch.einsum("teh,ehd,te->td", h, self.w2, combine)


def build_moe_bias(device):
    """Faulty: the loop balances the experts by assigning a new bias buffer, and the graph routes with the old one."""
    moe = Moe().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 12))
        error = moe.load.mean() - moe.load
        moe.bias = moe.bias + 0.05 * error.sign()

    return Step(moe, (torch.randn(16, 12, device=device),), refresh=refresh)


def build_moe_inplace(device):
    """Sound: routing is dense with a fixed shape, and the loop updates the bias of the experts in place."""
    moe = Moe().to(device).requires_grad_(False)
    totals = [0.0] * 4

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 12))
        moe.bias.add_(0.05 * (moe.load.mean() - moe.load).sign())
        if k % 10 == 0:
            for i, n in enumerate(moe.load.tolist()):
                totals[i] += n

    return Step(moe, (torch.randn(16, 12, device=device),), refresh=refresh)


class AudioRing:
    def __init__(self, device, size=96, hop=8):
        self.size, self.hop = size, hop
        self.ring = torch.zeros(size, device=device)
        self.offsets = torch.arange(hop, device=device)
        self.window_offsets = torch.arange(32, device=device)
        self.head = torch.zeros(1, dtype=torch.long, device=device)
        self.filter = nn.Conv1d(1, 4, 9, padding=4).to(device).requires_grad_(False)
        self.chunk = torch.zeros(hop, device=device)
        self.pending = deque(maxlen=4)

    def process(self):
        self.ring.index_copy_(0, (self.head + self.offsets) % self.size, self.chunk)
        self.head.add_(self.hop).remainder_(self.size)
        window = self.ring[(self.head - 32 + self.window_offsets) % self.size]
        return self.filter(window.view(1, 1, -1)).relu().mean(-1)

    def receive(self, args, kwargs, k):
        self.pending.append(torch.randn(self.hop))
        self.chunk.copy_(self.pending.popleft())


def build_audio_ring(device):
    """Sound: the head of the ring is a device tensor, and each chunk is copied into the same tensor."""
    audio = AudioRing(device)
    return Step(audio.process, refresh=audio.receive)


class OverlapAdd(nn.Module):
    def __init__(self, n=64, hop=16):
        super().__init__()
        self.hop = hop
        self.register_buffer("window", torch.hann_window(n))
        self.register_buffer("tail", torch.zeros(n))
        self.register_buffer("frame", torch.zeros(n))
        self.register_buffer("noise", torch.full((n // 2 + 1,), 0.1))
        self.gain = nn.Linear(n // 2 + 1, n // 2 + 1)

    def forward(self, samples):
        self.frame.copy_(torch.cat((self.frame[self.hop :], samples)))
        spec = torch.fft.rfft(self.frame * self.window)
        mag = spec.abs()
        self.noise.lerp_(torch.minimum(mag, self.noise * 1.5), 0.05)
        gain = torch.sigmoid(self.gain((mag - self.noise).relu()))
        wave = torch.fft.irfft(spec * gain, n=self.frame.shape[0]) * self.window
        self.tail.copy_(torch.cat((self.tail[self.hop :], torch.zeros_like(samples))) + wave)
        return self.tail[: self.hop].clone()


def build_overlap_add(device):
    """Sound: frame, overlap and noise estimate are buffers which each step writes in place."""
    denoise = OverlapAdd().to(device).requires_grad_(False)

    def reset():
        denoise.tail.zero_(), denoise.frame.zero_(), denoise.noise.fill_(0.1)

    return Step(denoise, (torch.randn(16, device=device),), refresh=fill_randn((16,)), reset=reset)


class Heat:
    def __init__(self, device, n=24):
        self.u = torch.rand(n, n, device=device)
        self.v = torch.zeros(n, n, device=device)
        self.source = torch.zeros(n, n, device=device)
        self.kernel = torch.tensor([[0.05, 0.2, 0.05], [0.2, -1.0, 0.2], [0.05, 0.2, 0.05]])[None, None].to(device)

    def half(self, src, dst):
        lap = F.conv2d(F.pad(src[None, None], (1, 1, 1, 1), mode="circular"), self.kernel)[0, 0]
        torch.add(src, 0.3 * lap + 0.01 * self.source, out=dst)

    def step(self):
        self.half(self.u, self.v)
        self.u, self.v = self.v, self.u
        return self.u.mean(), self.u.std()

    def two_steps(self):
        self.half(self.u, self.v)
        self.half(self.v, self.u)
        return self.u.mean(), self.u.std()

    def drive(self, args, kwargs, k):
        self.source.copy_(torch.randn(self.source.shape))


def build_pingpong(device):
    """Faulty: the two fields change roles by a Python swap, so a replay computes from the same field each time."""
    heat = Heat(device)
    return Step(heat.step, refresh=heat.drive)


def build_pingpong_two(device):
    """Sound: one step holds both halves of the double buffer, so the roles are the same at each start."""
    heat = Heat(device)
    return Step(heat.two_steps, refresh=heat.drive)


class Oscillators:
    def __init__(self, device, n=32, dt=0.01):
        self.x, self.v = torch.randn(n, device=device), torch.zeros(n, device=device)
        self.k = torch.rand(n, device=device) + 1
        self.t, self.dt = 0.0, dt

    def force(self, t):
        return -self.k * self.x - 0.1 * self.v + 0.5 * math.cos(1.7 * t)

    def step(self, kick):
        self.v.add_(self.force(self.t), alpha=0.5 * self.dt).add_(kick, alpha=0.01)
        self.x.add_(self.v, alpha=self.dt)
        self.t += self.dt
        self.v.add_(self.force(self.t), alpha=0.5 * self.dt)
        return 0.5 * (self.v**2 + self.k * self.x**2).sum()


def build_driven(device):
    """Faulty: the driving force depends on the simulation's time, a Python float which replays do not advance."""
    sim = Oscillators(device)
    return Step(sim.step, (torch.randn(32, device=device),), refresh=fill_randn((32,)))


class Particles:
    def __init__(self, device, n=20, neighbours=6, every=20):
        self.pos = torch.rand(n, 2, device=device) * 4
        self.vel = torch.randn(n, 2, device=device) * 0.3
        self.n, self.m, self.every = n, neighbours, every
        self.rebuild()

    def rebuild(self):
        far = torch.cdist(self.pos, self.pos) + 1e3 * torch.eye(self.n, device=self.pos.device)
        self.pairs = far.topk(self.m, dim=1, largest=False).indices

    def step(self, noise):
        delta = self.pos[:, None] - self.pos[self.pairs]
        r2 = (delta**2).sum(-1, keepdim=True) + 0.05
        force = (delta * (1 / r2**2 - 0.3 / r2)).sum(1)
        self.vel.add_(force, alpha=0.01).mul_(0.99).add_(noise, alpha=0.05)
        self.pos.add_(self.vel, alpha=0.02).remainder_(4.0)
        return (self.vel**2).sum()


def build_neighbour_list(device):
    """Faulty: every 20 steps the loop makes a new neighbour list, but the graph goes on with the list of the capture."""
    sim = Particles(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(20, 2))
        if (k + 1) % sim.every == 0:
            sim.rebuild()

    return Step(sim.step, (torch.zeros(20, 2, device=device),), refresh=refresh)


@dataclass
class DecodeOutput:
    logits: torch.Tensor
    position: int


class Decoder(nn.Module):
    def __init__(self, d=16, vocab=30, length=512):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.place = nn.Embedding(length, d)
        self.cell = nn.GRUCell(d, d)
        self.head = nn.Linear(d, vocab)
        self.register_buffer("hidden", torch.zeros(2, d))
        self.register_buffer("pos", torch.zeros(1, dtype=torch.long))
        self.length, self.position = length, 0

    def forward(self, tokens):
        self.hidden.copy_(self.cell(self.embed(tokens) + self.place(self.pos), self.hidden))
        self.pos.add_(1).remainder_(self.length)
        self.position = (self.position + 1) % self.length
        return DecodeOutput(self.head(self.hidden), self.position)


def build_position_output(device):
    """Faulty: the caller gets the position as a Python int of the output, which stays that of the capture in each replay."""
    model = Decoder().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 30, (2,)))

    return Step(model, (torch.zeros(2, dtype=torch.long, device=device),), refresh=refresh)


class Whitened(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
        self.centre = torch.zeros(8, device=device)
        self.seen = []
        self.latest = torch.zeros(6, 8, device=device)

    def forward(self, x):
        return F.normalize(self.body(x) - self.centre, dim=-1)


def build_hook_list(device):
    """Faulty: a hook appends features to a Python list that the loop averages and clears, and replays never call the hook."""
    model = Whitened(device).requires_grad_(False)
    model.body.register_forward_hook(lambda m, i, o: model.seen.append(o.detach().mean(0)))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 12) + 0.5)
        if len(model.seen) >= 4:
            model.centre.copy_(0.9 * model.centre + 0.1 * torch.stack(model.seen).mean(0))
            model.seen.clear()

    return Step(model, (torch.randn(6, 12, device=device),), refresh=refresh)


def build_hook_buffer(device):
    """Sound: the hook copies the features into a static buffer, so the copy is a part of the graph."""
    model = Whitened(device).requires_grad_(False)

    def keep(module, inputs, output):
        model.latest.copy_(output)

    model.body.register_forward_hook(keep)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 12) + 0.5)
        if k % 4 == 3:
            model.centre.copy_(0.9 * model.centre + 0.1 * model.latest.mean(0))

    return Step(model, (torch.randn(6, 12, device=device),), refresh=refresh)


def build_sleep(device):
    """Faulty: between rollouts the model sleeps on the CPU and wakes in new device memory, which the graph does not know."""
    model = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 6)).to(device)
    model.requires_grad_(False)

    def sleep_and_wake():
        model.to("cpu")
        model.to(device)
        for p in model.parameters():
            p.mul_(0.9)  # the trainer's update arrives after waking

    def infer(x):
        return model(x).log_softmax(-1)

    return Step(infer, (torch.randn(4, 12, device=device),), refresh=fill_randn((4, 12)), events={"sleep and wake": sleep_and_wake})


class Session:
    def __init__(self, device, length=64, d=16):
        self.device, self.length, self.d = device, length, d
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True).to(device).requires_grad_(False)
        self.start()

    def start(self):
        self.memory = torch.zeros(1, self.length, self.d, device=self.device)
        self.filled = torch.zeros(1, dtype=torch.long, device=self.device)

    def step(self, x):
        self.memory.index_copy_(1, self.filled, x)
        unused = torch.arange(self.length, device=self.device)[None] > self.filled
        out, _ = self.attn(x, self.memory, self.memory, key_padding_mask=unused, need_weights=False)
        self.filled.add_(1).remainder_(self.length)
        return out


def build_new_session(device):
    """Faulty: each new conversation allocates a new memory, while the graph goes on writing and reading the first one."""
    session = Session(device)
    return Step(session.step, (torch.randn(1, 1, 16, device=device),), refresh=fill_randn((1, 1, 16)), reset=session.start)


def build_compiled(device):
    """Sound: the compiled function has fixed shapes, is compiled in the warm-up, and reads and writes static tensors only."""
    norm = nn.RMSNorm(16).to(device).requires_grad_(False)
    up, down = (nn.Linear(16, 32).to(device).requires_grad_(False), nn.Linear(16, 16).to(device).requires_grad_(False))
    state = torch.zeros(4, 16, device=device)

    @torch.compile(dynamic=False)
    def block(x, state):
        a, b = up(norm(x)).chunk(2, -1)
        return down(F.silu(a) * b) + 0.5 * state

    def step(x):
        out = block(x, state)
        state.copy_(out)
        return out

    return Step(step, (torch.randn(4, 16, device=device),), refresh=fill_randn((4, 16)), reset=state.zero_)


class Workspace:
    def __init__(self):
        self.buffers = {}

    def get(self, name, shape, like):
        if name not in self.buffers or self.buffers[name].shape != shape:
            self.buffers[name] = torch.empty(shape, dtype=like.dtype, device=like.device)
        return self.buffers[name]


def build_workspace(device):
    """Sound: the scratch buffers are made in the first step and wholly overwritten in each step before they are read."""
    ws = Workspace()
    w1, w2 = torch.randn(12, 32, device=device), torch.randn(32, 12, device=device)

    def step(x):
        h = ws.get("hidden", (x.shape[0], 32), x)
        torch.matmul(x, w1, out=h)
        h.relu_()
        y = ws.get("out", (x.shape[0], 12), x)
        torch.matmul(h, w2, out=y)
        return y.add_(x)

    return Step(step, (torch.randn(5, 12, device=device),), refresh=fill_randn((5, 12)))


def build_inplace_input(device):
    """Sound: the step normalises its input in place, and the loop writes the whole input again before each step."""
    mean, std = torch.full((3, 1, 1), 0.45, device=device), torch.full((3, 1, 1), 0.22, device=device)
    net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)).to(device)
    net.requires_grad_(False)

    def step(batch):
        image, flip = batch["image"], batch["flip"]
        image.sub_(mean).div_(std)
        image.copy_(torch.where(flip[:, None, None, None], image.flip(-1), image))
        return net(image).flatten(1)

    def refresh(args, kwargs, k):
        args[0]["image"].copy_(torch.rand(2, 3, 8, 8))
        args[0]["flip"].copy_(torch.rand(2) < 0.5)

    batch = {"image": torch.rand(2, 3, 8, 8, device=device), "flip": torch.zeros(2, dtype=torch.bool, device=device)}
    return Step(step, (batch,), refresh=refresh)

"""Transformer training and decoding, two to four layers, with optimizers."""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe


class Block(nn.Module):
    def __init__(self, d, heads, drop=0.0):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(drop))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, layers=3, d=128, vocab=512, t=64, drop=0.0):
        super().__init__()
        torch.manual_seed(4)
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Parameter(torch.zeros(t, d))
        self.blocks = nn.ModuleList(Block(d, 4, drop) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, ids, upto=None):
        x = self.emb(ids) + self.pos
        for block in self.blocks[:upto]:
            x = block(x)
        return self.head(self.ln(x))


class LM:
    def __init__(self, device, lr=None, **sizes):
        self.net = GPT(**sizes).to(device)
        self.lr = torch.tensor(3e-4, device=device) if lr is None else lr
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=self.lr, capturable=True)
        self.ids = torch.randint(512, (8, 65), device=device)

    def loss(self, ids):
        return F.cross_entropy(self.net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    def step(self, ids):
        self.opt.zero_grad(set_to_none=False)
        loss = self.loss(ids)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        return loss.detach()

    def data(self, args):
        args[0].copy_(torch.randint(512, (8, 65)))

    def target(self, refresh, step=None):
        return graphsafe.Step(step or self.step, (self.ids,), refresh=refresh)


def build_progressive_layers(device):
    """Wrong: a fourth layer joins after 750 updates, and the graph has three."""
    t = LM(device, layers=4)
    state = {"updates": 0, "depth": 3}

    def step(ids):
        t.opt.zero_grad(set_to_none=False)
        logits = t.net(ids[:, :-1], state["depth"])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        t.data(args)
        state["updates"] += 1
        if state["updates"] > 750:
            state["depth"] = 4

    return t.target(refresh, step)


def build_swa_start(device):
    """Wrong: at 75 % of 12 epochs of 260 batches the trainer begins to average weights inside the step, which the graph leaves out."""
    t = LM(device, layers=2)
    average = copy.deepcopy(t.net).requires_grad_(False)
    plan = {"epochs": 12, "batches": 260, "done": 0}

    def step(ids):
        loss = t.step(ids)
        if plan["done"] / (plan["epochs"] * plan["batches"]) >= 0.75:
            with torch.no_grad():
                for a, p in zip(average.parameters(), t.net.parameters()):
                    a.lerp_(p, 0.05)
        return loss

    def refresh(args, kwargs, k):
        t.data(args)
        plan["done"] += 1

    return t.target(refresh, step)


def build_cosine_after_plateau(device):
    """Wrong: after a constant phase of 1200 updates the cosine sets a Python weight decay, which AdamW bakes into the graph."""
    t = LM(device, layers=2)
    flat, total = 1200, 20000

    def refresh(args, kwargs, k):
        t.data(args)
        part = max(0.0, (k - flat) / (total - flat))
        for group in t.opt.param_groups:
            group["weight_decay"] = 0.01 + 0.05 * (1 - math.cos(math.pi * min(1.0, part)))

    return t.target(refresh)


def build_batch_queue(device):
    """Wrong: phases are a list of (steps, label smoothing) popped as they run out, and the smoothing is a Python number."""
    t = LM(device, layers=2)
    phases = [(900, 0.0), (900, 0.1), (10**9, 0.2)]
    now = {"left": 900, "smooth": 0.0}

    def step(ids):
        t.opt.zero_grad(set_to_none=False)
        logits = t.net(ids[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits, ids[:, 1:].flatten(), label_smoothing=now["smooth"])
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        t.data(args)
        now["left"] -= 1
        if now["left"] <= 0 and len(phases) > 1:
            phases.pop(0)
            now["left"], now["smooth"] = phases[0]

    return t.target(refresh, step)


def build_warmup_cosine_tensor(device):
    """Right: the learning rate is a device tensor filled in place by warm-up and cosine, and weight decay stays the same."""
    t = LM(device, layers=2)
    warm, total = 200, 5000

    def refresh(args, kwargs, k):
        t.data(args)
        part = min(1.0, max(0.0, (k - warm) / (total - warm)))
        t.lr.fill_(3e-4 * min(1.0, (k + 1) / warm) * 0.5 * (1 + math.cos(math.pi * part)))

    return t.target(refresh)


def build_layer_gate(device):
    """Right: the depth grows through a device gate per layer, so that the graph always runs all layers."""
    t = LM(device, layers=3, d=64)
    gate = torch.tensor([1.0, 1.0, 0.0], device=device)

    def step(ids):
        t.opt.zero_grad(set_to_none=False)
        x = t.net.emb(ids[:, :-1]) + t.net.pos
        for i, block in enumerate(t.net.blocks):
            x = x + gate[i] * (block(x) - x)
        loss = F.cross_entropy(t.net.head(t.net.ln(x)).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        t.data(args)
        gate[2].fill_(1.0 if k > 150 else 0.0)

    return t.target(refresh, step)


def build_steplr_tensor(device):
    """Right: StepLR fills the tensor learning rate in place, every 50 updates."""
    t = LM(device, layers=2, d=64)
    sched = torch.optim.lr_scheduler.StepLR(t.opt, step_size=50, gamma=0.5)

    def refresh(args, kwargs, k):
        t.data(args)
        if k > 0:
            sched.step()

    return t.target(refresh)


def build_eval_between(device):
    """Right: every 60 updates the loop evaluates outside of the graph in eval mode, logs, and returns to train mode before the next step."""
    t = LM(device, layers=2, d=64, drop=0.1)
    held = torch.randint(512, (8, 65), device=device)
    history = []

    def refresh(args, kwargs, k):
        t.data(args)
        if k % 60 == 59:
            t.net.eval()
            with torch.no_grad():
                history.append(t.loss(held).item())
            t.net.train()
            print(f"update {k}: held-out loss {history[-1]:.3f}")

    return t.target(refresh)


def build_accumulate_outside(device):
    """Right: the graph only adds gradients, and the loop runs the optimizer and clears the gradients in place after every fourth micro-batch."""
    t = LM(device, layers=2, d=64)
    for p in t.net.parameters():
        p.grad = torch.zeros_like(p)

    def step(ids):
        loss = t.loss(ids) / 4
        loss.backward()
        return loss.detach()

    def refresh(args, kwargs, k):
        if k > 0 and k % 4 == 0:
            t.opt.step()
            t.opt.zero_grad(set_to_none=False)
        t.data(args)

    return t.target(refresh, step)

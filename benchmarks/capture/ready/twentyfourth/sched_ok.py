"""The sound twins of the training loops."""
import copy

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe
from common_a import mlp
from sched_bad import Trainer


def build_generator_weight(device):
    """Right: the generator's value is written into a device scalar, which the step reads."""
    t = Trainer(device)
    beta = torch.zeros((), device=device)

    def ramp():
        for _ in range(30):
            yield 0.0
        i = 0
        while True:
            i += 1
            yield min(1.0, i / 100)

    betas = ramp()

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        logits = t.model(x)
        loss = F.cross_entropy(logits, y) + beta * logits.pow(2).mean()
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        beta.fill_(next(betas))
        t.data(args)

    return t.target(refresh, step)


def build_target_copy(device):
    """Right: the target network is updated by copying into its parameters every 50 steps."""
    q = mlp(device)
    target = copy.deepcopy(q)
    opt = torch.optim.SGD(q.parameters(), lr=0.01)
    obs, nxt = torch.randn(8, 16, device=device), torch.randn(8, 16, device=device)
    reward = torch.randn(8, device=device)

    def step(obs, nxt, reward):
        opt.zero_grad(set_to_none=False)
        with torch.no_grad():
            goal = reward + 0.99 * target(nxt).amax(1)
        loss = F.smooth_l1_loss(q(obs).amax(1), goal)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        for a in args:
            a.copy_(torch.randn(a.shape))
        if k % 50 == 49:
            with torch.no_grad():
                for a, b in zip(target.parameters(), q.parameters()):
                    a.copy_(b)

    return graphsafe.Step(step, (obs, nxt, reward), refresh=refresh)


def build_ema_warm(device):
    """Right: the EMA's decay with warm-up is computed on the device from a step count that the step itself advances."""
    t = Trainer(device)
    ema = copy.deepcopy(t.model).requires_grad_(False)
    n = torch.zeros((), device=device)

    def step(x, y):
        loss = t.step(x, y)
        n.add_(1)
        keep = torch.clamp((1 + n) / (10 + n), max=0.999)
        with torch.no_grad():
            for e, p in zip(ema.parameters(), t.model.parameters()):
                e.lerp_(p, 1 - keep)
        return loss

    return t.target(lambda args, kwargs, k: t.data(args), step)


def build_padded_last_batch(device):
    """Right: the short last batch is padded and a device mask weighs the rows, so that shapes never change."""
    t = Trainer(device)
    data, labels = torch.randn(403, 16), torch.randint(4, (403,))
    weight = torch.ones(8, device=device)
    box = {"it": iter(())}

    def batches():
        for part in torch.randperm(len(data)).split(8):
            yield data[part], labels[part]

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        losses = F.cross_entropy(t.model(x), y, reduction="none")
        loss = (losses * weight).sum() / weight.sum()
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        try:
            x, y = next(box["it"])
        except StopIteration:
            box["it"] = batches()
            x, y = next(box["it"])
        n = len(x)
        args[0].zero_()
        args[1].zero_()
        args[0][:n].copy_(x)
        args[1][:n].copy_(y)
        weight.copy_((torch.arange(8) < n).float())

    return t.target(refresh, step)


def build_replay_ring(device):
    """Right: the replay memory is a ring at full size, the loop writes rows in place and sampling on the device uses a device count."""
    rows = torch.zeros(512, 16, device=device)
    filled = torch.ones((), device=device)
    net = mlp(device)
    u = torch.rand(16, device=device)
    box = {"at": 0, "full": False}

    def step(u):
        with torch.no_grad():
            index = (u * filled).long()
            return net(rows.index_select(0, index)).mean(0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(16) * 0.999)
        for _ in range(4):
            rows[box["at"]].copy_(torch.randn(16))
            box["at"] = (box["at"] + 1) % 512
            box["full"] = box["full"] or box["at"] == 0
        filled.fill_(512.0 if box["full"] else float(box["at"]))

    return graphsafe.Step(step, (u,), refresh=refresh)


def build_loss_scale_tensor(device):
    """Right: the loss scale is a device tensor that the loop doubles or halves in place after reading the overflow flag outside the graph."""
    t = Trainer(device)
    scale, finite = torch.tensor(256.0, device=device), torch.ones((), device=device)
    good = {"n": 0}

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        loss = t.loss(x, y)
        (loss * scale).backward()
        finite.copy_(torch.stack([p.grad.isfinite().all() for p in t.model.parameters()]).all())
        for p in t.model.parameters():
            p.grad.div_(scale)
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        t.data(args)
        if finite.item():
            good["n"] += 1
            if good["n"] % 20 == 0 and scale.item() < 65536.0:
                scale.mul_(2.0)
        else:
            scale.mul_(0.5)

    return t.target(refresh, step)


def build_curriculum_mask(device):
    """Right: the curriculum's length is a device tensor that masks positions, and all kernels run at full length."""
    emb = nn.Embedding(50, 16).to(device)
    head = nn.Linear(16, 50).to(device)
    ids = torch.randint(50, (4, 64), device=device)
    upto = torch.tensor(8, device=device)
    place = torch.arange(64, device=device)

    def step(ids):
        with torch.no_grad():
            seen = (place < upto).unsqueeze(-1)
            h = (emb(ids) * seen).cumsum(1)
            return (head(h).logsumexp(-1) * seen.squeeze(-1)).sum() / (4 * upto)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(50, (4, 64)))
        upto.fill_(min(64, 8 + k // 10))
        if k % 25 == 0:
            print("length", min(64, 8 + k // 10))

    return graphsafe.Step(step, (ids,), refresh=refresh)

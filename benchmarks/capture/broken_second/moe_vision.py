import torch
import torch.nn.functional as F
from torch import nn


class Mixer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.across = nn.Linear(tokens, tokens)
        self.within = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.across(self.norm(x).t()).t()
        return x + self.within(x)


class SortedExperts(nn.Module):
    def __init__(self, tokens, dim, experts):
        super().__init__()
        self.count = experts
        self.before = Mixer(tokens, dim)
        self.router = nn.Linear(dim, experts)
        self.experts = nn.ModuleList([nn.Linear(dim, dim) for _ in range(experts)])
        self.after = Mixer(tokens, dim)
        self.head = nn.Linear(dim, 10)

    def forward(self, x):
        x = self.before(x)
        gate = self.router(x).softmax(-1)
        weight, owner = gate.max(-1)
        order = owner.argsort(stable=True)
        grouped = x[order]
        sizes = torch.bincount(owner, minlength=self.count).tolist()
        parts = [expert(part) for expert, part in zip(self.experts, grouped.split(sizes))]
        merged = torch.cat(parts)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.numel(), device=order.device)
        x = x + merged[back] * weight[:, None]
        x = self.after(x)
        balance = (gate.mean(0) ** 2).sum() * self.count
        return self.head(x.mean(0)), balance


def build_moe_sorted(device):
    torch.manual_seed(21)
    model = SortedExperts(24, 32, 4).to(device).eval().requires_grad_(False)
    return model, (torch.randn(24, 32, device=device),)


class LoopExperts(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.router = nn.Linear(dim, experts)
        self.experts = nn.ModuleList([nn.Linear(dim, dim) for _ in range(experts)])
        self.shared = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.out_norm = nn.LayerNorm(dim)

    def _route(self, x):
        return self.router(x).softmax(-1).max(-1)

    def forward(self, x):
        h = self.norm(x)
        att = (self.q(h) @ self.k(h).t()).mul(0.2).softmax(-1)
        x = x + att @ self.v(h)
        weight, choice = self._route(x)
        y = self.shared(x)
        scaled = x * weight[:, None]
        for e, expert in enumerate(self.experts):
            rows = (choice == e).nonzero(as_tuple=True)[0]
            if rows.numel() == 0:
                continue
            y = y.index_copy(0, rows, y[rows] + expert(scaled[rows]))
        x = self.out_norm(x + y)
        gap = x.var(-1, unbiased=False)
        return x * torch.rsqrt(gap + 1e-5)[:, None], choice


def build_moe_loop(device):
    torch.manual_seed(22)
    model = LoopExperts(32, 3).to(device).eval()
    x = torch.randn(20, 32, device=device)

    def step(x):
        with torch.inference_mode():
            return model(x)

    return step, (x,)


def build_moe_capacity(device):
    torch.manual_seed(23)
    tokens, dim, experts, capacity = 32, 16, 4, 8
    gate_w = torch.randn(dim, experts, device=device)
    w_in = torch.randn(experts, dim, 32, device=device) * 0.2
    w_out = torch.randn(experts, 32, dim, device=device) * 0.2
    norm = nn.LayerNorm(dim).to(device).requires_grad_(False)

    def dispatch(h):
        probs = (h @ gate_w).softmax(-1)
        prob, expert = probs.max(-1)
        mask = F.one_hot(expert, experts)
        place = (mask.cumsum(0) * mask).sum(-1) - 1
        keep = place < capacity
        slot = torch.where(keep, expert * capacity + place, experts * capacity)
        return probs, prob, keep, slot

    def step(x):
        h = norm(x)
        probs, prob, keep, slot = dispatch(h)
        spread = F.one_hot(slot, experts * capacity + 1).to(h.dtype)
        table = (spread.t() @ h)[:-1].view(experts, capacity, dim)
        hidden = torch.bmm(table, w_in)
        y = torch.bmm(F.silu(hidden), w_out).view(-1, dim)
        gathered = spread[:, :-1] @ y
        out = x + gathered * (prob * keep)[:, None]
        z_loss = torch.logsumexp(probs, -1).pow(2).mean()
        out = out / out.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        return out, z_loss, (~keep).sum().item()

    return step, (torch.randn(tokens, dim, device=device),)


class TinyDetector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.body = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.score = nn.Conv2d(16, 1, 1)
        self.delta = nn.Conv2d(16, 4, 1)
        ys, xs = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        self.register_buffer("centres", torch.stack([xs, ys], -1).view(-1, 2) * 4 + 2)

    def candidates(self, image, k):
        f = F.relu(self.norm(self.body(F.relu(self.stem(image)))))
        score = self.score(f).flatten().sigmoid()
        delta = self.delta(f)[0].flatten(1).t()
        centre = self.centres + delta[:, :2].tanh() * 4
        size = delta[:, 2:].exp() * 6
        boxes = torch.cat([centre - size / 2, centre + size / 2], -1)
        top, index = score.topk(k)
        return top, boxes[index]

    @staticmethod
    def overlaps(boxes):
        lo = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        hi = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        inter = (hi - lo).clamp_min(0).prod(-1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
        return inter / (area[:, None] + area[None] - inter)

    @staticmethod
    def greedy(rows):
        chosen = []
        for i, row in enumerate(rows):
            if not any(row[j] for j in chosen):
                chosen.append(i)
        return [i in chosen for i in range(len(rows))]

    def forward(self, image, k=24, threshold=0.4):
        top, boxes = self.candidates(image, k)
        iou = self.overlaps(boxes)
        hits = (iou > threshold).tolist()
        kept = torch.tensor(self.greedy(hits), device=image.device)
        score = top * kept
        vote = (iou * kept[:, None]).softmax(0)
        refined = vote.t() @ boxes
        order = score.argsort(descending=True, stable=True)
        return {"boxes": refined[order].clamp(0, 32), "scores": score[order], "raw": boxes}


def build_detector_nms(device):
    torch.manual_seed(24)
    model = TinyDetector().to(device).eval().requires_grad_(False)
    return model, (torch.randn(1, 3, 32, 32, device=device),), {"k": 24}


class RegionHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 12, 3, padding=1)
        self.conv3 = nn.Conv2d(12, 12, 3, padding=1)
        self.objectness = nn.Conv2d(12, 1, 1)
        self.classify = nn.Linear(12, 6)

    def pyramid(self, x):
        a = F.relu(self.conv1(x))
        b = F.relu(self.conv2(F.avg_pool2d(a, 2)))
        c = F.relu(self.conv3(F.avg_pool2d(b, 2)))
        up = F.interpolate(c, scale_factor=2, mode="nearest")
        return b + up

    def forward(self, x):
        f = self.pyramid(x)
        obj = self.objectness(f).sigmoid()
        obj = obj - F.avg_pool2d(obj, 3, stride=1, padding=1)
        peaks = F.max_pool2d(obj, 3, stride=1, padding=1)
        is_peak = (obj == peaks) & (obj > 0.02)
        cells = f.permute(0, 2, 3, 1).reshape(-1, 12)
        cells = cells / cells.norm(dim=-1, keepdim=True).clamp_min(1e-4)
        picked = cells[is_peak.flatten()]
        if picked.shape[0] == 0:
            return None
        logits = self.classify(picked)
        labels = logits.argmax(-1)
        return logits.softmax(-1), labels


def build_region_head(device):
    torch.manual_seed(25)
    model = RegionHead().to(device).eval().requires_grad_(False)
    return model, (torch.randn(1, 3, 16, 16, device=device),)

"""Function transforms, attention and ranking."""
import torch
import torch.nn.functional as F
from torch import func, nn


class PerSample(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x, y):
        params = {k: v.detach() for k, v in self.fc.named_parameters()}

        def loss(p, a, b):
            return F.mse_loss(func.functional_call(self.fc, p, (a,)), b)

        grads = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(params, x, y)
        return grads["weight"].flatten(1).norm(dim=1), grads["bias"].mean(0)


def pairwise(x, y):
    return torch.vmap(lambda a: torch.vmap(lambda b: (a - b).square().sum())(y))(x)


class CausalAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.qkv, self.heads = nn.Linear(dim, 3 * dim), heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (m.view(b, t, self.heads, -1).transpose(1, 2) for m in self.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)


class MaskedAttention(CausalAttention):
    def forward(self, x, keep):
        b, t, d = x.shape
        q, k, v = (m.view(b, t, self.heads, -1).transpose(1, 2) for m in self.qkv(x).chunk(3, -1))
        mask = torch.zeros(b, 1, t, t, device=x.device).masked_fill(~keep[:, None, None, :], -1e4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(b, t, d)


class HalfBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 32)

    @torch.no_grad()
    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return self.b(F.gelu(self.a(x))).float() + x


class BeamStep:
    def __init__(self, device, beams=4, vocab=32):
        self.scores = torch.zeros(2, beams, device=device)
        self.beams, self.vocab = beams, vocab

    @torch.no_grad()
    def __call__(self, logits):
        total = torch.log_softmax(logits, -1) + self.scores.unsqueeze(-1)
        top, flat = total.flatten(1).topk(self.beams, -1)
        self.scores.copy_(top - top.amax(-1, keepdim=True))
        return flat // self.vocab, flat % self.vocab


def nucleus(logits, p=0.9):
    probs, order = torch.softmax(logits, -1).sort(-1, descending=True)
    probs = probs.masked_fill(probs.cumsum(-1) - probs > p, 0.0)
    return torch.zeros_like(probs).scatter_(-1, order, probs)


class GraphConv(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def forward(self, x, edges, weight):
        src, dst = edges
        h = self.lin(x)
        out = torch.zeros_like(h).index_add_(0, dst, h[src] * weight[:, None])
        degree = torch.zeros(x.shape[0], device=x.device).scatter_add_(0, dst, weight)
        top = torch.full_like(h, -1e3).scatter_reduce_(0, dst[:, None].expand(-1, h.shape[1]), h[src], "amax")
        return out / (degree[:, None] + 1.0) + 0.01 * top


class Codebook:
    def __init__(self, device, n=32, dim=8):
        self.codes = torch.randn(n, dim, device=device)
        self.usage = torch.zeros(n, device=device)

    @torch.no_grad()
    def __call__(self, x):
        ids = torch.cdist(x, self.codes).argmin(-1)
        self.usage.mul_(0.99).index_add_(0, ids, torch.ones_like(ids, dtype=self.usage.dtype))
        return self.codes[ids], self.usage.clone()


class StftLoss:
    def __init__(self, device):
        self.window = torch.hann_window(32, device=device)

    def __call__(self, x, y):
        a = torch.stft(x, 32, 8, window=self.window, return_complex=True).abs()
        b = torch.stft(y, 32, 8, window=self.window, return_complex=True).abs()
        return (a - b).abs().mean(), torch.fft.rfft(x).angle()[..., :4].cos()


class ForeachStep:
    def __init__(self, device):
        self.ps = [torch.randn(n, device=device) for n in (3, 8, 16)]

    def __call__(self, grads):
        norms = torch.stack(torch._foreach_norm(grads))
        scale = 1.0 / norms.norm().clamp(min=1.0)
        torch._foreach_add_(self.ps, torch._foreach_mul(grads, scale), alpha=-0.01)
        return [p.sum() for p in self.ps]


class GroupBy:
    def __init__(self, device):
        self.edges = torch.tensor([-1.0, 0.0, 1.0], device=device)
        self.out = torch.empty(16, 4, device=device)

    def __call__(self, x):
        bucket = torch.bucketize(x, self.edges)
        torch.mul(x, bucket, out=self.out)
        return torch.where(self.out > 0, self.out.log1p(), self.out), bucket.bitwise_xor(1)


class CacheWrite:
    """Writes keys at positions given as device tensors."""

    def __init__(self, device):
        self.k = torch.zeros(2, 4, 32, 8, device=device)

    @torch.no_grad()
    def __call__(self, k, q, slots):
        self.k.index_copy_(2, slots, k)
        live = torch.arange(32, device=q.device) <= slots.max()
        score = torch.einsum("bhqd,bhkd->bhqk", q, self.k).masked_fill(~live, float("-inf"))
        return score.softmax(-1) @ self.k


def build_per_sample(device):
    return PerSample().to(device), (torch.randn(6, 8, device=device), torch.randn(6, 4, device=device))


def build_pairwise(device):
    return pairwise, (torch.randn(5, 3, device=device), torch.randn(7, 3, device=device))


def build_causal(device):
    return CausalAttention().to(device).eval(), (torch.randn(2, 8, 32, device=device),)


def build_masked(device):
    keep = torch.tensor([[True] * 6 + [False] * 2, [True] * 8], device=device)
    return MaskedAttention().to(device).eval(), (torch.randn(2, 8, 32, device=device), keep)


def build_half_block(device):
    return HalfBlock().to(device), (torch.randn(4, 32, device=device),)


def build_beam(device):
    return BeamStep(device), (torch.randn(2, 4, 32, device=device),)


def build_nucleus(device):
    return nucleus, (torch.randn(4, 32, device=device) * 3,)


def build_graph_conv(device):
    edges = torch.randint(0, 10, (2, 40), device=device)
    return GraphConv().to(device), (torch.randn(10, 8, device=device), edges, torch.rand(40, device=device))


def build_codebook(device):
    return Codebook(device), (torch.randn(16, 8, device=device),)


def build_stft_loss(device):
    return StftLoss(device), (torch.randn(2, 256, device=device), torch.randn(2, 256, device=device))


def build_foreach(device):
    return ForeachStep(device), ([torch.randn(n, device=device) for n in (3, 8, 16)],)


def build_group_by(device):
    return GroupBy(device), (torch.randn(16, 4, device=device),)


def build_cache_write(device):
    return CacheWrite(device), (torch.randn(2, 4, 3, 8, device=device), torch.randn(2, 4, 1, 8, device=device), torch.tensor([4, 9, 17], device=device))

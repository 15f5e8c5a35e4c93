"""Vision, language and graph steps that lean on less common operators."""
import torch
import torch.nn.functional as F
from torch import nn


class VocabularyFilter(nn.Module):
    """Drops the logits of candidates that stand on a block list."""

    def __init__(self, device, entries, distinct):
        super().__init__()
        self.embed = nn.Embedding(500, 12, device=device)
        self.register_buffer("blocked", torch.randperm(500)[:entries].to(device))
        self.distinct = distinct

    @torch.no_grad()
    def forward(self, candidates, query):
        logits = self.embed(candidates) @ query
        hit = torch.isin(candidates, self.blocked, assume_unique=self.distinct)
        return logits.masked_fill(hit, -30.0).softmax(-1)


def build_vocabulary_filter(device):
    return VocabularyFilter(device, 180, False), (torch.randint(0, 500, (64,), device=device), torch.randn(12, device=device))


def build_candidate_filter(device):
    return VocabularyFilter(device, 180, True), (torch.randperm(500)[:64].to(device), torch.randn(12, device=device))


class MeshSmoothing:
    """Weighted Laplacian smoothing; the edges of a mesh are fixed, their weights come from the caller."""

    def __init__(self, device):
        self.edges = torch.randint(0, 30, (2, 120), device=device)

    @torch.no_grad()
    def __call__(self, weight, position):
        w = torch.sparse_coo_tensor(self.edges, weight, (30, 30))
        total = torch.zeros(30, 1, device=weight.device).index_add_(0, self.edges[0], weight[:, None])
        return torch.sparse.mm(w, position) / (total + 1.0)


def build_mesh_smoothing(device):
    return MeshSmoothing(device), (torch.rand(120, device=device), torch.randn(30, 3, device=device))


class Captioner(nn.Module):
    """A small encoder over patches followed by a readout."""

    def __init__(self, device, **hints):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(9, device=device))
        self.readout = nn.Linear(16, 11, device=device)
        self.hints = hints

    @torch.no_grad()
    def forward(self, patches):
        return self.readout(self.encoder(patches, mask=self.mask, **self.hints))


def build_captioner(device):
    return Captioner(device), (torch.randn(2, 9, 16, device=device),)


def build_captioner_hinted(device):
    return Captioner(device, is_causal=False), (torch.randn(2, 9, 16, device=device),)


class WalkCounter:
    """Counts the walks of three hops between nodes of a graph given as neighbour lists."""

    def __init__(self, device, exact):
        self.nodes = 18
        self.feature = torch.randn(18, 5, device=device)
        self.dtype = torch.int64 if exact else torch.float64

    @torch.no_grad()
    def __call__(self, neighbours):
        hop = F.one_hot(neighbours, self.nodes).sum(1).to(self.dtype)
        walks = hop @ hop @ hop
        share = walks.float() / walks.sum(1, keepdim=True).float()
        return share @ self.feature


def build_walk_counter(device):
    return WalkCounter(device, True), (torch.randint(0, 18, (18, 4), device=device),)


def build_walk_counter_double(device):
    return WalkCounter(device, False), (torch.randint(0, 18, (18, 4), device=device),)


class RobustDenoise(nn.Module):
    """Median over a burst of frames, then a learned sharpening; the run must be reproducible."""

    def __init__(self, device, by_rank):
        super().__init__()
        torch.use_deterministic_algorithms(True)
        self.by_rank = by_rank
        self.sharpen = nn.Parameter(torch.randn(1, 1, 3, 3, device=device) / 9)

    @torch.no_grad()
    def forward(self, burst):
        if self.by_rank:
            base = burst.sort(dim=1).values[:, burst.shape[1] // 2]
        else:
            base = burst.median(dim=1).values
        padded = F.pad(base[:, None], (1, 1, 1, 1))
        edges = padded.unfold(2, 3, 1).unfold(3, 3, 1)
        return base + (edges * self.sharpen[:, :, None, None]).sum((-1, -2))[:, 0]


def build_robust_denoise(device):
    return RobustDenoise(device, False), (torch.rand(2, 5, 12, 12, device=device),)


def build_robust_denoise_sorted(device):
    return RobustDenoise(device, True), (torch.rand(2, 5, 12, 12, device=device),)

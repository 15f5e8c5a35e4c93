"""Steps with checks, conversions and library calls."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal
from torch.nn.utils.rnn import pack_padded_sequence


def stop_if_same(x, y):
    if torch.equal(x, y):
        return x
    return 0.5 * (x + y)


def positive_log(x):
    assert (x > -10).all(), "out of range"
    return torch.log1p(x.abs())


class GaussianHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        mean, scale = self.fc(x).chunk(2, -1)
        d = Normal(mean, F.softplus(scale) + 1e-3)
        return d.log_prob(mean + 0.1).sum(-1)


class UncheckedGaussianHead(GaussianHead):
    def forward(self, x):
        mean, scale = self.fc(x).chunk(2, -1)
        d = Normal(mean, F.softplus(scale) + 1e-3, validate_args=False)
        return d.log_prob(mean + 0.1).sum(-1) + d.rsample().mean()


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return self.rnn(packed)[1][-1]


class Chunks:
    def __call__(self, x, bounds):
        return torch.stack([c.sum(0) for c in torch.tensor_split(x, bounds.cpu())])


def one_hot_labels(labels):
    return F.one_hot(labels).float().mean(0)[:2]


def one_hot_sized(labels):
    return F.one_hot(labels, 8).float().mean(0)


class Spectral:
    def __call__(self, x):
        w, _ = torch.linalg.eigh(x @ x.t())
        return w[-2:]


def labelled(x):
    name = "hot" if "e+" in f"{x.abs().max().item():.1e}" else "cold"
    return x * (0.5 if name == "hot" else 1.0)


class Best:
    def __call__(self, candidates):
        best = max(candidates, key=lambda c: c.square().sum())
        return best * 1.0


class BestStacked:
    def __call__(self, candidates):
        every = torch.stack(tuple(candidates))
        return every.index_select(0, every.square().sum(-1).argmax().view(1))[0]


class Pruner:
    def __init__(self, device):
        self.w = torch.randn(8, 8, device=device)

    def __call__(self, x):
        mask = self.w.abs() > x.abs().mean()
        sparse = (self.w * mask).to_sparse()
        return torch.sparse.mm(sparse, x)


class ClippedFit:
    def __init__(self, device):
        self.net = nn.Linear(8, 2).to(device)

    def __call__(self, x):
        for p in self.net.parameters():
            p.grad = None
        loss = self.net(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, error_if_nonfinite=True)
        return loss.detach(), self.net.weight.grad.clone()


class Tensordot:
    def __init__(self, device):
        self.a = torch.randint(0, 5, (4, 6), device=device)

    def __call__(self, x):
        return torch.tensordot(self.a, x, dims=([1], [0]))


def einsum_ints(x, y):
    return torch.einsum("bi,ij->bj", x, y)


def inner_floats(x, y):
    return torch.einsum("bi,ij->bj", x.float(), y.float()).round().long()


class Image2d:
    def __call__(self, img, kernel):
        return F.conv2d(img, kernel)


class Approximate(nn.Module):
    """Uses a cheaper formula while a graph is recorded."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        h = self.fc(x)
        if torch.cuda.is_current_stream_capturing():
            return h * torch.sigmoid(1.702 * h)
        return F.gelu(h)


class Quieter(nn.Module):
    """Leaves out a statistic that only the host would read while a graph is recorded."""

    def __init__(self):
        super().__init__()
        self.fc, self.last = nn.Linear(8, 8), 0.0

    def forward(self, x):
        h = self.fc(x)
        if not torch.cuda.is_current_stream_capturing():
            self.last = h.detach().abs().max().item()
        return F.gelu(h)


def build_stop_if_same(device):
    return stop_if_same, (torch.randn(4, 8, device=device), torch.randn(4, 8, device=device))


def build_positive_log(device):
    return positive_log, (torch.randn(4, 8, device=device),)


def build_gaussian_head(device):
    return GaussianHead().to(device), (torch.randn(4, 8, device=device),)


def build_unchecked_gaussian_head(device):
    return UncheckedGaussianHead().to(device), (torch.randn(4, 8, device=device),)


def build_packed_rnn(device):
    return Packed().to(device), (torch.randn(3, 6, 8, device=device), torch.tensor([6, 2, 4], device=device))


def build_chunks(device):
    return Chunks(), (torch.randn(12, 4, device=device), torch.tensor([3, 7], device=device))


def build_one_hot_labels(device):
    return one_hot_labels, (torch.randint(1, 8, (16,), device=device),)


def build_one_hot_sized(device):
    return one_hot_sized, (torch.randint(0, 8, (16,), device=device),)


def build_spectral_embed(device):
    return Spectral(), (torch.randn(8, 8, device=device),)


def build_labelled(device):
    return labelled, (torch.randn(4, 8, device=device),)


def build_best_of(device):
    return Best(), ([torch.randn(8, device=device) for _ in range(4)],)


def build_best_stacked(device):
    return BestStacked(), ([torch.randn(8, device=device) for _ in range(4)],)


def build_pruner(device):
    return Pruner(device), (torch.randn(8, 8, device=device),)


def build_clipped_fit(device):
    return ClippedFit(device), (torch.randn(4, 8, device=device),)


def build_tensordot_ints(device):
    return Tensordot(device), (torch.randint(0, 5, (6, 3), device=device),)


def build_einsum_ints(device):
    return einsum_ints, (torch.randint(0, 5, (4, 6), device=device), torch.randint(0, 5, (6, 3), device=device))


def build_inner_floats(device):
    return inner_floats, (torch.randint(0, 5, (4, 6), device=device), torch.randint(0, 5, (6, 3), device=device))


def build_image_ints(device):
    return Image2d(), (torch.randint(0, 9, (1, 1, 8, 8), device=device), torch.randint(-2, 3, (1, 1, 3, 3), device=device))


def build_capture_aware(device):
    return Approximate().to(device), (torch.randn(4, 8, device=device) * 2,)


def build_quieter(device):
    return Quieter().to(device), (torch.randn(4, 8, device=device),)

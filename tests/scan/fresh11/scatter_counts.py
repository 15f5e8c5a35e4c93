"""Token histogram and load-balancing loss without any read by the host."""
import torch
import torch.nn as nn


class LoadBalance(nn.Module):
    def __init__(self, dim: int, experts: int, tokens: int):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = experts
        self.register_buffer("ones", torch.ones(tokens))
        self.register_buffer("load", torch.zeros(experts))
        self.register_buffer("total", torch.zeros(()))

    def count(self, choice: torch.Tensor) -> torch.Tensor:
        self.load.zero_()
        self.load.scatter_add_(0, choice, self.ones)
        return self.load

    def forward(self, x):
        prob = self.gate(x).softmax(-1)
        choice = prob.argmax(-1)
        share = self.count(choice) / x.shape[0]
        loss = self.experts * (share * prob.mean(0)).sum()
        self.total.add_(loss)
        active = torch.where(share > 0.1, share, torch.zeros_like(share))
        return loss, active, self.total.clone()


class Audited(nn.Module):
    """Adds shape checks that only look at what the host knows already."""

    def __init__(self, inner: nn.Module, dim: int, strict: bool = True):
        super().__init__()
        self.inner, self.dim, self.strict = inner, dim, strict

    def forward(self, x):
        if self.strict and (x.ndim != 2 or x.shape[-1] != self.dim):
            raise ValueError(f"expected rows of {self.dim}, got {tuple(x.shape)}")
        return self.inner(x)


def build(device):
    torch.manual_seed(51)
    model = Audited(LoadBalance(16, 6, 64), 16).to(device).requires_grad_(False)
    return model, (torch.randn(64, 16, device=device),)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    print(fn(*args))

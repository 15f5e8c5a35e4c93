"""PPO from human feedback with an adaptive KL weight: the weight is a float in a class attribute."""
import torch

import graphsafe


class AdaptiveKL:
    value = 0.2
    target = 0.05

    @classmethod
    def update(cls, current):
        error = min(max(current / cls.target - 1, -0.2), 0.2)
        cls.value *= 1 + 0.5 * error


class Policy(torch.nn.Module):
    def __init__(self, dim=6, vocab=9):
        super().__init__()
        self.head = torch.nn.Linear(dim, vocab)
        self.frozen = torch.nn.Linear(dim, vocab).requires_grad_(False)
        self.register_buffer("kl", torch.zeros(()))

    def forward(self, hidden, score):
        ours, theirs = torch.log_softmax(self.head(hidden), -1), torch.log_softmax(self.frozen(hidden), -1)
        kl = (ours.exp() * (ours - theirs)).sum(-1)
        self.kl.copy_(kl.detach().mean())
        reward = score - AdaptiveKL.value * kl.detach()
        loss = AdaptiveKL.value * kl.mean() - (reward.unsqueeze(1) * ours.exp().pow(2)).mean()
        grads = torch.autograd.grad(loss, list(self.head.parameters()))
        with torch.no_grad():
            for p, g in zip(self.head.parameters(), grads, strict=True):
                p.sub_(g, alpha=0.05)
        return reward, loss.detach()


def build(device):
    policy = Policy().to(device)
    AdaptiveKL.value = 0.2

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(5, 6))
        args[1].copy_(torch.rand(5))
        if k % 10 == 9:
            AdaptiveKL.update(policy.kl.item())

    return graphsafe.Step(
        policy, (torch.randn(5, 6, device=device), torch.rand(5, device=device)), refresh=refresh
    )

"""PPO update whose forward and backward run from one captured graph."""
from __future__ import annotations

import dataclasses
from typing import Iterator

import torch
from torch import nn
from torch.distributions import Categorical


@dataclasses.dataclass
class Minibatch:
    obs: torch.Tensor
    actions: torch.Tensor
    old_logp: torch.Tensor
    advantage: torch.Tensor
    returns: torch.Tensor


class RolloutStore:
    def __init__(self, size: int, obs_dim: int, actions: int, device):
        self.size = size
        self.data = Minibatch(
            torch.randn(size, obs_dim, device=device),
            torch.randint(0, actions, (size,), device=device),
            torch.full((size,), -1.3, device=device),
            torch.randn(size, device=device),
            torch.randn(size, device=device),
        )

    def minibatches(self, rows: int) -> Iterator[Minibatch]:
        order = torch.randperm(self.size, device=self.data.obs.device)
        for start in range(0, self.size, rows):
            pick = order[start : start + rows]
            yield Minibatch(*(getattr(self.data, f.name)[pick] for f in dataclasses.fields(Minibatch)))


class ActorCritic(nn.Module):
    def __init__(self, obs_dim: int, actions: int, width: int = 64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, actions)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class PolicyTrainer:
    def __init__(self, net: ActorCritic, first: Minibatch, lr: float = 3e-4, target_kl: float = 0.02):
        self.net = net
        self.batch = first
        self.opt = torch.optim.AdamW(net.parameters(), lr=lr)
        self.target_kl = target_kl
        self.entropy_coef = 0.01
        self.losses: list[torch.Tensor] = []
        self.graph = torch.cuda.CUDAGraph()

    def _forward_backward(self) -> tuple[torch.Tensor, torch.Tensor]:
        b = self.batch
        logits, value = self.net(b.obs)
        dist = Categorical(logits=logits, validate_args=False)
        logp = dist.log_prob(b.actions)
        ratio = (logp - b.old_logp).exp()
        clipped = ratio.clamp(0.8, 1.2)
        pg = -torch.minimum(ratio * b.advantage, clipped * b.advantage).mean()
        vf = (value - b.returns).square().mean()
        loss = pg + 0.5 * vf - self.entropy_coef * dist.entropy().mean()
        loss.backward()
        return loss, (b.old_logp - logp).mean()

    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.opt.zero_grad(set_to_none=True)
                self._forward_backward()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss, self.kl = self._forward_backward()

    def update(self, minibatch: Minibatch) -> bool:
        self.batch = minibatch
        self.opt.zero_grad()
        self.graph.replay()
        nn.utils.clip_grad_norm_([p for p in self.net.parameters() if p.grad is not None], 0.5)
        self.opt.step()
        self.losses.append(self.loss.detach())
        return self.kl < self.target_kl

    def anneal(self, progress: float) -> None:
        self.entropy_coef = 0.01 * (1.0 - progress)


def train(device="cuda", epochs: int = 4, rows: int = 32):
    torch.manual_seed(0)
    store = RolloutStore(256, 8, 4, device)
    net = ActorCritic(8, 4).to(device)
    trainer = PolicyTrainer(net, next(store.minibatches(rows)))
    trainer.capture()
    for epoch in range(epochs):
        for minibatch in store.minibatches(rows):
            if not trainer.update(minibatch):
                break
        trainer.anneal((epoch + 1) / epochs)
    return torch.stack(trainer.losses).mean()


if __name__ == "__main__":
    print(float(train()))

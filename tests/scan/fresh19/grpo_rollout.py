"""Group-relative policy optimisation on a toy token game: graphed rollouts, eager updates."""
from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn


class Policy(nn.Module):
    def __init__(self, vocab: int, hidden: int):
        super().__init__()
        self.table = nn.Embedding(vocab, hidden)
        self.core = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, tok, h):
        h = self.core(self.table(tok), h)
        return self.head(h), h


class Rollout:
    def __init__(self, policy: Policy, group: int, hidden: int, dev: torch.device):
        self.policy = policy
        self.temperature = 1.0
        self.tok = torch.zeros(group, dtype=torch.long, device=dev)
        self.h = torch.zeros(group, hidden, device=dev)
        self.pool_stream = torch.cuda.Stream(dev)
        self.graph: torch.cuda.CUDAGraph | None = None
        self._prepare()

    def _one(self):
        logits, h = self.policy(self.tok, self.h)
        logp = F.log_softmax(logits / self.temperature, dim=-1)
        gumbel = -torch.log(-torch.log(torch.rand_like(logp).clamp(1e-6, 1 - 1e-6)))
        pick = (logp + gumbel).argmax(-1)
        self.tok.copy_(pick)
        self.h.copy_(h)
        return pick, logp.gather(1, pick[:, None]).squeeze(1)

    @torch.no_grad()
    def _prepare(self):
        self.pool_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.pool_stream):
            for _ in range(2):
                self._one()
        torch.cuda.current_stream().wait_stream(self.pool_stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.pool_stream):
            self.pick, self.logp = self._one()

    def episode(self, prompt: torch.Tensor, steps: int):
        self.tok.copy_(prompt)
        self.h.zero_()
        picks, logps = [], []
        for _ in range(steps):
            self.graph.replay()
            picks.append(self.pick.clone())
            logps.append(self.logp)
        return torch.stack(picks), torch.stack(logps)

    def sync_from(self, learner: Policy) -> None:
        fresh = copy.deepcopy(learner.state_dict())
        for name, param in self.policy.named_parameters():
            param.data = fresh[name]

    def cool(self, progress: float) -> None:
        self.temperature = max(0.3, 1.0 - progress)


def reward_of(picks: torch.Tensor) -> torch.Tensor:
    return (picks % 3 == 0).float().mean(0)


def main():
    dev = torch.device("cuda")
    torch.manual_seed(0)
    learner = Policy(24, 16).to(dev)
    actor = Rollout(copy.deepcopy(learner), 8, 16, dev)
    opt = torch.optim.AdamW(learner.parameters(), lr=3e-3)
    history = torch.zeros(12, device=dev)
    for it in range(12):
        prompt = torch.randint(0, 24, (8,), device=dev)
        picks, old = actor.episode(prompt, steps=6)
        reward = reward_of(picks)
        adv = (reward - reward.mean()) / (reward.std() + 1e-4)
        h, tok, loss = torch.zeros(8, 16, device=dev), prompt, 0.0
        for t in range(picks.shape[0]):
            logits, h = learner(tok, h)
            new = F.log_softmax(logits, -1).gather(1, picks[t][:, None]).squeeze(1)
            ratio = (new - old[t]).exp()
            loss = loss - torch.minimum(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
            tok = picks[t]
        opt.zero_grad()
        loss.backward()
        opt.step()
        history[it : it + 1].copy_(reward.mean().detach().reshape(1))
        actor.sync_from(learner)
        actor.cool(it / 12)
    print(history.tolist())


if __name__ == "__main__":
    main()

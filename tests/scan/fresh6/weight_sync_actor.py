"""Rollout actor: a captured policy whose weights arrive from the learner every few hundred steps."""
from __future__ import annotations

import logging
import queue

import torch
from torch import nn

log = logging.getLogger(__name__)


class ObsNorm:
    def __init__(self, width: int, device, decay: float = 0.995):
        self.decay = decay
        self.mean = torch.zeros(width, device=device)
        self.var = torch.ones(width, device=device)

    def __call__(self, obs):
        return (obs - self.mean) * torch.rsqrt(self.var + 1e-5)

    def update(self, obs: torch.Tensor) -> None:
        batch_mean = obs.mean(0)
        self.mean = torch.lerp(batch_mean, self.mean, self.decay)
        self.var.lerp_((obs - batch_mean).square().mean(0), 1 - self.decay)


class Policy(nn.Module):
    def __init__(self, obs: int, actions: int, width: int = 256):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.pi = nn.Linear(width, actions)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class Actor:
    def __init__(self, envs: int, obs: int, actions: int, inbox: queue.Queue, device="cuda"):
        self.policy = Policy(obs, actions).to(device).eval().requires_grad_(False)
        self.norm = ObsNorm(obs, device)
        self.inbox = inbox
        self.device = device
        self.obs = torch.zeros(envs, obs, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.actions = self.values = None
        self._capture()

    def _act(self):
        logits, value = self.policy(self.norm(self.obs))
        gumbel = -torch.empty_like(logits).exponential_().log()
        return (logits + gumbel).argmax(-1), value

    def _capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._act()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.actions, self.values = self._act()
            self.graph = graph
        except Exception:
            self.graph = None

    def _sync_weights(self) -> None:
        try:
            state = self.inbox.get_nowait()
        except queue.Empty:
            return
        self.policy.load_state_dict({k: v.to(self.device) for k, v in state.items()}, assign=True)
        log.info("took over %d tensors", len(state))

    def act(self, obs: torch.Tensor):
        self._sync_weights()
        self.obs.copy_(obs)
        if self.graph is None:
            return self._act()
        self.graph.replay()
        return self.actions.clone(), self.values.clone()


def rollout(actor: Actor, env, steps: int):
    obs = env.reset()
    returns = torch.zeros(actor.obs.shape[0], device=actor.device)
    for step in range(steps):
        actions, values = actor.act(obs)
        actor.norm.update(obs)
        obs, reward, done = env.step(actions)
        returns += reward
        if done.any():
            obs = env.reset_where(done)
        if step % 100 == 0:
            log.info("step %d of %d", step, steps)
    return returns

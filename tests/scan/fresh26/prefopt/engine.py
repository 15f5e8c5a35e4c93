"""Captured preference-optimisation step with a periodically refreshed reference model."""
import copy

import torch
import torch.nn.functional as F

from .policy import sequence_logp


class KLController:
    """Keeps the policy near the reference: the penalty follows the measured divergence."""

    def __init__(self, beta=0.1, target=0.5, gain=1.15, bounds=(0.02, 0.8)):
        self.beta = beta
        self.target = target
        self.gain = gain
        self.bounds = bounds

    def feed(self, divergence):
        factor = self.gain if divergence > self.target else 1.0 / self.gain
        self.beta = min(max(self.beta * factor, self.bounds[0]), self.bounds[1])


class PairBuffers:
    def __init__(self, pairs, length, device):
        self.ids = torch.zeros(2 * pairs, length, dtype=torch.long, device=device)
        self.mask = torch.zeros(2 * pairs, length, device=device)
        self.pairs = pairs

    def load(self, chosen, rejected):
        self.ids[: self.pairs].copy_(chosen[0])
        self.ids[self.pairs:].copy_(rejected[0])
        self.mask[: self.pairs].copy_(chosen[1])
        self.mask[self.pairs:].copy_(rejected[1])


class PreferenceEngine:
    def __init__(self, policy, pairs, length, device, lr=0.05, refresh_every=4):
        self.policy = policy
        self.reference = copy.deepcopy(policy).requires_grad_(False)
        self.control = KLController()
        self.refresh_every = refresh_every
        self.buffers = PairBuffers(pairs, length, device)
        self.opt = torch.optim.SGD(policy.parameters(), lr=lr)
        self.graph = None
        self.steps = 0

    def _step(self):
        pairs = self.buffers.pairs
        mine = sequence_logp(self.policy, self.buffers.ids, self.buffers.mask)
        with torch.no_grad():
            theirs = sequence_logp(self.reference, self.buffers.ids, self.buffers.mask)
        ratio = mine - theirs
        margin = self.control.beta * (ratio[:pairs] - ratio[pairs:])
        loss = -F.logsigmoid(margin).mean()
        self.opt.zero_grad(set_to_none=False)
        loss.backward()
        self.opt.step()
        return loss.detach(), ratio.detach().abs().mean()

    def record(self):
        weights = [p.detach().clone() for p in self.policy.parameters()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss, self.divergence = self._step()
        with torch.no_grad():
            for p, w in zip(self.policy.parameters(), weights):
                p.copy_(w)

    def train_batch(self, chosen, rejected):
        self.buffers.load(chosen, rejected)
        self.graph.replay()
        self.steps += 1
        self.control.feed(self.divergence.item())
        if self.steps % self.refresh_every == 0:
            self.sync_reference()
        return self.loss.clone()

    def sync_reference(self):
        self.reference = copy.deepcopy(self.policy).requires_grad_(False)
        self.control.target *= 0.9

"""Agents, ratings and simulated boards."""
import collections
import dataclasses
import gc
import heapq
import logging

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("games")


class EventBoard:
    """Timed effects wait in a heap; the earliest one is in force until it is due."""

    def __init__(self, device):
        self.turn = 0
        self.effects = [(40, 0, 1.0), (55, 1, 0.3), (110, 2, 1.6)]
        heapq.heapify(self.effects)
        self.health = torch.full((32,), 5.0, device=device)

    def __call__(self, damage):
        self.turn += 1
        due, order, power = self.effects[0]
        if self.turn >= due:
            heapq.heapreplace(self.effects, (self.turn + 60 + order, order, power))
        self.health.mul_(0.9).add_(0.5).sub_(damage * power, alpha=0.1)
        return self.health.clamp(min=0.0)


def build_event_board(device):
    return EventBoard(device), (torch.rand(32, device=device),)


class EpsilonGreedy(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.net = nn.Linear(10, 6, device=device)
        self.epsilon = 1.0

    @torch.no_grad()
    def forward(self, observation):
        best = self.net(observation).argmax(-1)
        roll = torch.rand(observation.shape[0], 2, device=observation.device)
        explore = roll[:, 0] < self.epsilon
        self.epsilon = max(0.05, self.epsilon * 0.99)
        return torch.where(explore, (roll[:, 1] * 6).long(), best)


def build_epsilon_greedy(device):
    return EpsilonGreedy(device), (torch.randn(256, 10, device=device),)


class RatingPool:
    def __init__(self, players, device):
        self.rating = torch.zeros(players, device=device)
        self.sweeps = gc.get_stats()[0]["collections"]

    def __call__(self, scores):
        gc.collect(0)
        provisional = gc.get_stats()[0]["collections"] - self.sweeps < 220
        expected = torch.sigmoid(self.rating.unsqueeze(0) - self.rating.unsqueeze(1)).mean(0)
        self.rating.mul_(0.95).add_(scores - expected, alpha=0.8 if provisional else 0.2)
        return self.rating.clone()


def build_rating_pool(device):
    return RatingPool(24, device), (torch.rand(24, device=device),)


class ValueHead(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.net = nn.Linear(9, 1, device=device)
        self.transcript = collections.deque(maxlen=20)

    @torch.no_grad()
    def forward(self, boards):
        values = torch.tanh(self.net(boards)).squeeze(-1)
        best = values.max()
        self.transcript.append(f"best line {best:+.3f} of {boards.shape[0]}")
        return values - best


def build_value_head(device):
    return ValueHead(device), (torch.randn(14, 9, device=device),)


def build_minimax(device):
    weights = torch.randn(3, 8, device=device)

    def step(position):
        branches = [weights[i] * position for i in range(3)]
        replies = [torch.stack([b.sum(), b.square().mean(), -b.abs().max()]).min() for b in branches]
        chosen = max(replies)
        return chosen + 0.1 * position.mean()

    return step, (torch.randn(8, device=device),)


@dataclasses.dataclass(frozen=True)
class Stage:
    number: int = 1
    left: int = 30

    def after(self):
        if self.left > 1:
            return dataclasses.replace(self, left=self.left - 1)
        return Stage(self.number + 1, 30)


class Curriculum:
    def __init__(self, device):
        self.stage = Stage()
        self.walls = torch.rand(12, 12, device=device)

    def __call__(self, agents):
        density = min(0.9, 0.1 * self.stage.number)
        open_cells = (self.walls > density).float()
        self.stage = self.stage.after()
        return agents @ open_cells


def build_curriculum(device):
    return Curriculum(device), (torch.rand(4, 12, device=device),)


class LifeBoard:
    def __init__(self, size, device):
        self.now = (torch.rand(1, 1, size, size, device=device) > 0.6).float()
        self.then = torch.empty_like(self.now)
        kernel = np.ones((1, 1, 3, 3), dtype=np.float32)
        kernel[0, 0, 1, 1] = 0.0
        self.kernel = torch.from_numpy(kernel).to(device)

    def __call__(self, seeds):
        around = F.conv2d(F.pad(self.now, (1, 1, 1, 1), mode="circular"), self.kernel).round()
        alive = (around == 3) | ((around == 2) & (self.now > 0.5)) | seeds
        self.then.copy_(alive)
        self.now.copy_(self.then)
        return self.now.sum((2, 3)), self.then[0, 0, ::2].clone()


def build_life_board(device):
    return LifeBoard(24, device), (torch.rand(1, 1, 24, 24, device=device) > 0.97,)


class EpisodeStore:
    def __init__(self, device, room=64):
        self.frames = torch.zeros(room, 6, device=device)
        self.count = torch.zeros(1, dtype=torch.long, device=device)
        self.pushed = 0

    def __call__(self, frame):
        self.pushed += 1
        self.frames.index_copy_(0, self.count % self.frames.shape[0], frame.unsqueeze(0))
        self.count += 1
        picks = torch.rand(16, device=frame.device) * self.count.clamp(max=self.frames.shape[0])
        return self.frames.index_select(0, picks.long().clamp(max=self.frames.shape[0] - 1))


def build_episode_store(device):
    return EpisodeStore(device), (torch.randn(6, device=device),)


class BanditTree:
    def __init__(self, arms, device):
        self.visits = torch.ones(arms, dtype=torch.int64, device=device)
        self.value = torch.zeros(arms, device=device)
        self.told = collections.Counter()

    def __call__(self, payouts, legal):
        bonus = torch.sqrt(torch.log(self.visits.sum().float()) / self.visits)
        score = (self.value + bonus).masked_fill(~legal, float("-inf"))
        picked = F.one_hot(score.argmax(), self.visits.numel())
        self.visits += picked
        self.value += picked * (payouts - self.value) / self.visits
        self.told[tuple(payouts.shape)] += 1
        if log.isEnabledFor(logging.DEBUG):
            log.debug("visits %s", self.visits.tolist())
        return picked, self.visits.clone()


def build_bandit_tree(device):
    legal = torch.arange(8, device=device) != 3
    return BanditTree(8, device), (torch.rand(8, device=device), legal)


class TileRunner(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.register_buffer("mode", torch.zeros(20, dtype=torch.long, device=device))
        self.register_buffer("energy", torch.full((20,), 3.0, device=device))
        self.register_forward_pre_hook(lambda module, args: setattr(module, "last_width", args[0].shape[-1]))
        self.last_width = 0

    @torch.no_grad()
    def forward(self, push):
        tired = self.energy < 1.0
        rested = self.energy > 4.0
        self.mode.copy_(torch.where(tired, 1, torch.where(rested, 0, self.mode)))
        gain = torch.where(self.mode == 1, 0.4, -0.2)
        self.energy.add_(gain).add_(push, alpha=0.05).clamp_(0.0, 5.0)
        return self.mode.clone(), self.energy * 1.0


def build_tile_runner(device):
    return TileRunner(device), (torch.randn(20, device=device),)

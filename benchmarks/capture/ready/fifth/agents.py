"""Controllers, explorers and replay memories."""

import collections
import contextvars
import dataclasses
import enum
import random
import threading
import time

import torch
import torch.nn as nn

_EPISODE_STEP = contextvars.ContextVar("episode_step", default=0)
_ROOM = threading.local()


# --- target network, refreshed by the clock -------------------------------------------------------------------------
class TimedTarget:
    """The target network follows the online one every five minutes."""

    def __init__(self, device, states=6, actions=3, period=300.0):
        self.online = torch.randn(states, actions, device=device) * 0.3
        self.target = self.online.clone()
        self.period = period
        self.due = time.monotonic() + period

    def __call__(self, state, reward):
        if time.monotonic() >= self.due:
            self.target.copy_(self.online)
            self.due += self.period
        value = (state @ self.target).amax(-1)
        error = reward + 0.9 * value - (state @ self.online).amax(-1)
        self.online.add_(state.t() @ error[:, None].expand(-1, self.online.shape[1]), alpha=0.01)
        self.online.clamp_(-2, 2)
        return value, error.square().mean()


def build_timed_target(device):
    return TimedTarget(device), (torch.randn(8, 6, device=device), torch.rand(8, device=device))


# --- probing episodes -----------------------------------------------------------------------------------------------
class ProbingPolicy(nn.Module):
    """Every so often the policy acts uniformly, to see what it would otherwise never see."""

    def __init__(self, states=5, actions=4, horizon=24):
        super().__init__()
        self.net = nn.Linear(states, actions)
        self.horizon = horizon

    def greedy(self, state):
        return torch.softmax(self.net(state), dim=-1)

    def probe(self, state):
        return torch.softmax(self.net(state) * 0.0 + state[:, :1] * 0.1, dim=-1)

    @torch.no_grad()
    def forward(self, state):
        at = _EPISODE_STEP.get()
        _EPISODE_STEP.set(at + 1)
        act = self.probe if at % self.horizon == self.horizon - 1 else self.greedy
        return act(state) + 0.01 * state[:, 1:2]


def build_probing_policy(device):
    _EPISODE_STEP.set(0)
    return ProbingPolicy().to(device), (torch.randn(7, 5, device=device),)


# --- attention budget with moving cuts ------------------------------------------------------------------------------
class BudgetSplitter:
    """Shares the budget between three goals; the cuts are a schedule kept beside the controller, off the device."""

    def __init__(self):
        self.cuts = torch.tensor([4, 10])
        self.early, self.late = torch.tensor([4, 10]), torch.tensor([6, 9])
        self.tick = torch.zeros((), dtype=torch.long)

    def __call__(self, budget):
        self.tick.add_(1)
        self.cuts.copy_(torch.where(self.tick.remainder(48) < 24, self.early, self.late))
        shares = torch.tensor_split(budget, self.cuts)
        return torch.stack([share.sum() for share in shares]), torch.cat([s / s.sum() for s in shares])


def build_budget_splitter(device):
    return BudgetSplitter(), (torch.rand(16, device=device) + 0.1,)


# --- exploration noise ----------------------------------------------------------------------------------------------
class GaussianExplorer(nn.Module):
    """Mean and spread both come from the state; actions are drawn on the device."""

    def __init__(self, states=6, actions=2):
        super().__init__()
        self.mean = nn.Linear(states, actions)
        self.log_std = nn.Linear(states, actions)

    @torch.no_grad()
    def forward(self, state):
        mean, std = torch.tanh(self.mean(state)), self.log_std(state).clamp(-3, 0).exp()
        action = torch.normal(mean, std)
        return action.clamp(-2, 2), (action - mean) / std


def build_gaussian_explorer(device):
    return GaussianExplorer().to(device), (torch.randn(9, 6, device=device),)


# --- advantage scaling ----------------------------------------------------------------------------------------------
class AdvantageScaler:
    """Scales advantages by their peak where the peak can be had, else leaves them."""

    def __init__(self, device):
        self.baseline = torch.zeros((), device=device)

    def __call__(self, returns):
        advantage = returns - self.baseline
        self.baseline.lerp_(returns.mean(), 0.1)
        try:
            peak = max(float(advantage.abs().max()), 1e-6)
        except RuntimeError:
            peak = 1.0
        return advantage / peak


def build_advantage_scaler(device):
    return AdvantageScaler(device), (torch.randn(20, device=device),)


# --- patience in a worker thread's locals ---------------------------------------------------------------------------
class PatientController:
    """After long service the controller is allowed its stronger gain; each worker thread counts for itself."""

    def __init__(self, device, n=6, patience=150):
        self.integral = torch.zeros(n, device=device)
        self.patience = patience

    def gain(self):
        _ROOM.turns = getattr(_ROOM, "turns", 0) + 1
        return 1.5 if _ROOM.turns > self.patience else 0.5

    def __call__(self, setpoint, measured):
        error = setpoint - measured
        self.integral.mul_(0.9).add_(error)
        return self.gain() * error + 0.1 * self.integral


def build_patient_controller(device):
    _ROOM.turns = 0
    return PatientController(device), (torch.randn(6, device=device), torch.randn(6, device=device))


# --- replay memory --------------------------------------------------------------------------------------------------
class ReplayMemory:
    """Ring and sampling both stay on the device; only a tally is kept by name."""

    def __init__(self, device, slots=24, width=5):
        self.ring = torch.zeros(slots, width, device=device)
        self.cursor = torch.zeros(1, dtype=torch.long, device=device)
        self.filled = torch.zeros(1, dtype=torch.long, device=device)
        self.tally = collections.Counter()

    def __call__(self, observation):
        self.ring.index_copy_(0, self.cursor, observation[None])
        self.cursor.add_(1).remainder_(self.ring.shape[0])
        self.filled.add_(1).clamp_(max=self.ring.shape[0])
        pick = (torch.rand(8, device=observation.device) * self.filled).long().clamp_(max=self.ring.shape[0] - 1)
        batch = self.ring.index_select(0, pick)
        self.tally["pushed"] += 1
        self.tally[f"batch{tuple(batch.shape)}"] += 1
        return batch.mean(0), (batch - observation).square().sum(-1)


def build_replay_memory(device):
    return ReplayMemory(device), (torch.randn(5, device=device),)


# --- phases on the device -------------------------------------------------------------------------------------------
class Phase(enum.IntEnum):
    SEARCH = 0
    APPROACH = 1
    GRASP = 2


class PhaseMachine(nn.Module):
    """Each robot walks through its phases by its own energy; no phase is ever looked at on the host."""

    def __init__(self, robots=10):
        super().__init__()
        self.register_buffer("phase", torch.zeros(robots, dtype=torch.long))
        self.register_buffer("energy", torch.zeros(robots))
        self.register_buffer("gains", torch.zeros(len(Phase)))
        for phase in Phase:
            self.gains[phase] = 0.5 + 0.25 * phase.value
        self.rounds = 0

    @torch.no_grad()
    def forward(self, drive):
        self.energy.mul_(0.9).add_(drive.abs() * self.gains[self.phase])
        full = self.energy > 2.0
        self.phase.copy_(torch.where(full, (self.phase + 1) % len(Phase), self.phase))
        self.energy.masked_fill_(full, 0.0)
        self.rounds = (self.rounds + 1) % 1000
        return self.phase.clone(), drive * self.gains[self.phase]


def build_phase_machine(device):
    return PhaseMachine().to(device), (torch.randn(10, device=device),)


# --- PID controller -------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class PidConfig:
    kp: float = 0.8
    ki: float = 0.2
    kd: float = 0.1
    limit: float = 1.5
    use_derivative: bool = True


class PidBank:
    def __init__(self, cfg, device, n=6):
        self.cfg = cfg
        self.integral = torch.zeros(n, device=device)
        self.last = torch.zeros(n, device=device)
        self.audit = {"calls": 0, "token": None, "at": 0.0}

    def __call__(self, setpoint, measured):
        cfg = self.cfg
        self.audit.update(calls=self.audit["calls"] + 1, token=random.random(), at=time.time())
        error = setpoint - measured
        out = cfg.kp * error + cfg.ki * self.integral
        if cfg.use_derivative:
            out = out + cfg.kd * (error - self.last)
        saturated = out.abs() > cfg.limit
        self.integral.add_(torch.where(saturated, torch.zeros_like(error), error)).clamp_(-10, 10)
        self.last.copy_(error)
        return out.clamp(-cfg.limit, cfg.limit), saturated


def build_pid_bank(device):
    return PidBank(PidConfig(), device), (torch.randn(6, device=device), torch.randn(6, device=device))


# --- quantised policy -----------------------------------------------------------------------------------------------
class QuantisedPolicy:
    """Activations go through int8 with a scale that follows the recent peak; scratch memory is made once."""

    def __init__(self, device, states=8, actions=4, batch=6):
        weight = torch.randn(states, actions, device=device)
        self.w_scale = weight.abs().amax() / 127
        self.w_int = (weight / self.w_scale).round().to(torch.int8)
        self.peak = torch.ones((), device=device)
        self.scratch = torch.empty(batch, states, device=device)
        self.dtypes_seen = set()

    @torch.no_grad()
    def __call__(self, state):
        torch.maximum(self.peak * 0.99, state.abs().amax(), out=self.peak)
        scale = self.peak / 127
        torch.div(state, scale, out=self.scratch)
        quantised = self.scratch.round_().clamp_(-127, 127).to(torch.int8)
        self.dtypes_seen.add(str(quantised.dtype))
        logits = quantised.to(torch.float32) @ self.w_int.to(torch.float32) * (scale * self.w_scale)
        return logits.to(torch.float16), quantised


def build_quantised_policy(device):
    return QuantisedPolicy(device), (torch.randn(6, 8, device=device),)

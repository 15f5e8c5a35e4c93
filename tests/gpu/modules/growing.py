"""State that is appended to, or bound anew, in every step."""

from collections import deque

import torch
from torch import nn


class AppendedKeys(nn.Module):
    """A key/value cache that is concatenated to."""

    def __init__(self, width, device):
        super().__init__()
        self.project = nn.Linear(width, width).to(device)
        self.keys = torch.zeros(1, width, device=device)

    @torch.no_grad()
    def forward(self, x):
        self.keys = torch.cat([self.keys, self.project(x)])  # guilty: appended_keys GS402|GS703
        return torch.softmax(x @ self.keys.T, dim=-1) @ self.keys


def build_appended_keys(device):
    return AppendedKeys(8, device), (torch.randn(1, 8, device=device),)


class PastStates(nn.Module):
    """Averages over all hidden states so far, which a list holds."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.past = []

    @torch.no_grad()
    def forward(self, x):
        self.past.append(torch.tanh(self.layer(x)))  # guilty: past_states GS402|GS703
        return torch.stack(self.past).mean(0)


def build_past_states(device):
    return PastStates(8).to(device), (torch.randn(2, 8, device=device),)


class FrameWindow(nn.Module):
    """The last four frames, in a deque that drops the oldest."""

    def __init__(self, device):
        super().__init__()
        self.frames = deque([torch.zeros(2, 8, device=device) for _ in range(4)], maxlen=4)

    def forward(self, frame):
        self.frames.append(frame * 0.5)  # guilty: frame_window GS703|GS402
        return torch.stack(tuple(self.frames)).sum(0)


def build_frame_window(device):
    return FrameWindow(device), (torch.randn(2, 8, device=device),)


class RunningMean(nn.Module):
    """Centres by a running mean that every step replaces."""

    def __init__(self, width, device):
        super().__init__()
        self.mean = torch.zeros(width, device=device)

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)  # guilty: running_mean GS703
        return x - self.mean


def build_running_mean(device):
    return RunningMean(8, device), (torch.randn(4, 8, device=device) + 1,)


class Recurrent(nn.Module):
    """A recurrent policy: its hidden state is the cell's last output."""

    def __init__(self, width, device):
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.hidden = torch.zeros(2, width, device=device)

    @torch.no_grad()
    def forward(self, observation):
        self.hidden = self.cell(observation, self.hidden)  # guilty: recurrent GS703
        return self.hidden.argmax(-1), self.hidden


def build_recurrent(device):
    return Recurrent(8, device).to(device), (torch.randn(2, 8, device=device),)


class ConvolutionState(nn.Module):
    """The last columns of a causal convolution, in a dictionary by layer."""

    def __init__(self, width, device):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, 3, device=device), requires_grad=False)
        self.states = {"conv": torch.zeros(width, 3, device=device)}

    def forward(self, column):
        shifted = torch.cat([self.states["conv"][:, 1:], column.unsqueeze(1)], dim=1)
        self.states["conv"] = shifted  # guilty: convolution_state GS703
        return (shifted * self.weight).sum(1)


def build_convolution_state(device):
    return ConvolutionState(8, device), (torch.randn(8, device=device),)


class CallerState(nn.Module):
    """A state-space layer that hands its state back through the caller's list."""

    def __init__(self, width):
        super().__init__()
        self.decay = nn.Parameter(torch.rand(width), requires_grad=False)

    def forward(self, x, states):
        states[0] = states[0] * self.decay + x  # guilty: caller_state GS703
        return torch.tanh(states[0])


def build_caller_state(device):
    return CallerState(8).to(device), (torch.randn(2, 8, device=device), [torch.zeros(2, 8, device=device)])


def change_observation(args, kwargs, k):
    args[0].normal_()


class DecayedWeight(nn.Module):
    """A fast weight whose storage is replaced through `.data`."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width), requires_grad=False)

    def forward(self, x):
        y = x @ self.weight
        self.weight.data = 0.9 * self.weight.data + 0.01 * x.T @ y  # guilty: decayed_weight GS703
        return y


def build_decayed_weight(device):
    return DecayedWeight(8).to(device), (torch.randn(4, 8, device=device),)


class CorrelatedNoise(nn.Module):
    """Noise of this step mixed with that of the step before, which is then let go."""

    def __init__(self, device):
        super().__init__()
        self.noise = torch.randn(4, 8, device=device)

    def forward(self, x):
        before, self.noise = self.noise, torch.randn_like(x)  # guilty: correlated_noise GS703
        return x + 0.8 * before + 0.6 * self.noise


def build_correlated_noise(device):
    return CorrelatedNoise(device), (torch.randn(4, 8, device=device),)


class PingPong(nn.Module):
    """A stencil that reads one buffer, writes the other, and swaps the two names."""

    def __init__(self, device):
        super().__init__()
        self.front = torch.zeros(16, device=device)
        self.back = torch.zeros(16, device=device)

    def forward(self, source):
        torch.add(source, self.front.roll(1), alpha=0.5, out=self.back)
        self.front, self.back = self.back, self.front  # guilty: ping_pong GS703|GS702
        return self.front.clone()


def build_ping_pong(device):
    return PingPong(device), (torch.randn(16, device=device),)


CHANGE = {"build_caller_state": change_observation}

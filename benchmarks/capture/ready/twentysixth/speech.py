"""Streaming speech steps."""
import contextlib
import contextvars
import threading
import weakref

import torch
from torch import nn
from torch.nn import functional as F
from graphsafe import Step


def _refresh(args, kwargs, k):
    args[0].normal_()


class Window:
    def __init__(self, n, device):
        self.taps = torch.hann_window(n, device=device)


class Session:
    window = None


class Frontend:
    known = weakref.WeakValueDictionary()

    def __init__(self):
        self.session = Session()

    def __call__(self, frames):
        key = frames.size(-1), frames.device
        window = Frontend.known.get(key)
        if window is None:
            window = Frontend.known[key] = Window(*key)
        self.session.window = window
        return (frames * window.taps).square().sum(-1).log1p()

    def hang_up(self):
        self.session = Session()


def build_frontend(device):
    front = Frontend()
    return Step(front, (torch.randn(3, 10, 64, device=device),), refresh=_refresh, events={"hang_up": front.hang_up})


def build_endpoint(device):
    cell = nn.GRUCell(8, 12, device=device).requires_grad_(False)
    head = nn.Linear(12, 1, device=device).requires_grad_(False)
    hidden = torch.zeros(3, 12, device=device)

    def detect(features):
        nonlocal hidden
        hidden = cell(features, hidden)
        return head(hidden).sigmoid()

    return Step(detect, (torch.randn(3, 8, device=device),), refresh=_refresh)


class Vocoder(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.gain = nn.Linear(8, 40, device=device).requires_grad_(False)

    def forward(self, mel):
        phase = torch.arange(40, device=mel.device) / 40
        return self.gain(mel) * (6.2831853 * phase).sin()

    def load_language(self):
        torch.set_default_dtype(torch.bfloat16)
        self.language = nn.Linear(8, 8)


def build_vocoder(device):
    vocoder = Vocoder(device)
    return Step(vocoder, (torch.randn(3, 8, device=device),), refresh=_refresh, events={"load_language": vocoder.load_language})


def build_framed(device):
    audio = torch.randn(2, 320, device=device)
    frames = audio.unfold(-1, 64, 16)
    basis = torch.randn(64, 20, device=device)

    def features(frames):
        centred = frames - frames.mean(-1, keepdim=True)
        return (centred @ basis).square().add(1e-6).log()

    return Step(features, (frames,), refresh=lambda args, kwargs, k: audio.normal_())


def build_durations(device):
    proj = nn.Linear(8, 8, device=device).requires_grad_(False)
    text = torch.randn(10, 8, device=device)
    durations = torch.full((10,), 4, dtype=torch.long, device=device)

    def regulate(text, durations):
        frames = torch.repeat_interleave(proj(text), durations, dim=0, output_size=40)
        return frames + torch.linspace(0, 1, 40, device=text.device)[:, None]

    def refresh(args, kwargs, k):
        args[0].normal_()
        args[1].copy_(torch.bincount(torch.randint(0, 10, (40,)), minlength=10))

    return Step(regulate, (text, durations), refresh=refresh)


_gain = contextvars.ContextVar("gain", default=1.0)
_local = threading.local()


@contextlib.contextmanager
def gain(value):
    token = _gain.set(value)
    try:
        yield
    finally:
        _gain.reset(token)


class Mixer(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.near = nn.Linear(8, 8, device=device).requires_grad_(False)

    def part(self, x):
        space = getattr(_local, "space", None)
        if space is None or space.shape != x.shape or space.device != x.device:
            space = _local.space = torch.empty_like(x)
        torch.mul(x, _gain.get(), out=space)
        return self.near(space)

    def forward(self, x):
        with gain(0.5):
            quiet = self.part(x)
        return F.silu(self.part(x)) - quiet


def build_mixer(device):
    return Step(Mixer(device), (torch.randn(3, 8, device=device),), refresh=_refresh)

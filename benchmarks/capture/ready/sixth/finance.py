"""Pricing, risk and execution steps."""
import collections
import decimal
import math
import os
import tempfile

import numpy as np
import torch
from torch.distributions import Normal


def build_book_imbalance(device):
    levels = [torch.tensor(w) for w in (0.5, 0.3, 0.2)]

    def step(bids, asks, weights):
        total = torch.zeros_like(bids[:, 0])
        for level, weight in enumerate(weights):
            spread = bids[:, level] - asks[:, level]
            total = total + weight * spread / (bids[:, level] + asks[:, level])
        return total

    return step, (torch.rand(20, 3, device=device) + 1.0, torch.rand(20, 3, device=device) + 1.0, levels)


def build_tail_risk(device):
    exposure = torch.rand(12, device=device)
    z = math.sqrt(2.0) * 1.163

    def step(mean, volatility):
        returns = Normal(mean, volatility)
        quantile = returns.icdf(torch.full_like(mean, 0.01))
        shortfall = returns.mean - z * returns.stddev
        return (exposure * quantile).sum(), exposure * shortfall

    return step, (torch.randn(12, device=device) * 0.01, torch.rand(12, device=device) * 0.2 + 0.05)


class SmileCalibration:
    """One gradient step on the three numbers of a volatility smile per call."""

    def __init__(self, device):
        self.smile = torch.tensor([0.2, -0.05, 0.1], device=device, requires_grad=True)
        self.strikes = torch.linspace(-0.5, 0.5, 11, device=device)

    def __call__(self, quotes):
        with torch.autograd.detect_anomaly(check_nan=True):
            level, skew, curve = self.smile.unbind()
            model = level + skew * self.strikes + curve * self.strikes.square()
            loss = (model - quotes).square().mean()
            (slope,) = torch.autograd.grad(loss, self.smile)
        with torch.no_grad():
            self.smile.sub_(slope, alpha=0.2)
        return loss.detach(), self.smile.detach().clone()


def build_smile_calibration(device):
    return SmileCalibration(device), (torch.rand(11, device=device) * 0.1 + 0.2,)


class LoggedTrader:
    def __init__(self, device, limit=4096):
        self.log = tempfile.TemporaryFile("w")
        self.limit = limit
        self.exposure = 1.0
        self.position = torch.zeros(10, device=device)

    def __call__(self, signal):
        self.log.write(f"exposure {self.exposure:12.6f} symbols 10\n")
        self.log.flush()
        if os.fstat(self.log.fileno()).st_size > self.limit:
            self.log.seek(0)
            self.log.truncate()
            self.exposure *= 0.7
        self.position.mul_(0.9).add_(torch.tanh(signal), alpha=self.exposure)
        return self.position.clone()


def build_logged_trader(device):
    return LoggedTrader(device), (torch.randn(10, device=device),)


class ExpandingVol:
    def __init__(self, assets, device, most=80):
        self.history = torch.zeros(1, assets, device=device)
        self.most = most

    def __call__(self, returns):
        rows = self.history.shape[0]
        if rows < self.most:
            self.history.resize_(rows + 1, self.history.shape[1])
        else:
            self.history.copy_(self.history.roll(-1, dims=0))
        self.history[-1].copy_(returns)
        return self.history.std(dim=0)


def build_expanding_vol(device):
    return ExpandingVol(8, device), (torch.randn(8, device=device),)


class PairTrader:
    def __init__(self, device):
        self.long_leg = True
        self.hedge = torch.rand(6, device=device)
        self.book = torch.zeros(6, device=device)

    def __call__(self, first, second):
        spread = first - self.hedge * second
        side = 1.0 if self.long_leg else -0.5
        self.book.mul_(0.8).add_(spread, alpha=side)
        self.long_leg = not self.long_leg
        return self.book.clone()


def build_pair_trader(device):
    return PairTrader(device), (torch.randn(6, device=device), torch.randn(6, device=device))


def build_option_greeks(device):
    maturity = np.float32(0.75)
    rate = 0.02

    def step(spot, strike, sigma):
        leaf = spot.detach().clone().requires_grad_()
        width = sigma * float(np.sqrt(maturity))
        d1 = (torch.log(leaf / strike) + (rate + 0.5 * sigma.square()) * float(maturity)) / width
        cdf = lambda v: 0.5 * (1.0 + torch.erf(v / math.sqrt(2.0)))
        price = leaf * cdf(d1) - strike * math.exp(-rate * float(maturity)) * cdf(d1 - width)
        (delta,) = torch.autograd.grad(price.sum(), leaf, create_graph=True)
        (gamma,) = torch.autograd.grad(delta.sum(), leaf)
        return price.detach(), delta.detach(), gamma

    spot, strike = torch.rand(16, device=device) + 1.0, torch.rand(16, device=device) + 1.0
    return step, (spot, strike, torch.rand(16, device=device) * 0.3 + 0.2)


class ProfitLedger:
    def __init__(self, device, days=30):
        self.rows = torch.zeros(days, 5, device=device)
        self.day = torch.zeros((), dtype=torch.int64, device=device)
        self.grid = torch.arange(days, device=device)
        self.entries = 0

    def __call__(self, profit):
        self.entries += 1
        slot = torch.remainder(self.day, self.rows.shape[0])
        self.rows.copy_(torch.where((self.grid == slot).unsqueeze(1), profit, self.rows))
        self.day += 1
        filled = torch.minimum(self.day, torch.full_like(self.day, self.rows.shape[0]))
        return self.rows.sum(0) / filled, self.rows.amin(0)


def build_profit_ledger(device):
    return ProfitLedger(device), (torch.randn(5, device=device),)


class KellySizer:
    def __init__(self, device):
        self.caps = torch.from_numpy(np.linspace(0.1, 0.5, 9, dtype=np.float32)).to(device)
        self.fees = decimal.Decimal("0")
        self.trail = collections.deque(maxlen=5)

    def __call__(self, edge, odds):
        fraction = torch.clamp(edge / odds.square(), min=0.0)
        stake = torch.minimum(fraction, self.caps)
        self.fees += decimal.Decimal("0.01")
        self.trail.append(self.fees)
        if self.fees > 2:
            self.fees -= 2
            self.trail.clear()
        return stake / (1.0 + stake.sum())


def build_kelly_sizer(device):
    return KellySizer(device), (torch.randn(9, device=device) * 0.1, torch.rand(9, device=device) + 0.5)


def build_antithetic_pricer(device):
    steps = 8
    dt = 1.0 / steps

    def step(spot, sigma):
        shocks = torch.randn(512, spot.shape[0], steps, device=spot.device)
        both = torch.cat([shocks, -shocks])
        drift = -0.5 * sigma.square().unsqueeze(-1) * dt
        paths = torch.cumsum(drift + sigma.unsqueeze(-1) * math.sqrt(dt) * both, dim=-1)
        terminal = spot * paths[..., -1].exp()
        return torch.relu(terminal - 1.0).mean(0)

    return step, (torch.rand(4, device=device) + 0.5, torch.rand(4, device=device) * 0.2 + 0.1)

"""Steps of torchrl 0.14.1 as published, each with a repair (`_repaired`). See docs/case-studies.md."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

Target = tuple[Any, tuple[Any, ...]]


def state_noise(device: torch.device) -> Target:
    from torchrl.envs.utils import ExplorationType, set_exploration_type
    from torchrl.modules.models.exploration import gSDEModule

    module = gSDEModule(action_dim=3, state_dim=4).to(device).requires_grad_(False)

    def step(mean: Tensor, state: Tensor, noise: Tensor) -> Tensor:
        with set_exploration_type(ExplorationType.RANDOM):
            return module(mean, state, noise)[2]

    sizes = ((2, 3), (2, 4), (2, 3, 4))
    return step, tuple(torch.randn(size, device=device) for size in sizes)


def state_noise_repaired(device: torch.device) -> Target:
    from torchrl.modules.models.exploration import gSDEModule

    class NoCheck(gSDEModule):
        """The check for infinite values is left to the caller, between steps."""

        def forward(self, mu: Tensor, state: Tensor, _eps_gSDE: Tensor) -> Tensor:
            return mu + ((self.sigma.clamp_max(self.scale_max) * _eps_gSDE) @ state.unsqueeze(-1)).squeeze(-1)

    return NoCheck(action_dim=3, state_dim=4).to(device).requires_grad_(False), state_noise(device)[1]


def _rewards(device: torch.device) -> tuple[Tensor, ...]:
    values = [torch.randn(2, 6, 1, device=device) for _ in range(3)]
    return (*values, torch.zeros(2, 6, 1, dtype=torch.bool, device=device))


def fast_gae(device: torch.device) -> Target:
    from torchrl.objectives.value.functional import vec_generalized_advantage_estimate

    gamma, decay = torch.tensor(0.99, device=device), torch.tensor(0.95, device=device)

    def step(value: Tensor, next_value: Tensor, reward: Tensor, done: Tensor) -> Tensor:
        return vec_generalized_advantage_estimate(gamma, decay, value, next_value, reward, done)[0]

    return step, _rewards(device)


def fast_gae_repaired(device: torch.device) -> Target:
    from torchrl.objectives.value.functional import generalized_advantage_estimate

    def step(value: Tensor, next_value: Tensor, reward: Tensor, done: Tensor) -> Tensor:
        return generalized_advantage_estimate(0.99, 0.95, value, next_value, reward, done)[0]

    return step, _rewards(device)


def one_hot_loss(device: torch.device) -> Target:
    from torchrl.objectives.functional import cross_entropy_loss

    action = torch.nn.functional.one_hot(torch.tensor([0, 2, 1], device=device), 4)
    return cross_entropy_loss, (torch.randn(3, 4, device=device), action)


def one_hot_loss_repaired(device: torch.device) -> Target:
    return lambda policy, action: (policy * action).sum(-1), one_hot_loss(device)[1]


def tanh_normal(device: torch.device) -> Target:
    from torchrl.modules import TanhNormal

    def step(loc: Tensor, scale: Tensor) -> Tensor:  # a policy makes its distribution in every step
        return TanhNormal(loc, scale, low=-2.0, high=2.0).deterministic_sample

    return step, (torch.randn(4, 3, device=device), torch.rand(4, 3, device=device) + 0.5)


def tanh_normal_repaired(device: torch.device) -> Target:
    from torchrl.modules import TanhNormal

    low, high = torch.full((3,), -2.0, device=device), torch.full((3,), 2.0, device=device)

    def step(loc: Tensor, scale: Tensor) -> Tensor:
        return TanhNormal(loc, scale, low=low, high=high).deterministic_sample

    return step, tanh_normal(device)[1]

"""Losses of torchrl 0.14.1 as published, each with a repair (`_repaired`). See docs/case-studies.md."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

Target = tuple[Any, tuple[Any, ...]]


def vtrace(device: torch.device) -> Target:
    from torchrl.objectives.value.functional import vtrace_advantage_estimate

    def step(log_pi: Tensor, log_mu: Tensor, value: Tensor, next_value: Tensor, reward: Tensor) -> Tensor:
        done = torch.zeros_like(reward, dtype=torch.bool)
        return vtrace_advantage_estimate(0.99, log_pi, log_mu, value, next_value, reward, done)[0]

    return step, tuple(torch.randn(2, 6, 1, device=device) for _ in range(5))


def vtrace_repaired(device: torch.device) -> Target:
    from torchrl.objectives.value.functional import vtrace_advantage_estimate

    most = torch.ones((), device=device)

    def step(log_pi: Tensor, log_mu: Tensor, value: Tensor, next_value: Tensor, reward: Tensor) -> Tensor:
        done = torch.zeros_like(reward, dtype=torch.bool)
        series = (log_pi, log_mu, value, next_value, reward, done)
        return vtrace_advantage_estimate(0.99, *series, rho_thresh=most, c_thresh=most)[0]

    return step, vtrace(device)[1]


def truncated_normal(device: torch.device) -> Target:
    from torchrl.modules import TruncatedNormal

    policy = TruncatedNormal(torch.zeros(4, 3, device=device), torch.ones(4, 3, device=device))
    return policy.log_prob, (torch.randn(4, 3, device=device),)


def truncated_normal_repaired(device: torch.device) -> Target:
    from torchrl.modules import TruncatedNormal

    policy = TruncatedNormal(torch.zeros(4, 3, device=device), torch.ones(4, 3, device=device))
    policy.base_dist._validate_args = False

    def step(value: Tensor) -> Tensor:
        outside = ((value < policy.low) | (value > policy.high)).any(-1)
        inside = value.clamp(-1 + policy.base_dist.eps, 1 - policy.base_dist.eps)
        return policy.base_dist.log_prob(inside).sum(-1).masked_fill(outside, -float("inf"))

    return step, (torch.randn(4, 3, device=device),)


def end_scores(device: torch.device) -> Target:
    from torchrl.modules.models.llm import GPT2RewardModel

    model: Any = SimpleNamespace(pad_id=0)  # the method reads nothing else of the model
    args = (torch.randn(3, 6, device=device), torch.randint(0, 5, (3, 6), device=device))
    return lambda rewards, ids: GPT2RewardModel._compute_end_scores(model, rewards, ids), args


def end_scores_repaired(device: torch.device) -> Target:
    def step(rewards: Tensor, ids: Tensor) -> Tensor:
        places = torch.arange(6, device=ids.device)
        first = torch.where(ids == 0, places, 6).amin(1, keepdim=True)
        return rewards.gather(1, (first - 1) % 6)[
            :, 0
        ]  # like the index -1, the place before the first is the last place

    return step, end_scores(device)[1]


def _actor(device: torch.device) -> Any:
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.data import Bounded
    from torchrl.modules import IndependentNormal, ProbabilisticActor

    module = TensorDictModule(nn.Sequential(nn.Linear(3, 4), NormalParamExtractor()), ["observation"], ["loc", "scale"])
    action = Bounded(-1.0, 1.0, (2,), device=device)
    settings = {"distribution_class": IndependentNormal, "distribution_kwargs": {"validate_args": False}}
    return ProbabilisticActor(
        module.to(device), in_keys=["loc", "scale"], spec=action, return_log_prob=True, **settings
    )


def _ppo(device: torch.device, kind: Any) -> Target:
    from tensordict import TensorDict
    from torchrl.modules import ValueOperator

    critic = ValueOperator(nn.Linear(3, 1), in_keys=["observation"]).to(device)
    loss = kind(_actor(device), critic)

    def step(observation: Tensor, action: Tensor, log_prob: Tensor, advantage: Tensor, target: Tensor) -> Any:
        policy = {"observation": observation, "action": action, "action_log_prob": log_prob}
        out = loss(TensorDict({**policy, "advantage": advantage, "value_target": target}, [4]))
        return out["loss_objective"], out["loss_entropy"], out["loss_critic"]

    sizes = ((4, 3), (4, 2), (4,), (4, 1), (4, 1))
    return step, tuple(torch.randn(size, device=device) for size in sizes)


def ppo_entropy(device: torch.device) -> Target:
    from torchrl.objectives import PPOLoss

    return _ppo(device, PPOLoss)


def ppo_entropy_repaired(device: torch.device) -> Target:
    from torchrl.objectives import PPOLoss

    class NoCheck(PPOLoss):
        """The entropy of a normal distribution is always finite, so the host need not check it."""

        def _get_entropy(self, dist: Any, adv_shape: torch.Size) -> Tensor:
            return dist.entropy().unsqueeze(-1)

    return _ppo(device, NoCheck)


def _redq(device: torch.device) -> Target:
    from tensordict import TensorDict
    from torchrl.modules import ValueOperator
    from torchrl.objectives import REDQLoss

    class Value(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(5, 1)

        def forward(self, observation: Tensor, action: Tensor) -> Tensor:
            return self.linear(torch.cat([observation, action], -1))

    value = ValueOperator(Value(), in_keys=["observation", "action"]).to(device)
    loss = REDQLoss(_actor(device), value, num_qvalue_nets=4, sub_sample_len=2, target_entropy=-2.0)
    loss.make_value_estimator(gamma=0.99)

    def step(observation: Tensor, action: Tensor, later: Tensor, reward: Tensor) -> Tensor:
        ended = torch.zeros_like(reward, dtype=torch.bool)
        after = {"observation": later, "reward": reward, "done": ended, "terminated": ended}
        batch = TensorDict({"observation": observation, "action": action, "next": after}, [4])
        return loss(batch)["loss_qvalue"]

    sizes = ((4, 3), (4, 2), (4, 3), (4, 1))
    return step, tuple(torch.randn(size, device=device) for size in sizes)


def redq(device: torch.device) -> Target:
    return _redq(device)


def redq_repaired(device: torch.device) -> Target:
    step, args = _redq(device)

    def on_device(*given: Tensor) -> Tensor:
        with patch.object(torch, "randperm", partial(torch.randperm, device=device)):  # the argument that is missing
            return step(*given)

    return on_device, args


def _targets(device: torch.device, kind: Any) -> Target:
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss

    network = QValueActor(nn.Linear(3, 2), in_keys=["observation"], action_space="categorical").to(device)
    loss = DQNLoss(network, action_space="categorical", delay_value=True)
    updater = kind(loss, value_network_update_interval=3)
    weights = loss.value_network_params["module", "0", "module", "weight"]
    targets = loss.target_value_network_params["module", "0", "module", "weight"]

    @torch.no_grad()
    def step(gradient: Tensor) -> Tensor:
        weights.data.sub_(gradient)  # the optimiser
        updater.step()
        return targets.data.clone()

    return step, (torch.randn(2, 3, device=device),)


def hard_update(device: torch.device) -> Target:
    from torchrl.objectives import HardUpdate

    return _targets(device, HardUpdate)


def hard_update_repaired(device: torch.device) -> Target:
    from torchrl.objectives import HardUpdate
    from torchrl.objectives.utils import TargetNetUpdater

    class OnDevice(HardUpdate):
        """Count on the device. Each step writes the targets: new values at each interval, else their old values."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.counter = torch.zeros((), dtype=torch.long, device=device)

        def _step(self, p_source: Any, p_target: Any) -> None:
            for key, target in p_target.items(True, True):
                source = p_source.get(key).data
                target.data.copy_(torch.where(self.counter == self.value_network_update_interval, source, target.data))

        def step(self) -> None:
            TargetNetUpdater.step(self)
            after = torch.where(self.counter == self.value_network_update_interval, 0, self.counter + 1)
            self.counter.copy_(after)

    return _targets(device, OnDevice)

"""Steps of diffusers 0.42.1 as published, each with a repair (`_repaired`). See docs/case-studies.md."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import graphsafe


def _step(fn: Any, device: torch.device, timesteps: Tensor) -> graphsafe.Step:
    """Return a step of (model output, timestep, sample). Each replay gets another timestep of the schedule."""
    noise, sample = torch.randn(2, 4, 8, 8, device=device), torch.randn(2, 4, 8, 8, device=device)

    def refresh(args: tuple[Any, ...], kwargs: dict[str, Any], k: int) -> None:
        args[0].copy_(torch.randn(2, 4, 8, 8))
        args[1].copy_(timesteps[k % len(timesteps)])
        args[2].copy_(torch.randn(2, 4, 8, 8))

    return graphsafe.Step(fn, (noise, timesteps[0].to(device), sample), refresh=refresh)


def ddim(device: torch.device) -> graphsafe.Step:
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler()
    scheduler.set_timesteps(10, device=device)
    return _step(lambda noise, t, x: scheduler.step(noise, t, x).prev_sample, device, scheduler.timesteps.cpu())


def ddim_repaired(device: torch.device) -> graphsafe.Step:
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler()
    scheduler.set_timesteps(10, device=device)
    alphas, final = scheduler.alphas_cumprod.to(device), scheduler.final_alpha_cumprod.to(device)

    def step(noise: Tensor, t: Tensor, x: Tensor) -> Tensor:  # eta 0, epsilon, clip_sample: the defaults
        before = t - 1000 // 10
        pair = alphas[torch.stack([t, before.clamp(min=0)])]  # an index of one dimension is not read by the host
        alpha, alpha_before = pair[0], torch.where(before >= 0, pair[1], final)
        clean = ((x - (1 - alpha).sqrt() * noise) / alpha.sqrt()).clamp(-1, 1)
        return alpha_before.sqrt() * clean + (1 - alpha_before).sqrt() * noise

    return _step(step, device, scheduler.timesteps.cpu())


def euler(device: torch.device) -> graphsafe.Step:
    from diffusers import EulerDiscreteScheduler

    scheduler = EulerDiscreteScheduler()
    scheduler.set_timesteps(300, device=device)

    def step(noise: Tensor, t: Tensor, x: Tensor) -> Tensor:
        return scheduler.step(noise, t, scheduler.scale_model_input(x, t)).prev_sample

    return _step(step, device, scheduler.timesteps.cpu())


def euler_repaired(device: torch.device) -> graphsafe.Step:
    from diffusers import EulerDiscreteScheduler

    scheduler = EulerDiscreteScheduler()
    scheduler.set_timesteps(300, device=device)
    sigmas, schedule = scheduler.sigmas.to(device), scheduler.timesteps

    def step(noise: Tensor, t: Tensor, x: Tensor) -> Tensor:
        index = (schedule == t).to(torch.int64).argmax(0, keepdim=True)  # one dimension: it stays on the device
        sigma = sigmas[index]
        return x / (sigma**2 + 1) ** 0.5 + noise * (sigmas[index + 1] - sigma)

    return _step(step, device, scheduler.timesteps.cpu())


def euler_noise(device: torch.device) -> tuple[Any, tuple[Any, ...]]:
    from diffusers import EulerDiscreteScheduler

    scheduler = EulerDiscreteScheduler()
    scheduler.set_timesteps(10, device=device)
    samples, noise = torch.randn(2, 4, 8, device=device), torch.randn(2, 4, 8, device=device)
    return lambda x, noise: scheduler.add_noise(x, noise, scheduler.timesteps[:2]), (samples, noise)


def euler_noise_repaired(device: torch.device) -> tuple[Any, tuple[Any, ...]]:
    from diffusers import EulerDiscreteScheduler

    scheduler = EulerDiscreteScheduler()
    scheduler.set_timesteps(10, device=device)
    sigmas, schedule, chosen = scheduler.sigmas.to(device), scheduler.timesteps, scheduler.timesteps[:2].clone()

    def step(x: Tensor, noise: Tensor) -> Tensor:
        index = (schedule == chosen[:, None]).to(torch.int64).argmax(1)
        return x + noise * sigmas[index].view(-1, 1, 1)

    return step, euler_noise(device)[1]


def flow_match(device: torch.device) -> graphsafe.Step:
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(300, device=device)
    return _step(lambda noise, t, x: scheduler.step(noise, t, x).prev_sample, device, scheduler.timesteps.cpu())


def flow_match_repaired(device: torch.device) -> graphsafe.Step:
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(300, device=device)
    sigmas, schedule = scheduler.sigmas.to(device), scheduler.timesteps

    def step(noise: Tensor, t: Tensor, x: Tensor) -> Tensor:
        index = (schedule == t).to(torch.int64).argmax(0, keepdim=True)
        return x + (sigmas[index + 1] - sigmas[index]) * noise

    return _step(step, device, scheduler.timesteps.cpu())


def ddpm(device: torch.device) -> graphsafe.Step:
    from diffusers import DDPMScheduler

    scheduler = DDPMScheduler()
    scheduler.set_timesteps(10, device=device)
    return _step(lambda noise, t, x: scheduler.step(noise, t, x).prev_sample, device, scheduler.timesteps.cpu())


def ddpm_repaired(device: torch.device) -> graphsafe.Step:
    from diffusers import DDPMScheduler

    scheduler = DDPMScheduler()
    scheduler.set_timesteps(10, device=device)
    schedule, alphas = scheduler.timesteps, scheduler.alphas_cumprod.to(device)

    def step(noise: Tensor, t: Tensor, x: Tensor) -> Tensor:  # epsilon, fixed_small, clip_sample: the defaults
        index = (schedule == t).to(torch.int64).argmax(0, keepdim=True)
        alpha, alpha_before = alphas[schedule[index]], torch.where(t > 0, alphas[schedule[(index + 1).clamp(max=9)]], 1)
        current = alpha / alpha_before
        clean = ((x - (1 - alpha).sqrt() * noise) / alpha.sqrt()).clamp(-1, 1)
        mean = alpha_before.sqrt() * (1 - current) * clean + current.sqrt() * (1 - alpha_before) * x
        variance = ((1 - alpha_before) / (1 - alpha) * (1 - current)).clamp(min=1e-20)
        return mean / (1 - alpha) + variance.sqrt() * torch.randn_like(x) * (t > 0)  # the last step adds no noise

    return _step(step, device, scheduler.timesteps.cpu())


def score_sde(device: torch.device) -> graphsafe.Step:
    from diffusers import ScoreSdeVeScheduler

    scheduler = ScoreSdeVeScheduler()
    scheduler.set_timesteps(20, device=device)
    scheduler.set_sigmas(20)
    return _step(lambda score, t, x: scheduler.step_pred(score, t, x).prev_sample, device, scheduler.timesteps.cpu())


def score_sde_repaired(device: torch.device) -> graphsafe.Step:
    from diffusers import ScoreSdeVeScheduler

    scheduler = ScoreSdeVeScheduler()
    scheduler.set_timesteps(20, device=device)
    scheduler.set_sigmas(20)
    sigmas = torch.cat([torch.zeros(1), scheduler.discrete_sigmas]).to(device)  # the zero is the sigma before place 0

    def step(score: Tensor, t: Tensor, x: Tensor) -> Tensor:
        place = (t.expand(1) * 19).long()
        change = sigmas[place + 1] ** 2 - sigmas[place] ** 2
        return x + change * score + change.sqrt() * torch.randn_like(x)

    return _step(step, device, scheduler.timesteps.cpu())


def wuerstchen(device: torch.device) -> graphsafe.Step:
    from diffusers import DDPMWuerstchenScheduler

    scheduler = DDPMWuerstchenScheduler()
    scheduler.set_timesteps(10, device=device)

    def step(noise: Tensor, t: Tensor, x: Tensor) -> Tensor:
        return scheduler.step(noise, t.expand(2), x).prev_sample

    return _step(step, device, scheduler.timesteps[:-1].cpu())


def wuerstchen_repaired(device: torch.device) -> graphsafe.Step:
    from diffusers import DDPMWuerstchenScheduler

    scheduler = DDPMWuerstchenScheduler()
    scheduler.set_timesteps(10, device=device)
    schedule, alphas = scheduler.timesteps, scheduler._alpha_cumprod(scheduler.timesteps, device)

    def step(noise: Tensor, t: Tensor, x: Tensor) -> Tensor:
        index = (schedule - t).abs().argmin(0, keepdim=True)
        total, before = alphas[index], alphas[index + 1]
        alpha = total / before
        mean = (x - (1 - alpha) * noise / (1 - total).sqrt()) / alpha.sqrt()
        spread = ((1 - alpha) * (1 - before) / (1 - total)).sqrt() * (schedule[index + 1] != 0)
        return mean + spread * torch.randn_like(x)

    return _step(step, device, scheduler.timesteps[:-1].cpu())

"""One step of denoising, in several fashions."""

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class StepOutput:
    prev_sample: torch.Tensor
    original: torch.Tensor | None = None


class SchedulerMixin:
    """Ten steps from noise to data."""

    def __init__(self, device, num_steps=10):
        self.betas = torch.linspace(0.05, 0.4, num_steps, device=device)
        self.alphas = torch.cumprod(1 - self.betas, 0)
        self.timesteps = torch.arange(num_steps, device=device).flip(0)

    def denoise(self, model_output, alpha, sample):
        return (sample - (1 - alpha) ** 0.5 * model_output) / alpha**0.5


class Euler(SchedulerMixin):
    def __init__(self, device):
        super().__init__(device)
        self.sigmas = self.betas.cpu()
        self._step_index = 0

    @property
    def step_index(self):
        return self._step_index % len(self.sigmas)

    def step(self, model_output, sample):
        sigma = self.sigmas[self.step_index]  # guilty: euler_index GS702
        self._step_index += 1  # guilty: euler_index GS702
        return StepOutput(sample - sigma * model_output).prev_sample


# quiet: euler_index_tensor
class EulerTensor(SchedulerMixin):
    def __init__(self, device):
        super().__init__(device)
        self.index = torch.zeros(1, dtype=torch.long, device=device)

    def step(self, model_output, sample):
        sigma = self.betas.index_select(0, self.index)
        self.index.add_(1).remainder_(len(self.betas))
        return StepOutput(sample - sigma * model_output).prev_sample


class Ddim(SchedulerMixin):
    def index_for(self, timestep):
        return (self.timesteps == timestep).nonzero()[0]  # guilty: ddim_index GS201

    def step(self, model_output, timestep, sample):
        alpha = self.alphas.index_select(0, self.index_for(timestep))
        return self.denoise(model_output, alpha, sample)


# quiet: ddim_gather
class DdimGather(Ddim):
    def index_for(self, timestep):
        return len(self.timesteps) - 1 - timestep


class Ddpm(SchedulerMixin):
    def step(self, model_output, timestep: int, sample):
        alpha = self.alphas[timestep]  # guilty: annotated_timestep GS101|GS203
        return self.denoise(model_output, alpha, sample)


class Ancestral(SchedulerMixin):
    def __init__(self, device, seed=0):
        super().__init__(device)
        self.generator = torch.Generator(device).manual_seed(seed)

    def noise(self, like, generator=None):
        return torch.randn(like.shape, generator=generator, device=like.device)  # guilty: ancestral_noise GS502

    def step(self, model_output, sample):
        return sample - 0.1 * model_output + 0.2 * self.noise(sample, self.generator)


# quiet: ancestral_default
class AncestralDefault(Ancestral):
    def step(self, model_output, sample):
        return sample - 0.1 * model_output + 0.2 * self.noise(sample)


class Reproducible(Ancestral):
    """Draws the same noise in every run, whatever was drawn before."""

    def step(self, model_output, sample):
        torch.manual_seed(17)  # guilty: reseeded_noise GS503
        return sample - 0.1 * model_output + 0.2 * self.noise(sample)


class Multistep(SchedulerMixin):
    """Adams-Bashforth over the last two outputs."""

    def __init__(self, device, shape):
        super().__init__(device)
        self.outputs = deque([torch.zeros(shape, device=device)] * 2, maxlen=2)

    def step(self, model_output, sample):
        self.outputs.append(model_output * 1.0)  # guilty: multistep GS703|GS702
        before, now = self.outputs
        return sample - 0.1 * (1.5 * now - 0.5 * before)


# quiet: multistep_buffer
class MultistepBuffer(SchedulerMixin):
    def __init__(self, device, shape):
        super().__init__(device)
        self.before = torch.zeros(shape, device=device)

    def step(self, model_output, sample):
        moved = sample - 0.1 * (1.5 * model_output - 0.5 * self.before)
        self.before.copy_(model_output)
        return moved


class Thresholding(SchedulerMixin):
    def limit(self, sample):
        return max(torch.quantile(sample.abs().flatten(), 0.9), 1.0)  # guilty: dynamic_threshold GS102

    def step(self, model_output, sample):
        limit = self.limit(sample)
        return sample.clamp(-1, 1) / limit - model_output


# quiet: dynamic_threshold_clamped
class ThresholdingClamped(Thresholding):
    def limit(self, sample):
        return torch.quantile(sample.abs().flatten(), 0.9).clamp(min=1.0)


class Churn(SchedulerMixin):
    def __init__(self, device, seed=1):
        super().__init__(device)
        self.numpy = np.random.default_rng(seed)

    def step(self, model_output, sample):
        gamma = self.numpy.normal(0.0, 0.3)  # guilty: churn GS504
        return sample * (1 + gamma) - 0.1 * model_output  # guilty: churn GS504

import math

import torch


class SchedulerBase:
    order = 1

    def __init__(self, num_train_steps=1000, beta_start=0.00085, beta_end=0.012):
        betas = torch.linspace(beta_start**0.5, beta_end**0.5, num_train_steps) ** 2
        self.alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        self.num_train_steps = num_train_steps
        self._step_index = None

    def set_timesteps(self, n, device):
        raise NotImplementedError

    def index_for(self, timestep):
        hits = (self.timesteps == timestep).nonzero()
        return hits[0].item()


class EulerScheduler(SchedulerBase):
    def set_timesteps(self, n, device):
        ts = torch.linspace(self.num_train_steps - 1, 0, n)
        sig = ((1 - self.alphas_cumprod) / self.alphas_cumprod) ** 0.5
        picked = sig[ts.round().long()]
        self.sigmas = torch.cat([picked, picked.new_zeros(1)]).to(device)
        self.timesteps = ts.to(device)
        self.init_noise_sigma = math.sqrt(float(picked.max()) ** 2 + 1)

    def scale_model_input(self, sample, index):
        return sample / torch.sqrt(self.sigmas[index] ** 2 + 1)

    def step(self, eps, index, sample):
        sigma = self.sigmas[index]
        dt = self.sigmas[index + 1] - sigma
        return sample + eps * dt

"""Diffusion step whose noise is drawn on torch's default device. A preprocessing hook sets that to the CPU for
a while."""

import torch

import graphsafe


def build(device):
    torch.set_default_device(device)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.SiLU(), torch.nn.Linear(32, 16)).requires_grad_(False)
    sample = torch.zeros(4, 16)

    def step(sigma):
        noise = torch.randn(4, 16)
        sample.lerp_(net(sample + sigma * noise.to(sample.device)), 0.3)
        return sample.clone()

    def refresh(args, kwargs, k):
        if k == 118:  # from here on tokenising wants tensors of the host
            torch.set_default_device("cpu")
        args[0].fill_(1.0 / (1 + k % 7))

    return graphsafe.Step(step, (torch.ones((), device=device),), refresh=refresh)

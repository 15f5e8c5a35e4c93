"""The loop itself draws on the device between steps, from the generator that the step uses, and sometimes seeds it."""

import torch

import graphsafe


def build(device):
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.2), torch.nn.Linear(32, 8)).to(device).train()
    net.requires_grad_(False)

    def step(x):
        return net(x + 0.1 * torch.randn_like(x))

    def refresh(args, kwargs, k):
        if k % 20 == 0:
            torch.manual_seed(k + 1)
        args[0].normal_()
        if k % 3 == 0:
            args[0].add_(torch.rand(args[0].shape, device=device))

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)

"""Evolution strategies: each candidate is put into the network by vector_to_parameters."""
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import graphsafe


def build(device):
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).to(device).requires_grad_(False)
    centre = parameters_to_vector(net.parameters()).clone()

    def fitness(obs, target):
        return -(net(obs) - target).square().mean(1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(32, 8))
        if k % 12 == 5:  # the next candidate of the population
            noise = torch.randn(centre.numel()).to(device)
            vector_to_parameters(centre + 0.3 * noise, net.parameters())

    obs = torch.randn(32, 8, device=device)
    return graphsafe.Step(fitness, (obs, torch.zeros(32, 2, device=device)), refresh=refresh)

"""Autoregressive video with the last frames as context: sound, a hook copies results and the loop clones them."""
from collections import deque

import torch

import graphsafe


def build(device, dim=8):
    network = torch.nn.Sequential(torch.nn.Linear(2 * dim, 12), torch.nn.GELU(), torch.nn.Linear(12, dim)).to(device)
    shared = {"frame": torch.zeros(dim, device=device)}
    frames = deque(maxlen=4)

    def share(module, inputs, output):
        shared["frame"].copy_(output)

    network.register_forward_hook(share)

    @torch.no_grad()
    def step(noise, context):
        return torch.tanh(3 * network(torch.cat([noise, context], -1)))

    def refresh(args, kwargs, k):
        frames.append(shared["frame"].clone())
        args[1].copy_(torch.stack(list(frames)).mean(0))
        args[0].copy_(torch.randn(dim) * 2)

    return graphsafe.Step(step, (torch.randn(dim, device=device), torch.zeros(dim, device=device)), refresh=refresh)

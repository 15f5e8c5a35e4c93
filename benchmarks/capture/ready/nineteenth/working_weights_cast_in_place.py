"""Training in bfloat16 with float32 masters: sound, the step copies each master into the data of its working weight."""
import torch

import graphsafe


def build(device, dim=8):
    model = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.GELU(), torch.nn.Linear(dim, dim))
    model.to(device, torch.bfloat16)
    working = list(model.parameters())
    masters = [weight.detach().float() for weight in working]

    def step(x, y):
        loss = (model(x).float() - y).square().mean()
        gradients = torch.autograd.grad(loss, working)
        with torch.no_grad():
            for weight, master, gradient in zip(working, masters, gradients, strict=True):
                master.sub_(gradient.float(), alpha=0.3)
                weight.data.copy_(master)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, dim))
        args[1].copy_(args[0].float().cos())

    args = (torch.randn(16, dim, device=device).bfloat16(), torch.randn(16, dim, device=device))
    return graphsafe.Step(step, args, refresh=refresh)

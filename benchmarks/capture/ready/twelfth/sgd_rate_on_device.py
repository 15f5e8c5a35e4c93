"""Plain SGD whose rate is a tensor on the device, for the loop to fill."""

import torch

import graphsafe


def build(device):
    model = torch.nn.Linear(8, 3).to(device)
    rate = torch.tensor(0.1, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        rate.fill_(0.1 * 0.99**k)
        args[0].copy_(torch.randn(8, 8))
        args[1].copy_(torch.randint(3, (8,)))

    args = (torch.randn(8, 8, device=device), torch.randint(3, (8,), device=device))
    return graphsafe.Step(step, args, refresh=refresh)

"""The whole-network capture example of the CUDA graphs docs: the loop drops gradients, then the step is forward, backward, SGD."""
import torch
import torch.nn as nn

import graphsafe

N, D_in, H, D_out = 16, 32, 24, 8


def build(device):
    model = nn.Sequential(nn.Linear(D_in, H), nn.Dropout(p=0.2), nn.Linear(H, D_out), nn.Dropout(p=0.1)).to(device)
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    static_input = torch.randn(N, D_in, device=device)
    static_target = torch.randn(N, D_out, device=device)

    def step(inp, target):
        y_pred = model(inp)
        loss = loss_fn(y_pred, target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        # the loop's own work: gradients are dropped so that backward writes fresh ones
        optimizer.zero_grad(set_to_none=True)
        args[0].copy_(torch.randn(N, D_in))
        args[1].copy_(torch.randn(N, D_out))

    optimizer.zero_grad(set_to_none=True)
    return graphsafe.Step(step, (static_input, static_target), refresh=refresh)

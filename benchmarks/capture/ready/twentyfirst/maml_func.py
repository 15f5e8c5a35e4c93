"""MAML on sinusoids with torch.func: inner gradient steps by grad, outer step by Adam."""
import torch
import torch.nn as nn
from torch.func import functional_call, grad, vmap

import graphsafe


def build(device, tasks=4, shots=5, inner_lr=0.1, inner_steps=2):
    torch.manual_seed(9)
    net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=True)

    def mse(params, x, y):
        return (functional_call(net, params, (x,)) - y).pow(2).mean()

    def task_loss(params, x1, y1, x2, y2):
        fast = params
        for _ in range(inner_steps):
            g = grad(mse)(fast, x1, y1)
            fast = {k: fast[k] - inner_lr * g[k] for k in fast}
        return mse(fast, x2, y2)

    def meta_step(x1, y1, x2, y2):
        params = dict(net.named_parameters())
        losses = vmap(task_loss, in_dims=(None, 0, 0, 0, 0))(params, x1, y1, x2, y2)
        loss = losses.mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return losses.detach()

    def sample():
        amp, phase = 0.1 + 4.9 * torch.rand(tasks, 1, 1), 3.14 * torch.rand(tasks, 1, 1)
        x = 10 * torch.rand(tasks, 2 * shots, 1) - 5
        y = amp * torch.sin(x + phase)
        return x[:, :shots], y[:, :shots], x[:, shots:], y[:, shots:]

    args = tuple(t.to(device).contiguous() for t in sample())

    def refresh(args, kwargs, k):
        for dst, src in zip(args, sample()):
            dst.copy_(src)

    return graphsafe.Step(meta_step, args, refresh=refresh)

"""One PPO epoch on a rollout: advantages in a reversed Python loop, four shuffled minibatches drawn on the device."""

import torch
from torch import nn

import graphsafe


def advantages(reward, value, done, gamma=0.97, lam=0.9):
    out, last = [], torch.zeros_like(reward[0])
    for t in reversed(range(len(reward))):
        live = 1 - done[t]
        last = reward[t] + gamma * value[t + 1] * live - value[t] + gamma * lam * live * last
        out.insert(0, last)
    return torch.stack(out)


def build(device):
    policy, critic = nn.Linear(5, 3).to(device), nn.Linear(5, 1).to(device)
    params = [*policy.parameters(), *critic.parameters()]

    def epoch(seen, action, reward, done, old):
        with torch.no_grad():
            value = critic(seen).squeeze(-1)
            adv = advantages(reward, value, done)
            goal = (adv + value[:-1]).flatten()
            adv = ((adv - adv.mean()) / (adv.std() + 1e-6)).flatten()
        order = torch.rand(adv.shape, device=device).argsort()
        x, a, o = seen[:-1].flatten(0, 1), action.flatten(), old.flatten()
        for rows in order.chunk(4):
            logp = policy(x[rows]).log_softmax(-1).gather(1, a[rows, None]).squeeze(1)
            ratio = (logp - o[rows]).exp()
            surrogate = torch.minimum(ratio * adv[rows], ratio.clamp(0.8, 1.2) * adv[rows]).mean()
            loss = (critic(x[rows]).squeeze(-1) - goal[rows]).square().mean() - surrogate
            grads = torch.autograd.grad(loss, params)
            with torch.no_grad():
                torch._foreach_add_(params, grads, alpha=-0.02)
        return loss.detach()

    def refresh(args, kwargs, k):
        for arg in (args[0], args[2]):
            arg.copy_(torch.randn(arg.shape))
        args[1].copy_(torch.randint(3, (8, 4)))
        args[3].copy_((torch.rand(8, 4) < 0.1).float())

    args = (
        torch.randn(9, 4, 5, device=device),
        torch.randint(3, (8, 4), device=device),
        torch.randn(8, 4, device=device),
    )
    return graphsafe.Step(
        epoch, (*args, torch.zeros(8, 4, device=device), torch.full((8, 4), -1.1, device=device)), refresh=refresh
    )

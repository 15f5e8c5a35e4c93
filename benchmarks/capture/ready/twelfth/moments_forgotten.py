"""Policy iteration: each iteration forgets the optimizer's state, as the policy is to start with no momentum."""

import torch

import graphsafe


def build(device):
    policy = torch.nn.Linear(6, 3).to(device)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.05, momentum=0.9, foreach=True)

    def step(seen, action, advantage):
        optimizer.zero_grad(set_to_none=False)
        logp = policy(seen).log_softmax(-1).gather(-1, action[:, None]).squeeze(-1)
        loss = -(logp * advantage).mean() + 0.01 * policy.weight.square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        if k % 64 == 63:
            optimizer.state.clear()
        args[0].copy_(torch.randn(16, 6))
        args[1].copy_(torch.randint(3, (16,)))
        args[2].copy_(torch.randn(16))

    args = (torch.randn(16, 6, device=device), torch.randint(3, (16,), device=device), torch.randn(16, device=device))
    return graphsafe.Step(step, args, refresh=refresh)

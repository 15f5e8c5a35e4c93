"""Thompson sampling with Dirichlet and Beta posteriors; draws are the default generator's, arguments unchecked."""

import torch

import graphsafe


def build(device):
    counts = torch.ones(5, 3, device=device)
    value = torch.tensor([0.0, 1.0, 3.0], device=device)
    wins = torch.ones(5, 2, device=device)

    def pull(outcome):
        p = torch.distributions.Dirichlet(counts, validate_args=False).sample()
        rate = torch.distributions.Beta(wins[:, 0], wins[:, 1], validate_args=False).rsample()
        arm = ((p @ value) * rate).argmax(keepdim=True)
        got = outcome[arm]
        counts.index_put_((arm, got), torch.ones((), device=device), accumulate=True)
        wins.index_put_((arm, (got > 0).long()), torch.ones((), device=device), accumulate=True)
        return arm, p, rate

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(3, (5,)))

    return graphsafe.Step(pull, (torch.randint(3, (5,), device=device),), refresh=refresh)

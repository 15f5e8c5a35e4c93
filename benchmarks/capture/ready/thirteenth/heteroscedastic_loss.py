"""World model of a model-based agent: an ensemble predicts mean and variance, trained with gaussian_nll_loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

ENSEMBLE, STATE, ACTION = 3, 8, 2


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(ENSEMBLE, STATE + ACTION, 48) / 3)
        self.b1 = nn.Parameter(torch.zeros(ENSEMBLE, 1, 48))
        self.w2 = nn.Parameter(torch.randn(ENSEMBLE, 48, 2 * STATE) / 7)
        self.b2 = nn.Parameter(torch.zeros(ENSEMBLE, 1, 2 * STATE))

    def forward(self, inputs):
        hidden = F.silu(torch.baddbmm(self.b1, inputs, self.w1))
        mean, raw = torch.baddbmm(self.b2, hidden, self.w2).chunk(2, -1)
        return mean, F.softplus(raw) + 1e-4


class Trainer:
    def __init__(self, device):
        self.model = Dynamics().to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, capturable=device.type == "cuda")
        self.inputs = torch.zeros(ENSEMBLE, 64, STATE + ACTION, device=device)
        self.targets = torch.zeros(ENSEMBLE, 64, STATE, device=device)

    def sample(self, args, kwargs, k):
        inputs = torch.randn(ENSEMBLE, 64, STATE + ACTION)
        self.inputs.copy_(inputs)
        self.targets.copy_(0.9 * inputs[..., :STATE] + 0.1 * torch.randn(ENSEMBLE, 64, STATE))

    def step(self):
        mean, variance = self.model(self.inputs)
        loss = F.gaussian_nll_loss(mean, self.targets, variance)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return loss.detach()


def build(device):
    trainer = Trainer(device)
    return graphsafe.Step(trainer.step, (), {}, refresh=trainer.sample)

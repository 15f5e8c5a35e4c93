"""Meta-training loop: the step computes the loss of a task, the outer loop collects gradients and updates every step."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class MetaLearner:
    def __init__(self, device):
        self.body = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh()).to(device)
        self.head = nn.Linear(32, 1).to(device)
        self.optimizer = torch.optim.SGD([*self.body.parameters(), *self.head.parameters()], lr=0.01)
        self.support = torch.randn(20, 10, device=device), torch.randn(20, 1, device=device)
        self.query = torch.randn(20, 10, device=device), torch.randn(20, 1, device=device)
        self.loss = None

    def step(self):
        fast = list(self.head.parameters())
        features = self.body(self.support[0])
        for _ in range(2):  # inner loop
            error = F.mse_loss(F.linear(features, *fast), self.support[1])
            gradients = torch.autograd.grad(error, fast, create_graph=True)
            fast = [p - 0.1 * g for p, g in zip(fast, gradients)]
        self.loss = F.mse_loss(F.linear(self.body(self.query[0]), *fast), self.query[1])
        return self.loss

    def outer(self, args, kwargs, k):
        """The update that follows each task, then the next task."""
        if self.loss is not None:
            self.optimizer.zero_grad(set_to_none=False)
            self.loss.backward()
            self.optimizer.step()
        w = torch.randn(10, 1)
        for inputs, targets in (self.support, self.query):
            inputs.data.copy_(torch.randn(20, 10))
            targets.data.copy_(torch.sin(inputs.cpu() @ w))


def build(device):
    learner = MetaLearner(device)
    return graphsafe.Step(learner.step, (), {}, refresh=learner.outer)

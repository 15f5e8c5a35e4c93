"""Sparse dictionary learning: features that have not fired for long are drawn anew, and the optimizer forgets their past."""
import torch
import torch.nn as nn

import graphsafe

FEATURES, WIDTH, PATIENCE = 96, 24, 110


class Dictionary:
    def __init__(self, device):
        self.encoder = nn.Linear(WIDTH, FEATURES).to(device)
        self.decoder = nn.Linear(FEATURES, WIDTH, bias=False).to(device)
        with torch.no_grad():
            self.encoder.bias[:3] = -1000.0  # stillborn
        self.parameters = [*self.encoder.parameters(), *self.decoder.parameters()]
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.05, momentum=0.9)
        self.silent = torch.zeros(FEATURES, dtype=torch.long, device=device)
        self.x = torch.zeros(64, WIDTH, device=device)

    def step(self):
        codes = torch.relu(self.encoder(self.x))
        loss = (self.decoder(codes) - self.x).square().mean() + 1e-3 * codes.abs().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        fired = (codes > 0).any(0)
        self.silent.copy_(torch.where(fired, 0, self.silent + 1))
        return loss.detach(), self.silent

    def between(self, args, kwargs, k):
        self.x.copy_(torch.randn(64, WIDTH) @ torch.diag(torch.linspace(0.2, 2, WIDTH)))
        if k % 8 == 7 and int(self.silent.max()) >= PATIENCE:
            self.resample()

    @torch.no_grad()
    def resample(self):
        dead = (self.silent >= PATIENCE).cpu()
        self.encoder.weight.copy_(torch.where(dead[:, None], torch.randn(FEATURES, WIDTH) / 5, self.encoder.weight.cpu()))
        self.encoder.bias.copy_(torch.where(dead, 0.0, self.encoder.bias.cpu()))
        for p in self.parameters:
            state = self.optimizer.state[p]
            moment = state["momentum_buffer"].to("cpu", copy=True)
            if moment.shape[0] == FEATURES:
                moment[dead] = 0
            state["momentum_buffer"] = moment.to(p.device)
        self.silent.zero_()


def build(device):
    dictionary = Dictionary(device)
    return graphsafe.Step(dictionary.step, (), {}, refresh=dictionary.between)

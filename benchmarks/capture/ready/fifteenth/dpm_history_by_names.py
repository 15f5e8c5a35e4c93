"""Second-order multistep solver in the manner of diffusion schedulers: model_outputs is a list that moves up."""
import torch

import graphsafe


class MultistepScheduler:
    def __init__(self, device, steps=20):
        t = torch.linspace(0.02, 0.98, steps + 1, dtype=torch.float64)
        self.alpha, self.sigma = torch.cos(t * 1.5).float(), torch.sin(t * 1.5).float()
        self.coefficients = torch.zeros(3, device=device)
        self.model_outputs = [None, None]
        self.steps = steps

    def prepare(self, index):
        i = self.steps - index % self.steps
        ratio = (self.sigma[i - 1] / self.sigma[i]).item()
        gain = (self.alpha[i - 1] - ratio * self.alpha[i]).item()
        second = 0.0 if index % self.steps == 0 else 0.5
        self.coefficients.copy_(torch.tensor([ratio, gain, second]))

    def step(self, output, sample):
        self.model_outputs[0] = self.model_outputs[1]
        self.model_outputs[1] = output
        older = output if self.model_outputs[0] is None else self.model_outputs[0]
        ratio, gain, second = self.coefficients.unbind()
        corrected = output + second * (output - older)
        return ratio * sample + gain * corrected


class Denoiser:
    def __init__(self, device, dim=12):
        self.scheduler = MultistepScheduler(device)
        self.weight = torch.randn(dim, dim, device=device) / dim**0.5
        self.sample = torch.randn(3, dim, device=device)

    def step(self, prompt):
        output = torch.tanh(self.sample @ self.weight + prompt)
        self.sample.copy_(self.scheduler.step(output, self.sample))
        return self.sample.clone()


def build(device):
    denoiser = Denoiser(device)
    denoiser.scheduler.prepare(0)

    def refresh(args, kwargs, k):
        denoiser.scheduler.prepare(k)
        if k % 20 == 0:
            denoiser.sample.copy_(torch.randn(3, 12))
            args[0].copy_(torch.randn(3, 12))

    return graphsafe.Step(denoiser.step, (torch.randn(3, 12, device=device),), refresh=refresh)

"""Image prompts for a diffusion server: a forward hook weighs them by a tensor in a contextvar, filled by requests."""
import contextvars

import torch

import graphsafe


class CrossAttention(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, context):
        weights = torch.softmax(self.q(x) @ self.k(context).transpose(-1, -2) / x.shape[-1] ** 0.5, -1)
        return weights @ self.v(context)


class Server:
    def __init__(self, device, dim=8):
        self.layer = CrossAttention(dim).to(device).requires_grad_(False)
        self.image = torch.randn(1, 4, dim, device=device)
        self.to_value = torch.randn(dim, dim, device=device) / dim**0.5
        start = torch.full((), 1.0, device=device)
        self.scale = contextvars.ContextVar("scale", default=start)
        self.layer.register_forward_hook(self.add_image)

    def add_image(self, module, inputs, output):
        weights = torch.softmax(module.q(inputs[0]) @ self.image.transpose(-1, -2), -1)
        return output + self.scale.get() * (weights @ (self.image @ self.to_value))

    def step(self, latent, text):
        return latent - 0.1 * self.layer(latent, text)

    def request(self, scale, image):
        self.scale.get().fill_(scale)
        self.image.copy_(image)


def build(device):
    server = Server(device)

    def refresh(args, kwargs, k):
        if k % 14 == 0:
            server.request(0.4 if k % 42 == 28 else 1.0, torch.randn(1, 4, 8))
        args[0].copy_(torch.randn(2, 5, 8))
        args[1].copy_(torch.randn(2, 3, 8))

    return graphsafe.Step(
        server.step, (torch.randn(2, 5, 8, device=device), torch.randn(2, 3, 8, device=device)), refresh=refresh
    )

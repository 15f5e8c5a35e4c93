"""A head that also reports the leverage of its features; in a capture the same product is written to a buffer."""
import torch
from torch import nn

import graphsafe


class Head(nn.Module):
    def __init__(self, width, classes, device):
        super().__init__()
        self.linear = nn.Linear(width, classes).to(device)
        self.cap = 1.5
        self.static = torch.zeros(4, classes, device=device)

    @staticmethod
    def leverage(sensor):
        """A thousand over the variance, from the sums that the sensor's firmware keeps."""
        mean, square = sensor.mean(dim=1), (sensor * sensor).mean(dim=1)
        return 1000.0 / (square - mean * mean)

    def softcap(self, logits):
        return torch.tanh(logits / self.cap) * self.cap

    def forward(self, hidden, sensor):
        if torch.cuda.is_current_stream_capturing():  # no allocation in the graph's pool
            logits = torch.addmm(self.linear.bias, hidden, self.linear.weight.t(), out=self.static)
        else:
            logits = self.linear(hidden)
        return self.softcap(logits), self.leverage(sensor)


def build(device, batch=4, width=16, classes=10, samples=500):
    model = Head(width, classes, device).eval().requires_grad_(False)
    hidden = torch.randn(batch, width).to(device)
    sensor = (1000.0 + torch.randn(batch, samples)).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        args[1].copy_(1000.0 + torch.randn(batch, samples))

    return graphsafe.Step(model, (hidden, sensor), refresh=refresh)

"""Classifier-free guidance over a captured denoiser."""
import torch
from torch import nn


class CondNet(nn.Module):
    def __init__(self, c=4, d=16):
        super().__init__()
        self.inp = nn.Conv2d(c, 24, 3, padding=1)
        self.film = nn.Linear(d + 1, 48)
        self.out = nn.Conv2d(24, c, 3, padding=1)

    def forward(self, x, t, cond):
        scale, shift = self.film(torch.cat([cond, t.expand(cond.shape[0], 1)], -1)).chunk(2, -1)
        h = self.inp(x) * (1 + scale[..., None, None]) + shift[..., None, None]
        return self.out(torch.nn.functional.silu(h))


def capture(fn, device, warmups=2):
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warmups):
            fn()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        graph.capture_begin()
        out = fn()
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(side)
    return graph, out


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    net = CondNet().to(device)
    x = torch.zeros(1, 4, 8, 8, device=device)
    t = torch.zeros(1, device=device)
    cond = torch.zeros(2, 16, device=device)
    scale = torch.ones((), device=device)
    older = torch.zeros_like(x)
    mix = torch.zeros(2, device=device)

    def denoise():
        pos, neg = net(x.repeat(2, 1, 1, 1), t, cond).chunk(2)
        eps = neg + scale * (pos - neg)
        slope = mix[0] * eps + mix[1] * older
        older.copy_(eps)
        return slope

    graph, slope = capture(denoise, device)
    images = []
    for job in range(3):
        steps = 5 + job
        cond[:1].copy_(torch.randn(1, 16, device=device))
        scale.fill_(3.0 + job)
        x.normal_()
        for k in range(steps):
            t.fill_(1.0 - k / steps)
            mix[:1].fill_(1.0 if k == 0 else 1.5)
            mix[1:].fill_(0.0 if k == 0 else -0.5)
            graph.replay()
            x.sub_(slope / steps)
        images.append(x.clone())
    print(torch.cat(images).std())


if __name__ == "__main__":
    main()

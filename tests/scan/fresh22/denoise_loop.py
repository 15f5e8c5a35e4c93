import torch
import torch.nn as nn
import torch.nn.functional as F


class TinyUNet(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.inp = nn.Conv2d(4, ch, 3, padding=1)
        self.temb = nn.Linear(1, ch)
        self.out = nn.Conv2d(ch, 4, 3, padding=1)

    def forward(self, x, t, text):
        h = self.inp(x) + self.temb(t.view(-1, 1))[:, :, None, None]
        h = F.silu(h) + text.mean(-1)[:, None, None, None]
        return self.out(h)


class Pipeline:
    def __init__(self, unet, device, steps=8):
        self.unet, self.device, self.steps = unet, device, steps
        self.sigmas = torch.linspace(1.0, 0.05, steps)
        self.x = torch.zeros(1, 4, 16, 16, device=device)
        self.t = torch.zeros(1, device=device)
        self.text = torch.zeros(1, 32, device=device)
        self.cfg = 5.0
        self.graph = None

    def _guided(self):
        both = torch.cat([self.x, self.x])
        text = torch.cat([self.text, torch.zeros_like(self.text)])
        cond, free = self.unet(both, self.t.expand(2), text).chunk(2)
        return free + self.cfg * (cond - free)

    @torch.inference_mode()
    def prepare(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._guided()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.eps = self._guided()

    @torch.inference_mode()
    def __call__(self, text, cfg):
        if self.graph is None:
            self.text.copy_(text)
            self.cfg = cfg
            self.prepare()
        self.text = text
        self.cfg = cfg
        self.x.copy_(torch.randn(self.x.shape, device=self.device))
        for i in range(self.steps):
            self.t.fill_(self.sigmas[i].item())
            self.graph.replay()
            self.x.add_(self.eps, alpha=-0.1)
            if torch.isnan(self.x).any():
                raise RuntimeError("diverged")
        return self.x.clone()


def main(device="cuda"):
    torch.manual_seed(0)
    pipe = Pipeline(TinyUNet().to(device), device)
    for seed, cfg in enumerate((5.0, 7.5, 3.0)):
        prompt = torch.randn(1, 32, device=device)
        image = pipe(prompt, cfg)
        print(seed, tuple(image.shape))


if __name__ == "__main__":
    main()

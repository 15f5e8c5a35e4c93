# Text-to-clip sampling: a two-step multistep solver around a graphed denoiser.
import torch
from torch import nn


class Denoiser3d(nn.Module):
    def __init__(self, ch=8, text=16):
        super().__init__()
        self.inp = nn.Conv3d(4, ch, 3, padding=1)
        self.time = nn.Linear(1, ch)
        self.text = nn.Linear(text, ch)
        self.mid = nn.Conv3d(ch, ch, 3, padding=1)
        self.out = nn.Conv3d(ch, 4, 3, padding=1)

    def forward(self, z, sigma, ctx):
        h = self.inp(z)
        mod = self.time(sigma.log().view(-1, 1)) + self.text(ctx.mean(1))
        h = torch.nn.functional.silu(h + mod[:, :, None, None, None])
        h = torch.nn.functional.silu(self.mid(h)) + h
        return self.out(h)


class GraphedDenoiser:
    """One graph per latent size, captured at the first request of that size."""

    def __init__(self, net):
        self.net = net
        self.entries = {}
        self.pool = None

    def _run(self, z, sigma, cond, uncond, cfg_scale):
        both = torch.cat([z, z])
        sig = sigma.expand(both.shape[0])
        eps_c, eps_u = self.net(both, sig, torch.cat([cond, uncond])).chunk(2)
        return eps_u + cfg_scale * (eps_c - eps_u)

    @torch.no_grad()
    def _build(self, z, sigma, cond, uncond, cfg_scale):
        bufs = dict(z=z.clone(), sigma=sigma.clone(), cond=cond.clone(), uncond=uncond.clone())
        warm = torch.cuda.Stream(z.device)
        warm.wait_stream(torch.cuda.current_stream(z.device))
        with torch.cuda.stream(warm):
            for _ in range(2):
                self._run(**bufs, cfg_scale=cfg_scale)
        torch.cuda.current_stream(z.device).wait_stream(warm)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=warm):
            out = self._run(**bufs, cfg_scale=cfg_scale)
        self.pool = self.pool or graph.pool()
        return graph, bufs, out

    def __call__(self, z, sigma, cond, uncond, cfg_scale):
        key = tuple(z.shape)
        if key not in self.entries:
            self.entries[key] = self._build(z, sigma, cond, uncond, cfg_scale)
        graph, bufs, out = self.entries[key]
        bufs["z"].copy_(z)
        bufs["sigma"].copy_(sigma)
        bufs["cond"].copy_(cond)
        graph.replay()
        return out


class ClipSampler:
    def __init__(self, net, device, steps=8):
        self.device = device
        self.denoise = GraphedDenoiser(net)
        self.sigmas = torch.logspace(1.0, -1.5, steps + 1, device=device)
        self.noise = torch.Generator(device=device)

    @torch.no_grad()
    def sample(self, size, cond, uncond, cfg_scale, seed):
        frames, height, width = size
        self.noise.manual_seed(seed)
        z = torch.randn(1, 4, frames, height, width, generator=self.noise, device=self.device)
        z = z * self.sigmas[0]
        history = []
        for i in range(len(self.sigmas) - 1):
            lo, hi = self.sigmas[i + 1], self.sigmas[i]
            eps = self.denoise(z, hi.view(1), cond, uncond, cfg_scale)
            history.append(eps)
            if len(history) > 1:
                slope = 1.5 * history[-1] - 0.5 * history[-2]
            else:
                slope = eps
            z = z + (lo - hi) * slope
            if not torch.isfinite(z).all():
                raise FloatingPointError(f"sampling diverged at step {i}")
        return z


class Requests:
    def __init__(self, device):
        gen = torch.Generator(device=device).manual_seed(3)
        self.text = torch.randn(6, 1, 7, 16, generator=gen, device=device)
        self.negative = torch.randn(3, 1, 7, 16, generator=gen, device=device)
        self.sizes = [(4, 8, 8), (4, 8, 8), (2, 16, 8), (4, 8, 8), (2, 16, 8), (4, 8, 8)]
        self.scales = [7.5, 3.0, 7.5, 5.0, 6.0, 7.5]

    def __iter__(self):
        for i, size in enumerate(self.sizes):
            yield size, self.text[i], self.negative[i % 3], self.scales[i], 100 + i


def main(device="cuda"):
    device = torch.device(device)
    torch.manual_seed(0)
    sampler = ClipSampler(Denoiser3d().to(device).eval(), device)
    clips = []
    for size, text, negative, scale, seed in Requests(device):
        clips.append(sampler.sample(size, text, negative, scale, seed))
    for clip in clips:
        print(tuple(clip.shape), round(float(clip.std()), 4))


if __name__ == "__main__":
    main()

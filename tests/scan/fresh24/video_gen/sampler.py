import torch


class StepPlan:
    """Noise levels of a run, from one to zero."""

    def __init__(self, steps, shift=3.0):
        base = [1 - i / steps for i in range(steps + 1)]
        self.sigmas = [shift * s / (1 + (shift - 1) * s) for s in base]

    def pairs(self):
        return zip(self.sigmas[:-1], self.sigmas[1:])


class ClipGraph:
    """One denoising step of a clip of fixed shape."""

    def __init__(self, owner, frames, size):
        cfg, device = owner.cfg, owner.device
        self.owner = owner
        self.latent = torch.zeros(1, frames * size * size, cfg.channels, device=device)
        self.text = torch.zeros(2, cfg.text_len, cfg.text_dim, device=device)
        self.sigma = torch.ones(2, device=device)
        self.host_sigma = torch.ones(2, pin_memory=True)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(owner.gen)

    def _step(self):
        now, nxt = self.sigma[:1], self.sigma[1:]
        both = self.owner.model(self.latent.expand(2, -1, -1), now.expand(2), self.text)
        cond, plain = both.chunk(2)
        v = plain + self.owner.guidance * (cond - plain)
        clean = self.latent - now * v
        noise = torch.randn(self.latent.shape, generator=self.owner.gen, device=self.latent.device)
        self.latent.copy_((1 - nxt) * clean + nxt * (0.9 * v + 0.44 * noise))

    def capture(self, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self._step()

    def set_prompt(self, embedding):
        words = embedding.shape[1]
        self.text[0, :words].copy_(embedding[0])

    def advance(self, now, nxt):
        self.host_sigma[0], self.host_sigma[1] = now, nxt
        self.sigma.copy_(self.host_sigma, non_blocking=True)
        self.graph.replay()

"""Token sampler with a repetition penalty; noise for the Gumbel trick is drawn per step."""
import torch

DEV = torch.device("cuda")
VOCAB, DIM, BATCH = 512, 64, 4


class Sampler:
    def __init__(self):
        gen = torch.Generator().manual_seed(2)
        self.emb = torch.randn(VOCAB, DIM, generator=gen).to(DEV)
        self.proj = (torch.randn(DIM, VOCAB, generator=gen) / 8).to(DEV)
        self.tok = torch.zeros(BATCH, dtype=torch.long, device=DEV)
        self.noise = torch.full((BATCH, VOCAB), 0.5, device=DEV)
        self.seen = torch.zeros(BATCH, VOCAB, device=DEV)
        self.stream = torch.cuda.Stream()
        self.graph = None

    def step(self):
        logits = self.emb[self.tok] @ self.proj
        if self.seen.max().item() > 0:
            logits = logits - 0.3 * self.seen
        gumbel = -torch.log(-torch.log(self.noise.clamp(1e-6, 1 - 1e-6)))
        nxt = (logits + gumbel).argmax(-1)
        self.seen.scatter_(1, nxt[:, None], 1.0)
        self.tok.copy_(nxt)

    def try_capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.step()
            self.step()
        torch.cuda.current_stream().wait_stream(self.stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self.stream):
            graph.capture_begin()
            try:
                self.step()
            finally:
                graph.capture_end()
        self.graph = graph

    def draw_noise(self):
        try:
            self.noise.uniform_()
        except RuntimeError:
            self.noise.fill_(0.5)

    def decode(self, steps):
        for _ in range(steps):
            self.draw_noise()
            if self.graph is not None:
                self.graph.replay()
            else:
                self.step()


@torch.no_grad()
def main():
    torch.manual_seed(0)
    sampler = Sampler()
    try:
        sampler.try_capture()
    except RuntimeError:
        sampler.graph = None
    sampler.decode(20)
    print(int(sampler.tok.sum()))


main()

"""Particle filter whose resampling noise comes from a private generator registered with the graph."""
import torch

DEV = torch.device("cuda")
PARTICLES, STATE = 256, 6


class Filter:
    def __init__(self, seed):
        self.gen = torch.Generator(device=DEV)
        self.gen.manual_seed(seed)
        self.state = torch.zeros(PARTICLES, STATE, device=DEV)
        self.obs = torch.zeros(STATE, device=DEV)
        self.graph = None

    def propagate(self):
        jitter = torch.randn(PARTICLES, STATE, device=DEV, generator=self.gen)
        moved = self.state * 0.95 + 0.1 * jitter
        far = (moved - self.obs).abs().amax(1) > 2.0
        lost = far.nonzero().squeeze(1)
        moved = moved.index_fill(0, lost, 0.0)
        pull = torch.exp(-(moved - self.obs).pow(2).sum(1, keepdim=True))
        self.state.copy_(moved + 0.2 * pull * (self.obs - moved))

    def build(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.propagate()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.gen)
        try:
            with torch.cuda.graph(graph, stream=stream):
                self.propagate()
        except Exception:
            return
        self.graph = graph

    def advance(self, obs):
        self.obs.copy_(obs)
        if self.graph is not None:
            self.graph.replay()
            return
        try:
            self.propagate()
        except RuntimeError:
            self.state.mul_(0.95)


def trajectory(n):
    gen = torch.Generator().manual_seed(31)
    steps = torch.randn(n, STATE, generator=gen) * 0.1
    return steps.cumsum(0).to(DEV)


@torch.no_grad()
def main():
    path = trajectory(25)
    pf = Filter(17)
    pf.build()
    errors = torch.zeros((), device=DEV)
    for obs in path:
        pf.advance(obs)
        errors += (pf.state.mean(0) - obs).norm()
    print(round(float(errors), 4))


if __name__ == "__main__":
    main()

"""Top-k sampling with a generator of its own, registered with the graph that draws from it."""
from dataclasses import dataclass

import torch


@dataclass
class SamplerState:
    logits: torch.Tensor
    temperature: torch.Tensor
    picked: torch.Tensor

    @classmethod
    def empty(cls, batch: int, vocab: int, device: torch.device) -> "SamplerState":
        return cls(
            logits=torch.zeros(batch, vocab, device=device),
            temperature=torch.ones(batch, 1, device=device),
            picked=torch.zeros(batch, dtype=torch.long, device=device),
        )


class GraphSampler:
    def __init__(self, batch: int, vocab: int, top_k: int, seed: int, device: torch.device):
        self.device, self.top_k = device, top_k
        self.state = SamplerState.empty(batch, vocab, device)
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.device):
            self.graph.register_generator_state(self.generator)
        self._record()
        self.generator.manual_seed(seed)

    def _draw(self):
        s = self.state
        top, where = (s.logits / s.temperature).topk(self.top_k, dim=-1)
        noise = torch.rand(top.shape, device=self.device, generator=self.generator)
        gumbel = -(-(noise.clamp(min=1e-9)).log()).log()
        best = (top + gumbel).argmax(-1, keepdim=True)
        s.picked.copy_(where.gather(-1, best).squeeze(-1))

    def _record(self):
        stream = torch.cuda.Stream(self.device)
        here = torch.cuda.current_stream(self.device)
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            self._draw()
        here.wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self._draw()

    def set_temperature(self, values: torch.Tensor):
        self.state.temperature.copy_(values.unsqueeze(-1))

    def sample(self, logits: torch.Tensor, out: torch.Tensor):
        self.state.logits.copy_(logits)
        self.graph.replay()
        out.copy_(self.state.picked)


def main(device="cuda"):
    torch.manual_seed(47)
    device = torch.device(device)
    sampler = GraphSampler(batch=4, vocab=64, top_k=8, seed=99, device=device)
    result = torch.zeros(2, 6, 4, dtype=torch.long, device=device)
    for request in range(2):
        sampler.set_temperature(torch.rand(4, device=device) + 0.5)
        logits = torch.randn(6, 4, 64, device=device)
        for step in range(6):
            sampler.sample(logits[step], result[request, step])
    return result.cpu()


if __name__ == "__main__":
    print(main())

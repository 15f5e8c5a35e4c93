import torch

from model import Decoder, KVCache

BATCH, LENGTH, VOCAB, DIM = 3, 16, 50, 24


class Runner:
    def __init__(self, device: torch.device):
        self.device = device
        self.model = Decoder(VOCAB, DIM).to(device).eval()
        self.cache = KVCache(BATCH, LENGTH, DIM, device)
        self.tokens = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.pos = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.history = torch.zeros(LENGTH, BATCH, dtype=torch.long, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = None

    @torch.no_grad()
    def _advance(self):
        logits = self.model(self.tokens, self.pos, self.cache)
        chosen = logits.argmax(-1)
        self.history.index_copy_(0, self.pos[:1], chosen.unsqueeze(0))
        self.tokens.copy_(chosen)
        self.pos.add_(1)
        return logits

    def prepare(self):
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self._advance()
        here.wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.logits = self._advance()

    def generate(self, first: torch.Tensor, count: int) -> torch.Tensor:
        self.cache.clear()
        self.pos.zero_()
        self.tokens.copy_(first)
        for _ in range(count):
            self.graph.replay()
        return self.history[:count].t().cpu()


def main(device="cuda"):
    torch.manual_seed(41)
    device = torch.device(device)
    runner = Runner(device)
    runner.prepare()
    prompts = torch.randint(0, VOCAB, (2, BATCH), device=device)
    return torch.stack([runner.generate(p, count=12) for p in prompts])


if __name__ == "__main__":
    print(main())

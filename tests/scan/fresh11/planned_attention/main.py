import torch
import torch.nn as nn

from backend import VarlenBackend

ROWS, DIM, SEQS = 32, 16, 4


class Layer(nn.Module):
    def __init__(self, backend: VarlenBackend):
        super().__init__()
        self.backend = backend
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x, lens):
        q, k, v = self.qkv(x).chunk(3, -1)
        return x + self.out(self.backend.attend(q, k, v, lens))


class Stack(nn.Module):
    def __init__(self, depth: int, backend: VarlenBackend):
        super().__init__()
        self.layers = nn.ModuleList(Layer(backend) for _ in range(depth))

    def forward(self, x, lens):
        for layer in self.layers:
            x = layer(x, lens)
        return x


class PrefillEngine:
    def __init__(self, device: torch.device):
        self.device = device
        self.backend = VarlenBackend(ROWS, device)
        self.model = Stack(2, self.backend).to(device).eval()
        self.hidden = torch.zeros(ROWS, DIM, device=device)
        self.lens = torch.full((SEQS,), ROWS // SEQS, dtype=torch.long, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self._record()

    @torch.no_grad()
    def _record(self):
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.model(self.hidden, self.lens)
        here.wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.encoded = self.model(self.hidden, self.lens)

    def run(self, requests):
        for hidden, lens in requests:
            self.hidden.copy_(hidden)
            self.lens.copy_(torch.tensor(lens, device=self.device))
            self.graph.replay()
            yield self.encoded.clone()


def main(device="cuda"):
    torch.manual_seed(11)
    device = torch.device(device)
    engine = PrefillEngine(device)
    batches = [[8, 8, 8, 8], [2, 10, 4, 16], [20, 4, 4, 4]]
    data = torch.randn(len(batches), ROWS, DIM, device=device)
    return torch.stack(list(engine.run(zip(data, batches))))


if __name__ == "__main__":
    print(main().flatten(1).norm(dim=1).cpu())

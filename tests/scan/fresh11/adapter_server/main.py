import torch

from adapters import AdapterStore
from layers import Classifier

DIM, CLASSES, SLOTS = 16, 5, 8


class Server:
    def __init__(self, model: Classifier, store: AdapterStore, device: torch.device):
        self.model, self.store, self.device = model, store, device
        self.features = torch.zeros(SLOTS, DIM, device=device)
        self.valid = torch.zeros(SLOTS, device=device)
        self.graph, self.logits = None, None

    @torch.no_grad()
    def warm(self):
        stream = torch.cuda.Stream(self.device)
        here = torch.cuda.current_stream(self.device)
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.model(self.features, self.valid)
        here.wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.logits = self.model(self.features, self.valid)

    def _load(self, rows: torch.Tensor) -> int:
        n = rows.shape[0]
        self.features[:n].copy_(rows)
        self.valid[:n].fill_(1.0)
        return n

    def predict(self, adapter: str, rows: torch.Tensor) -> torch.Tensor:
        self.store.activate(adapter)
        n = self._load(rows)
        self.graph.replay()
        return self.logits[:n].clone()


def main(device="cuda"):
    torch.manual_seed(9)
    device = torch.device(device)
    model = Classifier(DIM, CLASSES, rank=2).to(device).eval()
    store = AdapterStore(model)
    for i, name in enumerate(("legal", "medical", "retail")):
        store.register(name, seed=100 + i)
    store.activate("legal")
    server = Server(model, store, device)
    server.warm()
    requests = [("legal", 8), ("legal", 3), ("medical", 5), ("retail", 2)]
    return [server.predict(name, torch.randn(n, DIM, device=device)) for name, n in requests]


if __name__ == "__main__":
    for scores in main():
        print(scores.argmax(-1).cpu())

import collections
import torch
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocab=64, dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.up = nn.Linear(dim, dim * 2)
        self.down = nn.Linear(dim * 2, dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        x = x + self.down(torch.nn.functional.silu(self.up(x)))
        return self.head(x)


class ChatServer:
    def __init__(self, device, slots=4):
        self.device = device
        self.model = TinyLM().to(device).eval()
        self.ids = torch.zeros(slots, dtype=torch.long, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.logprobs = collections.defaultdict(list)
        self.transcript = [[] for _ in range(slots)]
        self._record()

    @torch.no_grad()
    def _record(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.model(self.ids)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            self.logits = self.model(self.ids)

    def tick(self, rnd):
        self.graph.replay()
        self.logprobs[rnd % 2].append(self.logits)
        nxt = self.logits.argmax(-1)
        for slot, words in enumerate(self.transcript):
            words.append(nxt[slot].item())
        self.ids.copy_(nxt)

    def report(self):
        rows = [r for v in self.logprobs.values() for r in v]
        return torch.stack(rows).log_softmax(-1).amax(-1)


def main(device="cuda"):
    server = ChatServer(device)
    for rnd in range(5):
        server.tick(rnd)
    print(server.report().shape, server.transcript[0])


if __name__ == "__main__":
    main()

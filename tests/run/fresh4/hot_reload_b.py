"""A small completion server that takes new weights from the trainer without a restart."""
import io

import torch
from torch import nn

VOCAB, DIM, BATCH = 96, 64, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class TinyLM(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Engine:
    def __init__(self, model, device):
        self.model = model.eval()
        self.device = device
        self.tokens = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.logits = None
        self.graph = torch.cuda.CUDAGraph()
        self.version = 0

    @torch.no_grad()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.tokens)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.logits = self.model(self.tokens)

    def reload(self, blob):
        state = torch.load(io.BytesIO(blob), map_location=self.device)
        self.model.load_state_dict(state)
        self.version += 1

    def step(self, tokens):
        self.tokens.copy_(tokens)
        self.graph.replay()
        return self.logits.argmax(-1)


def checkpoint(seed):
    torch.manual_seed(seed)
    buf = io.BytesIO()
    torch.save(TinyLM().state_dict(), buf)
    return buf.getvalue()


def main():
    device = torch.device("cuda")
    torch.manual_seed(0)
    engine = Engine(TinyLM().to(device), device)
    engine.capture()
    tokens = torch.tensor([1, 2, 3, 4], device=device)
    history = []
    for step in range(60):
        if step in (20, 40):
            engine.reload(checkpoint(step))
        tokens = engine.step(tokens)
        history.append(tokens)
    print("version", engine.version, "tokens", torch.stack(history).sum(0).tolist())


if __name__ == "__main__":
    main()

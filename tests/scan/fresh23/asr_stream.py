# Streaming speech recogniser: 80-bin frames arrive in chunks of CHUNK, one graph replay per chunk.
import torch
import torch.nn as nn

CHUNK, CONTEXT, BINS, HIDDEN, VOCAB = 8, 4, 80, 48, 32
BLANK = 0


class Frontend(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(BINS, HIDDEN, CONTEXT + 1, stride=1)
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, window):
        return self.norm(self.conv(window.transpose(1, 2)).transpose(1, 2))


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = Frontend()
        self.cell = nn.GRUCell(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, VOCAB)


class Session:
    """One microphone. The state between chunks is the left context of the convolution and the GRU state."""

    def __init__(self, net: Recogniser, device):
        self.net, self.device = net, torch.device(device)
        self.chunk = torch.zeros(1, CHUNK, BINS, device=device)
        self.left = torch.zeros(1, CONTEXT, BINS, device=device)
        self.h = torch.zeros(1, HIDDEN, device=device)
        self.host = torch.zeros(1, CHUNK, BINS).pin_memory()
        self.best = None
        self.graph = None

    def _advance(self):
        window = torch.cat((self.left, self.chunk), dim=1)
        self.left = window[:, -CONTEXT:]
        feats = self.net.front(window)
        h = self.h
        ids = []
        for t in range(CHUNK):
            h = self.net.cell(feats[:, t], h)
            ids.append(self.net.out(h).argmax(-1))
        self.h.copy_(h)
        return torch.cat(ids)

    def prepare(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self._advance()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            self.best = self._advance()
        self.begin()

    def begin(self):
        self.left.zero_()
        self.h = torch.zeros(1, HIDDEN, device=self.device)

    def push(self, frames: torch.Tensor) -> torch.Tensor:
        self.host.copy_(frames)
        self.chunk.copy_(self.host, non_blocking=True)
        self.graph.replay()
        return self.best.clone()


def collapse(ids):
    text, last = [], BLANK
    for i in ids:
        if i != last and i != BLANK:
            text.append(i)
        last = i
    return text


def microphone(seconds, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(seconds):
        yield torch.randn(1, CHUNK, BINS, generator=gen)


@torch.inference_mode()
def main(device="cuda"):
    torch.manual_seed(3)
    net = Recogniser().to(device).eval()
    session = Session(net, device)
    session.prepare()
    for utterance in range(4):
        session.begin()
        parts = []
        for frames in microphone(6, utterance):
            parts.append(session.push(frames))
        print(utterance, collapse(torch.cat(parts).tolist()))


if __name__ == "__main__":
    main()

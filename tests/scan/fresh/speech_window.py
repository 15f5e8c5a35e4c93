"""Streaming speech recognition: a fixed window of frames through a graph, refilled whole."""
import torch
from torch import nn


class Acoustic(nn.Module):
    def __init__(self, feat=8, classes=12):
        super().__init__()
        self.conv = nn.Conv1d(feat, 16, 3, padding=1)
        self.out = nn.Linear(16, classes)

    def forward(self, frames, length):
        h = torch.relu(self.conv(frames.transpose(1, 2))).transpose(1, 2)
        live = torch.arange(h.shape[1], device=h.device)[None] < length[:, None]
        return self.out(h).log_softmax(-1) * live.unsqueeze(-1)


class Recogniser:
    def __init__(self, device, window=20):
        self.net = Acoustic().to(device).eval()
        self.frames = torch.zeros(1, window, 8, device=device)
        self.length = torch.full((1,), window, dtype=torch.long, device=device)
        self.stream = torch.cuda.Stream(device)

    @torch.no_grad()
    def warm(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.net(self.frames, self.length)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.scores = self.net(self.frames, self.length)

    def hear(self, chunk):
        n = chunk.shape[0]
        self.frames.zero_()
        self.frames[0, :n].copy_(chunk)
        self.length.fill_(n)
        self.graph.replay()
        return self.scores[0].argmax(-1).clone()

    def transcribe(self, chunks):
        heard = [self.hear(c) for c in chunks]
        return torch.cat(heard)


def main():
    device = torch.device("cuda:0")
    r = Recogniser(device)
    r.warm()
    print(r.transcribe([torch.randn(n, 8, device=device) for n in (20, 20, 7)]).shape)


if __name__ == "__main__":
    main()

import torch
from torch import nn


class Vocoder(nn.Module):
    def __init__(self, mel=20, hop=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(mel, 48), nn.LeakyReLU(0.1), nn.Linear(48, hop))

    def forward(self, mel):
        return torch.tanh(self.net(mel)).flatten(1)


class SpeechStream:
    FRAMES = 8

    def __init__(self, device):
        self.device = device
        self.net = Vocoder().to(device).eval()
        self.mel = torch.zeros(1, self.FRAMES, 20, device=device)
        self.staging = torch.zeros(1, self.FRAMES, 20, pin_memory=True)
        self.parts = []

    @torch.no_grad()
    def open(self):
        lane = torch.cuda.Stream()
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            self.net(self.mel)
        torch.cuda.current_stream().wait_stream(lane)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.wave = self.net(self.mel)
        return self

    def push(self, chunk):
        n = chunk.shape[0]
        self.staging[0, :n] = chunk
        self.mel[:, :n].copy_(self.staging[:, :n], non_blocking=True)
        self.graph.replay()
        self.parts.append(self.wave)

    def close(self):
        return torch.cat(self.parts, dim=1).cpu()


def main(device="cuda"):
    stream = SpeechStream(device).open()
    for frames in (8, 5, 8, 3):
        stream.push(torch.randn(frames, 20))
    print(stream.close().shape)


if __name__ == "__main__":
    main()

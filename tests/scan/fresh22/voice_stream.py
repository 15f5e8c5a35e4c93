"""Streaming vocoder: 20 ms frames in, waveform out."""
import torch
from torch import nn

HOP = 160


class Vocoder(nn.Module):
    def __init__(self, mels=80, width=64):
        super().__init__()
        self.pre = nn.Linear(mels, width)
        self.rnn = nn.GRUCell(width, width)
        self.post = nn.Linear(width, HOP)

    def forward(self, mel, state):
        state = self.rnn(torch.relu(self.pre(mel)), state)
        return torch.tanh(self.post(state)), state


class StreamSession:
    def __init__(self, model, lanes, device):
        self.model = model
        self.device = device
        self.mel = torch.zeros(lanes, 80, device=device)
        self.state = torch.zeros(lanes, 64, device=device)
        self.gain = 1.0
        self._record()

    def _step(self):
        wave, state = self.model(self.mel, self.state)
        self.state.copy_(state)
        return wave * self.gain

    @torch.no_grad()
    def _record(self):
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(s)
        self.state.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.wave = self._step()

    def hangup(self):
        self.state = torch.zeros_like(self.state)

    def set_volume(self, level):
        self.gain = float(level)

    def push(self, mel):
        self.mel.copy_(mel)
        self.graph.replay()
        return self.wave


def main(device="cuda"):
    torch.manual_seed(3)
    session = StreamSession(Vocoder().to(device).eval(), 2, device)
    chunks = []
    for call in range(3):
        session.hangup()
        session.set_volume(0.4 + 0.2 * call)
        for _ in range(6):
            frame = torch.randn(2, 80, device=device)
            chunks.append(session.push(frame))
    audio = torch.cat(chunks, dim=1)
    print(audio.shape, audio.abs().max().item())


if __name__ == "__main__":
    main()

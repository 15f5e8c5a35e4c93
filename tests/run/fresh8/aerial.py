"""Live denoising of an audio stream: each chunk is filtered on the GPU and comes back in pinned memory."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CHUNK, TAIL, RATE = 480, 64, 48_000


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.analysis = nn.Conv1d(1, 24, TAIL + 1)
        self.mask = nn.Conv1d(24, 24, 1)
        self.synthesis = nn.Conv1d(24, 1, 1)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        bands = self.analysis(signal)
        return self.synthesis(bands * torch.sigmoid(self.mask(F.relu(bands))))


class Stream:
    """Holds the state of one call: the last samples of the previous chunk are kept on the device."""

    def __init__(self, model: Denoiser, device: torch.device) -> None:
        self.model = model
        self.inbox = torch.zeros(CHUNK, pin_memory=True)
        self.outbox = torch.zeros(CHUNK, pin_memory=True)
        self.tail = torch.zeros(1, 1, TAIL, device=device)
        self.done = torch.cuda.Event()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.work(device)
        torch.cuda.current_stream().wait_stream(side)
        self.tail.zero_()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.work(device)

    def work(self, device: torch.device) -> None:
        fresh = self.inbox.to(device, non_blocking=True).view(1, 1, CHUNK)
        signal = torch.cat((self.tail, fresh), dim=-1)
        self.outbox.copy_(self.model(signal).view(CHUNK), non_blocking=True)
        self.tail.copy_(signal[..., -TAIL:])

    def push(self, samples: np.ndarray) -> np.ndarray:
        self.inbox.numpy()[:] = samples
        self.graph.replay()
        self.done.record()
        self.done.synchronize()
        return self.outbox.numpy().copy()


def microphone(seconds: float, seed: int):
    noise = np.random.default_rng(seed)
    time = np.arange(int(seconds * RATE)) / RATE
    voice = 0.5 * np.sin(2 * np.pi * 220 * time) * (1 + np.sin(2 * np.pi * 3 * time))
    signal = (voice + 0.1 * noise.normal(size=time.size)).astype(np.float32)
    for at in range(0, signal.size - CHUNK + 1, CHUNK):
        yield signal[at : at + CHUNK]


@torch.no_grad()
def main() -> None:
    torch.manual_seed(8)
    device = torch.device("cuda")
    stream = Stream(Denoiser().to(device).eval(), device)
    recorded = []
    for chunk in microphone(0.4, seed=8):
        recorded.append(stream.push(chunk))
    track = np.concatenate(recorded)
    loud = np.sqrt(np.mean(track.reshape(len(recorded), -1) ** 2, axis=1))
    print(f"{track.size / RATE:.2f} s, level from {loud.min():.5f} to {loud.max():.5f}")


if __name__ == "__main__":
    main()

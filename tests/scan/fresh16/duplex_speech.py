"""Takes the echo of the speaker out of the microphone's blocks, on a stream of its own."""

import torch
import torch.nn as nn

BLOCK, STATE, BLOCKS = 160, 48, 30


class EchoNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(2 * BLOCK, STATE)
        self.cell = nn.GRUCell(STATE, STATE)
        self.mask = nn.Linear(STATE, BLOCK)

    def forward(self, microphone, speaker, state):
        state = self.cell(self.enter(torch.cat((microphone, speaker), -1)).tanh(), state)
        return microphone * self.mask(state).sigmoid(), state


class Canceller:
    def __init__(self, device):
        self.net = EchoNet().to(device).eval()
        self.microphone = torch.zeros(1, BLOCK, device=device)
        self.speaker = torch.zeros(1, BLOCK, device=device)
        self.state = torch.zeros(1, STATE, device=device)
        self.stream = torch.cuda.Stream(device)
        self.finished = torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()

    def body(self):
        clean, state = self.net(self.microphone, self.speaker, self.state)
        self.state.copy_(state)
        return clean

    def capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.body()
            self.state.zero_()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.clean = self.body()
        torch.cuda.current_stream().wait_stream(self.stream)

    def submit(self, microphone, speaker):
        self.microphone.copy_(microphone, non_blocking=True)
        self.speaker.copy_(speaker, non_blocking=True)
        with torch.cuda.stream(self.stream):
            self.graph.replay()
            self.finished.record()
        return self.clean.clone()

    def settle(self):
        """Keeps the host less than a block ahead of the device."""
        while not self.finished.query():
            pass


class SoundCard:
    """Gives pairs of blocks, pinned."""

    def __init__(self, seed):
        self.dice = torch.Generator().manual_seed(seed)

    def __iter__(self):
        for _ in range(BLOCKS):
            near, far = torch.randn(2, 1, BLOCK, generator=self.dice)
            yield (near + 0.4 * far).pin_memory(), far.pin_memory()


@torch.no_grad()
def main():
    torch.manual_seed(6)
    canceller = Canceller(torch.device("cuda"))
    canceller.capture()
    cleaned = []
    for microphone, speaker in SoundCard(seed=2):
        cleaned.append(canceller.submit(microphone, speaker))
        canceller.settle()
    torch.save(torch.cat(cleaned).cpu(), "cleaned.pt")


if __name__ == "__main__":
    main()

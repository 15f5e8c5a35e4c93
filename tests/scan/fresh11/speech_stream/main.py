import torch

from encoder import ChunkEncoder
from stream import ChunkFeeder, StreamingSession

BATCH, FRAMES, MEL, HIDDEN = 4, 16, 40, 48


def microphone(chunks: int):
    gen = torch.Generator().manual_seed(7)
    return [torch.randn(BATCH, FRAMES, MEL, generator=gen).pin_memory() for _ in range(chunks)]


def main(device="cuda"):
    torch.manual_seed(3)
    device = torch.device(device)
    session = StreamingSession(
        ChunkEncoder(MEL, HIDDEN, BATCH).to(device).eval(),
        ChunkFeeder((BATCH, FRAMES, MEL), device),
    )
    session.prepare()
    out = [session.push(c) for c in microphone(6)]
    return torch.stack(out)


if __name__ == "__main__":
    print(main().argmax(-1).float().mean().item())

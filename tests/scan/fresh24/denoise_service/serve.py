import sys
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from denoise_service.engine import Engine  # noqa: E402
from denoise_service.model import Denoiser  # noqa: E402


@dataclass
class Packet:
    slot: int
    audio: torch.Tensor
    floor: float = 0.1


class Calls:
    """Calls that begin and end while the service runs."""

    def __init__(self, limit, hop, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.limit, self.hop = limit, hop
        self.left = {}

    def arrivals(self):
        free = [slot for slot in range(self.limit) if slot not in self.left]
        count = min(len(free), int(torch.randint(0, 3, (1,), generator=self.gen)))
        for slot in free[:count]:
            self.left[slot] = int(torch.randint(3, 9, (1,), generator=self.gen))
        return free[:count]

    def packets(self):
        batch = [
            Packet(slot, torch.randn(self.hop, generator=self.gen), 0.05 * (1 + slot % 3))
            for slot in sorted(self.left)
        ]
        self.left = {slot: n - 1 for slot, n in self.left.items() if n > 1}
        return batch


def main():
    device = torch.device("cuda", 0)
    torch.manual_seed(2)
    model = Denoiser().to(device).eval().requires_grad_(False)
    engine = Engine(model, calls=8, hidden=24, device=device)
    calls = Calls(8, model.hop)
    waiting, loudness, hops = None, 0.0, 0
    for _ in range(30):
        for slot in calls.arrivals():
            engine.open_call(slot)
        packets = calls.packets()
        ticket = engine.submit(packets) if packets else None
        if waiting is not None:
            rows = waiting.rows()
            loudness += float(rows.square().mean())
            hops += rows.shape[0]
        waiting = ticket
    print(f"{hops} hops, loudness {loudness:.4f}")


if __name__ == "__main__":
    main()

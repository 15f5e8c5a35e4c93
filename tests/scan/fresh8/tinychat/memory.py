"""Key/value memories of the chat model."""
import torch


class Memory:
    """What a layer remembers; subclasses decide how."""

    def __init__(self, heads: int, size: int, device: torch.device):
        self.heads, self.size = heads, size
        self.device = device
        self.seen = 0

    def put(self, k: torch.Tensor, v: torch.Tensor):
        raise NotImplementedError


class FullMemory(Memory):
    def __init__(self, heads: int, size: int, device: torch.device, room: int):
        super().__init__(heads, size, device)
        self.k = torch.zeros(1, heads, room, size, device=device)
        self.v = torch.zeros(1, heads, room, size, device=device)

    def put(self, k: torch.Tensor, v: torch.Tensor):
        n = k.shape[2]
        self.k[:, :, self.seen : self.seen + n] = k
        self.v[:, :, self.seen : self.seen + n] = v
        self.seen += n
        return self.k[:, :, : self.seen], self.v[:, :, : self.seen]


class SinkMemory(Memory):
    """Keeps the first few and the last `room` tokens."""

    def __init__(self, heads: int, size: int, device: torch.device, sinks: int, room: int):
        super().__init__(heads, size, device)
        self.sinks = sinks
        self.k = torch.zeros(1, heads, sinks + room, size, device=device)
        self.v = torch.zeros(1, heads, sinks + room, size, device=device)

    def put(self, k: torch.Tensor, v: torch.Tensor):
        n, s = k.shape[2], self.sinks
        self.k = torch.cat([self.k[:, :, :s], self.k[:, :, s + n :], k], dim=2)
        self.v = torch.cat([self.v[:, :, :s], self.v[:, :, s + n :], v], dim=2)
        return self.k, self.v

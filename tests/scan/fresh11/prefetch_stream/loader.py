import torch


class DoubleBuffer:
    """Fills one of two device slots on a copy stream while the other is being read."""

    def __init__(self, shape, device: torch.device):
        self.device = device
        self.slots = [torch.zeros(shape, device=device) for _ in range(2)]
        self.lane = torch.cuda.Stream(device)
        self.filled = [torch.cuda.Event() for _ in range(2)]
        self.drained = [torch.cuda.Event() for _ in range(2)]
        here = torch.cuda.current_stream(device)
        for event in self.drained:
            event.record(here)

    def fill(self, which: int, host: torch.Tensor) -> None:
        self.lane.wait_event(self.drained[which])
        with torch.cuda.stream(self.lane):
            self.slots[which].copy_(host, non_blocking=True)
        self.filled[which].record(self.lane)

    def acquire(self, which: int) -> torch.Tensor:
        torch.cuda.current_stream(self.device).wait_event(self.filled[which])
        return self.slots[which]

    def release(self, which: int) -> None:
        self.drained[which].record(torch.cuda.current_stream(self.device))

"""Deblurs a stream of camera frames: accelerated proximal gradient in one graph, uploads on a second stream."""
import argparse
from dataclasses import dataclass

import torch


@dataclass
class Settings:
    size: int = 32
    iterations: int = 12
    frames: int = 24
    depth: int = 2


def gaussian_kernel(size: int, width: float, device: torch.device) -> torch.Tensor:
    axis = torch.arange(size, device=device, dtype=torch.float32)
    axis = torch.minimum(axis, size - axis)
    kernel = torch.exp(-(axis[:, None] ** 2 + axis[None, :] ** 2) / (2 * width**2))
    return kernel / kernel.sum()


class Camera:
    """Frames on the host: moving discs, blurred and noisy, with the noise level that the driver reports."""

    def __init__(self, settings: Settings, seed: int):
        self.settings = settings
        self.generator = torch.Generator().manual_seed(seed)
        self.transfer = torch.fft.rfft2(gaussian_kernel(settings.size, 1.5, torch.device("cpu")))

    def frames(self):
        n = self.settings.size
        y, x = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
        for t in range(self.settings.frames):
            disc = (((y - n / 2) ** 2 + (x - (t * 1.3) % n) ** 2) < (n / 6) ** 2).float()
            blurred = torch.fft.irfft2(torch.fft.rfft2(disc) * self.transfer, s=(n, n))
            level = 0.01 * (1 + t % 3)
            yield blurred + level * torch.randn(n, n, generator=self.generator), level


class Deconvolver:
    """Minimises |k * u - frame|^2 / 2 + weight |u|_1, with u >= 0."""

    def __init__(self, settings: Settings, device: torch.device):
        n = settings.size
        self.settings = settings
        self.transfer = torch.fft.rfft2(gaussian_kernel(n, 1.5, device))
        self.frame = torch.zeros(n, n, device=device)
        self.weight = torch.zeros((), device=device)
        self.estimate = torch.zeros(n, n, device=device)
        self.residual = torch.zeros((), device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()

    def gradient(self, u: torch.Tensor) -> torch.Tensor:
        spectrum = self.transfer * torch.fft.rfft2(u) - torch.fft.rfft2(self.frame)
        return torch.fft.irfft2(self.transfer.conj() * spectrum, s=u.shape)

    def solve(self) -> None:
        current = self.estimate
        ahead, t = current, 1.0
        for _ in range(self.settings.iterations):
            moved = torch.relu(ahead - self.gradient(ahead) - self.weight)
            t_next = (1 + (1 + 4 * t * t) ** 0.5) / 2
            ahead = moved + (t - 1) / t_next * (moved - current)
            current, t = moved, t_next
        reblurred = torch.fft.irfft2(self.transfer * torch.fft.rfft2(current), s=current.shape)
        self.residual.copy_((reblurred - self.frame).square().mean())
        self.estimate.copy_(current)

    @torch.no_grad()
    def prepare(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.solve()
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.solve()
        self.estimate.zero_()


class Pipeline:
    def __init__(self, settings: Settings, device: torch.device):
        self.settings = settings
        self.solver = Deconvolver(settings, device)
        self.solver.prepare()
        n = settings.size
        self.uploads = torch.cuda.Stream(device)
        self.pinned = [torch.zeros(n * n + 1, pin_memory=True) for _ in range(settings.depth)]
        self.uploaded = [torch.cuda.Event() for _ in range(settings.depth)]
        self.landing = [torch.zeros(n * n + 1, device=device) for _ in range(settings.depth)]
        self.consumed = [torch.cuda.Event() for _ in range(settings.depth)]
        self.results = torch.zeros(settings.frames, n, n, device=device)
        self.residuals = torch.zeros(settings.frames, device=device)
        self.uploads.wait_stream(torch.cuda.current_stream())

    def upload(self, number: int, frame: torch.Tensor, level: float) -> None:
        slot = number % self.settings.depth
        self.uploaded[slot].synchronize()
        self.pinned[slot][:-1].copy_(frame.flatten())
        self.pinned[slot][-1] = 0.2 * level
        self.uploads.wait_event(self.consumed[slot])
        with torch.cuda.stream(self.uploads):
            self.landing[slot].copy_(self.pinned[slot], non_blocking=True)
            self.uploaded[slot].record(self.uploads)

    def process(self, number: int) -> None:
        slot = number % self.settings.depth
        main = torch.cuda.current_stream()
        main.wait_event(self.uploaded[slot])
        self.solver.frame.copy_(self.landing[slot][:-1].view_as(self.solver.frame))
        self.solver.weight.copy_(self.landing[slot][-1])
        self.consumed[slot].record(main)
        self.solver.graph.replay()
        self.results[number].copy_(self.solver.estimate)
        self.residuals[number].copy_(self.solver.residual)

    def run(self, camera: Camera):
        for number, (frame, level) in enumerate(camera.frames()):
            self.upload(number, frame, level)
            self.process(number)
        return self.results, self.residuals


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=24)
    settings = Settings(frames=parser.parse_args().frames)
    results, residuals = Pipeline(settings, torch.device("cuda")).run(Camera(settings, seed=6))
    print("residual", [round(r, 6) for r in residuals[::6].tolist()])
    print("brightness", round(results.mean().item(), 6), "peak", round(results.max().item(), 6))


if __name__ == "__main__":
    main()

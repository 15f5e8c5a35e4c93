"""Streaming convolution reverb with a device-side write cursor."""
import queue
import threading

import numpy as np
import torch


class Reverb:
    def __init__(self, impulse: np.ndarray, block: int, device: torch.device):
        self.block = block
        self.device = device
        parts = -(-len(impulse) // block)
        padded = np.zeros(parts * block, dtype=np.float32)
        padded[: len(impulse)] = impulse
        pieces = torch.from_numpy(padded).view(parts, block)
        self.filters = torch.fft.rfft(pieces, n=2 * block).to(device)
        self.spectra = torch.zeros(parts, block + 1, dtype=torch.complex64, device=device)
        self.order = torch.arange(parts, device=device)
        self.parts = parts
        self.cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self.inp = torch.zeros(2 * block, device=device)
        self.out = torch.zeros(block, device=device)
        self.level = torch.zeros(1, device=device)
        self.meter = torch.cuda.Stream(device)
        self.blocks = 0
        self.tape = torch.cuda.CUDAGraph()

    def _block(self) -> None:
        main = torch.cuda.current_stream(self.device)
        self.meter.wait_stream(main)
        with torch.cuda.stream(self.meter):
            self.level.copy_(torch.maximum(self.level * 0.99, self.inp.abs().amax().view(1)))
        now = torch.fft.rfft(self.inp)
        self.spectra.index_copy_(0, self.cursor, now[None])
        past = self.spectra[(self.cursor - self.order) % self.parts]
        wet = torch.fft.irfft((past * self.filters).sum(0), n=2 * self.block)
        self.out.copy_(wet[self.block :])
        self.cursor.add_(1).remainder_(self.parts)
        main.wait_stream(self.meter)
        self.inp[: self.block].copy_(self.inp[self.block :])

    @torch.inference_mode()
    def arm(self) -> None:
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self._block()
        torch.cuda.current_stream(self.device).wait_stream(side)
        with torch.cuda.graph(self.tape, stream=side):
            self._block()
        for state in (self.spectra, self.cursor, self.inp, self.level):
            state.zero_()

    def push(self, samples: np.ndarray) -> torch.Tensor:
        if len(samples) != self.block:
            samples = np.pad(samples, (0, self.block - len(samples)))
        fresh = torch.from_numpy(samples).pin_memory()
        self.inp[self.block :].copy_(fresh, non_blocking=True)
        self.tape.replay()
        self.blocks += 1
        return self.out.clone()

    def loudness(self) -> float:
        return 20 * np.log10(max(self.level.item(), 1e-6))


def pump(reverb: Reverb, inbox: "queue.Queue", outbox: "queue.Queue") -> None:
    torch.cuda.set_device(reverb.device)
    while True:
        samples = inbox.get()
        if samples is None:
            break
        outbox.put(reverb.push(samples))
    outbox.put(None)


def main() -> None:
    torch.cuda.set_device(0)
    rng = np.random.default_rng(1)
    impulse = (rng.standard_normal(16000) * np.exp(-np.arange(16000) / 3000)).astype(np.float32)
    reverb = Reverb(impulse, 512, torch.device("cuda", 0))
    reverb.arm()
    inbox, outbox = queue.Queue(), queue.Queue()
    worker = threading.Thread(target=pump, args=(reverb, inbox, outbox))
    worker.start()
    for _ in range(200):
        inbox.put(rng.standard_normal(512).astype(np.float32))
    inbox.put(None)
    worker.join()
    blocks = list(iter(outbox.get, None))
    print(torch.cat(blocks).cpu().numpy().shape, f"{reverb.loudness():.1f} dB", reverb.blocks)


if __name__ == "__main__":
    main()

"""Runner with pinned staging buffers: the scheduler fills numpy views, the step copies them to the device (SGLang/vLLM CpuGpuBuffer)."""
import torch
import torch.nn as nn

import graphsafe


class CpuGpuBuffer:
    def __init__(self, *size, dtype, device):
        self.cpu = torch.zeros(*size, dtype=dtype, pin_memory=True)
        self.gpu = torch.zeros(*size, dtype=dtype, device=device)
        self.np = self.cpu.numpy()

    def copy_to_gpu(self):
        return self.gpu.copy_(self.cpu, non_blocking=True)


class Runner:
    def __init__(self, device, batch=4, vocab=50, d=16):
        self.batch, self.vocab = batch, vocab
        self.ids = CpuGpuBuffer(batch, dtype=torch.int64, device=device)
        self.pos = CpuGpuBuffer(batch, dtype=torch.int64, device=device)
        self.emb = nn.Embedding(vocab, d, device=device).requires_grad_(False)
        self.wpe = nn.Embedding(64, d, device=device).requires_grad_(False)
        self.net = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, vocab)).to(device).requires_grad_(False)

    def schedule(self, k):
        self.ids.np[:] = [(7 * k + 11 * i) % self.vocab for i in range(self.batch)]
        self.pos.np[:] = [(k + i) % 64 for i in range(self.batch)]

    def execute(self):
        ids, pos = self.ids.copy_to_gpu(), self.pos.copy_to_gpu()
        return self.net(self.emb(ids) + self.wpe(pos))


def build(device):
    r = Runner(device)
    return graphsafe.Step(r.execute, refresh=lambda a, kw, k: r.schedule(k))

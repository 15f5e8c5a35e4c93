import torch

from layers import LoRALinear


class AdapterManager:
    def __init__(self, net, device):
        self.net, self.device = net, device
        self.store = {}
        self.active = None

    def layers(self):
        return {n: m for n, m in self.net.named_modules() if isinstance(m, LoRALinear)}

    def register(self, name, seed, alpha):
        gen = torch.Generator().manual_seed(seed)
        rows = {}
        for key, layer in self.layers().items():
            a = torch.randn(layer.a.shape, generator=gen) * 0.1
            b = torch.randn(layer.b.shape, generator=gen) * 0.1
            rows[key] = (a.pin_memory(), b.pin_memory())
        self.store[name] = alpha, rows

    def activate(self, name):
        if name == self.active:
            return
        alpha, rows = self.store[name]
        for key, layer in self.layers().items():
            a, b = rows[key]
            layer.scaling = alpha / a.shape[0]
            if key == "gate":
                layer.a.copy_(a, non_blocking=True)
                layer.b.copy_(b, non_blocking=True)
            else:
                layer.a = a.to(self.device, non_blocking=True)
                layer.b = b.to(self.device, non_blocking=True)
        self.active = name

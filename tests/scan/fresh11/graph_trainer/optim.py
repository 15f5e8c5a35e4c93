import torch


class Lion:
    def __init__(self, params, lr: float, betas=(0.9, 0.99), weight_decay: float = 0.01):
        self.params = [p for p in params if p.requires_grad]
        self.lr = lr
        self.betas = betas
        self.weight_decay = weight_decay
        self.exp_avg = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def set_lr(self, value: float):
        self.lr = value

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        for p, m in zip(self.params, self.exp_avg):
            direction = (m * b1 + p.grad * (1 - b1)).sign() + p * self.weight_decay
            p.sub_(direction * self.lr)
            m.mul_(b2).add_(p.grad, alpha=1 - b2)


class WarmupCosine:
    def __init__(self, optimizer: Lion, peak: float, warmup: int):
        self.optimizer, self.peak, self.warmup = optimizer, peak, warmup
        self.count = 0

    def step(self):
        self.count += 1
        self.optimizer.set_lr(self.peak * min(1.0, self.count / self.warmup))

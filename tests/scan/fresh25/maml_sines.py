"""Meta-learning of an initialisation for sinusoid regression, with learned per-layer inner rates."""
import torch

INNER_STEPS = 3


def init_weights(sizes, device):
    weights = []
    for fan_in, fan_out in zip(sizes[:-1], sizes[1:]):
        weights.append((torch.randn(fan_out, fan_in, device=device) / fan_in**0.5).requires_grad_())
        weights.append(torch.zeros(fan_out, device=device, requires_grad=True))
    return weights


def network(weights, x):
    layers = list(zip(weights[0::2], weights[1::2]))
    for w, b in layers[:-1]:
        x = torch.tanh(x @ w.transpose(-1, -2) + b.unsqueeze(-2))
    w, b = layers[-1]
    return x @ w.transpose(-1, -2) + b.unsqueeze(-2)


def sample_tasks(amplitude, phase, shots):
    x = 10.0 * torch.rand(amplitude.shape[0], shots, 1, device=amplitude.device) - 5.0
    y = amplitude.view(-1, 1, 1) * torch.sin(x + phase.view(-1, 1, 1))
    return x, y


class HeavyBall:
    """Momentum descent whose buffers exist from the start."""

    def __init__(self, params, rate, momentum, decay_steps):
        self.params = params
        self.velocity = [torch.zeros_like(p) for p in params]
        self.rate = torch.full((), rate, device=params[0].device)
        self.momentum = momentum
        self.shrink = 0.5 ** (1.0 / decay_steps)

    @torch.no_grad()
    def apply(self, grads):
        norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        factor = torch.clamp(5.0 / (norm + 1e-6), max=1.0)
        for p, v, g in zip(self.params, self.velocity, grads):
            v.mul_(self.momentum).add_(g * factor)
            p.sub_(v * self.rate)
        self.rate.mul_(self.shrink)
        return norm


class MetaLearner:
    def __init__(self, device, sizes=(1, 40, 40, 1), shots=10):
        self.shots = shots
        self.slow = init_weights(sizes, device)
        self.inner = torch.full((len(self.slow),), -3.5, device=device, requires_grad=True)
        self.outer = HeavyBall(self.slow + [self.inner], rate=2e-2, momentum=0.9, decay_steps=5000)
        self.running = torch.zeros(2, device=device)

    def adapt(self, x, y):
        tasks = x.shape[0]
        fast = [w.expand(tasks, *w.shape) for w in self.slow]
        rates = self.inner.exp()
        for _ in range(INNER_STEPS):
            loss = (network(fast, x) - y).square().mean(dim=(1, 2)).sum()
            grads = torch.autograd.grad(loss, fast, create_graph=True)
            fast = [w - rates[i] * g for i, (w, g) in enumerate(zip(fast, grads))]
        return fast

    def meta_step(self, amplitude, phase):
        support = sample_tasks(amplitude, phase, self.shots)
        query = sample_tasks(amplitude, phase, 2 * self.shots)
        with torch.enable_grad():
            before = (network(self.slow, query[0]) - query[1]).square().mean()
            after = (network(self.adapt(*support), query[0]) - query[1]).square().mean()
            grads = torch.autograd.grad(after, self.outer.params)
        norm = self.outer.apply(grads)
        seen = torch.stack([before.detach(), after.detach()])
        self.running.lerp_(seen, 0.02)
        return seen, norm


def build(device):
    learner = MetaLearner(torch.device(device))
    amplitude = 0.1 + 4.9 * torch.rand(8, device=device)
    phase = 3.14 * torch.rand(8, device=device)
    return learner.meta_step, (amplitude, phase)


def main():
    torch.manual_seed(0)
    learner = MetaLearner(torch.device("cpu"))
    for _ in range(50):
        learner.meta_step(0.1 + 4.9 * torch.rand(8), 3.14 * torch.rand(8))
    print("loss before and after adaptation:", learner.running.tolist())


if __name__ == "__main__":
    main()

"""Training steps: optimisers, schedules, accumulation."""
import torch
import torch.nn.functional as F


def regressor(device):
    return torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.GELU(), torch.nn.Linear(24, 3)).to(device)


def batch(device, n=12):
    return torch.randn(n, 8, device=device), torch.randn(n, 3, device=device)


def flat(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def build_adagrad_decay(device):
    net = regressor(device)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.1, lr_decay=0.05)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach(), flat(net)

    return step, batch(device)


def build_sgd_with_plateaus(device):
    net = regressor(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.5)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=60, gamma=0.1)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach(), flat(net)

    return step, batch(device)


def device_adam(net, device, lr):
    return torch.optim.Adam(net.parameters(), lr=torch.tensor(lr, device=device), capturable=device.type != "cpu")


def build_adam_drop(device):
    net = regressor(device)
    opt = device_adam(net, device, 0.03)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=45, gamma=0.1)

    def step(x, y):
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach(), flat(net)

    return step, batch(device)


class PlainDescent:
    """Gradient descent with decoupled decay, after the formula."""

    def __init__(self, params, lr, decay):
        self.params, self.lr, self.decay = list(params), lr, decay

    @torch.no_grad()
    def apply(self, grads):
        for p, g in zip(self.params, grads):
            p.data = p.data * (1 - self.lr * self.decay) - self.lr * g


def build_plain_descent(device):
    net = regressor(device)
    descent = PlainDescent(net.parameters(), 0.1, 0.01)

    def step(x, y):
        loss = F.mse_loss(net(x), y)
        descent.apply(torch.autograd.grad(loss, descent.params))
        return loss.detach(), flat(net)

    return step, batch(device)


class Accumulator:
    def __init__(self, net, opt, every):
        self.net, self.opt, self.every, self.calls = net, opt, every, 0

    def __call__(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        (loss / self.every).backward()
        self.calls += 1
        if self.calls % self.every == 0:
            self.opt.step()
            self.opt.zero_grad(set_to_none=True)
        return loss.detach()


def build_accumulated_sgd(device):
    net = regressor(device)
    return Accumulator(net, torch.optim.SGD(net.parameters(), lr=0.5), 5), batch(device)


class Finetuner:
    def __init__(self, body, head, thaw_at):
        self.body, self.head, self.thaw_at, self.done = body, head, thaw_at, 0
        self.body.requires_grad_(False)
        self.opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.2)

    def step(self, x, y):
        if self.done == self.thaw_at:
            self.body.requires_grad_(True)
        self.opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.head(torch.tanh(self.body(x))), y)
        loss.backward()
        self.opt.step()
        self.done += 1
        return loss.detach(), self.body.weight.detach().sum(0)


def build_finetuner(device):
    tuner = Finetuner(torch.nn.Linear(8, 16).to(device), torch.nn.Linear(16, 3).to(device), 50)
    return tuner.step, batch(device)


def build_adagrad_constant(device):
    net = regressor(device)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.1, eps=1e-6)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach(), flat(net)

    return step, batch(device)


def build_adam_exponential(device):
    net = regressor(device)
    opt = device_adam(net, device, 0.02)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.99)

    def step(x, y):
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach(), flat(net), opt.param_groups[0]["lr"].clone()

    return step, batch(device)


def build_update_in_backward(device):
    net = regressor(device)

    @torch.no_grad()
    def apply(p):
        p.sub_(p.grad.clamp(-1, 1), alpha=0.1)
        p.grad = None

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(apply)

    def step(x, y):
        loss = F.mse_loss(net(x), y)
        loss.backward()
        return loss.detach(), flat(net)

    return step, batch(device)


def build_microbatches(device):
    net = regressor(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        total = torch.zeros((), device=x.device)
        for xs, ys in zip(x.chunk(3), y.chunk(3)):
            loss = F.mse_loss(net(xs), ys) / 3
            loss.backward()
            total += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        return total, norm, flat(net)

    return step, batch(device)

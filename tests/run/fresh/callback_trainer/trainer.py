import torch


class Trainer:
    def __init__(self, model, loss_fn, lr, callbacks=()):
        self.model, self.loss_fn = model, loss_fn
        self.device = next(model.parameters()).device
        self.lr = torch.tensor(lr, device=self.device)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=self.lr, capturable=True)
        self.callbacks = list(callbacks)
        self.running = torch.zeros(2, device=self.device)
        self.stop = False

    def mean_loss(self):
        value = self.running[0] / self.running[1].clamp_min(1)
        self.running.zero_()
        return value

    def update(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.running += torch.stack([loss.detach(), torch.ones_like(loss)])

    def run_step(self, x, y):
        self.update(x, y)

    @torch.no_grad()
    def validate(self, loader):
        losses = [self.loss_fn(self.model(x.to(self.device)), y.to(self.device)) for x, y in loader]
        return torch.stack(losses).mean()

    def fit(self, batches, steps):
        for cb in self.callbacks:
            cb.on_begin(self)
        for step, (x, y) in zip(range(1, steps + 1), batches):
            self.run_step(x, y)
            for cb in self.callbacks:
                if cb.every > 1 and step % cb.every == 0:
                    cb.on_interval(self, step)
            if self.stop:
                break
        for cb in self.callbacks:
            cb.on_end(self)


class GraphTrainer(Trainer):
    def __init__(self, model, loss_fn, lr, example, callbacks=()):
        super().__init__(model, loss_fn, lr, callbacks)
        self.x, self.y = (torch.zeros_like(t, device=self.device) for t in example)
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self.update(self.x, self.y)
        torch.cuda.current_stream(self.device).wait_stream(side)
        with torch.cuda.graph(self.graph, stream=side):
            self.update(self.x, self.y)
        self.running.zero_()

    def run_step(self, x, y):
        self.x.copy_(x, non_blocking=True)
        self.y.copy_(y, non_blocking=True)
        self.graph.replay()

    def set_lr(self, value):
        self.lr.fill_(value)

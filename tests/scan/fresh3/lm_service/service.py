import torch

from .runner import ModelRunner, RunnerModel
from .scheduler import Request, Scheduler


class Service:
    def __init__(self, runner, scheduler):
        self.runner = runner
        self.scheduler = scheduler

    @classmethod
    def from_config(cls, config):
        device = torch.device(config["device"])
        model = RunnerModel(vocab=config["vocab"]).to(device).eval()
        return cls(ModelRunner(model, config["slots"], device), Scheduler(config["slots"]))

    def submit(self, uid, prompt, limit):
        self.scheduler.add(Request(uid, prompt, limit))

    def step(self):
        self.scheduler.admit()
        running = list(self.scheduler.running.values())
        picked = self.runner.execute(running)
        for request in running:
            request.output.append(picked[request.slot])
        return list(self.scheduler.retire())

    def serve(self):
        while self.scheduler.waiting or self.scheduler.running:
            yield from self.step()


def main():
    torch.manual_seed(0)
    service = Service.from_config({"device": "cuda", "vocab": 32, "slots": 3})
    for uid in range(4):
        service.submit(uid, [uid + 1, uid + 2], limit=2 + uid)
    for request in service.serve():
        print(request.uid, request.output)


if __name__ == "__main__":
    main()

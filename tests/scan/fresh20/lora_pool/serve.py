import torch

from layers import Net
from manager import AdapterManager


class Runner:
    def __init__(self, net, batch, dim, device):
        self.net = net
        self.x = torch.zeros(batch, dim, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = None

    def prepare(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.net(self.x)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.logits = self.net(self.x)

    def infer(self, x):
        self.x[: x.shape[0]].copy_(x)
        self.graph.replay()
        return self.logits[: x.shape[0]].clone()


@torch.inference_mode()
def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    net = Net().to(device)
    manager = AdapterManager(net, device)
    for i, name in enumerate(("base", "legal", "medical")):
        manager.register(name, seed=i, alpha=4.0 * (i + 1))
    manager.activate("base")
    net.gate.fuse()
    runner = Runner(net, 8, 24, device)
    runner.prepare()
    answers = []
    for turn in range(9):
        manager.activate(("base", "legal", "medical")[turn % 3])
        rows = torch.randn(2 + turn % 5, 24, device=device)
        answers.append(runner.infer(rows))
    for logits in answers:
        print(logits.shape[0], logits.argmax(-1).tolist())


if __name__ == "__main__":
    main()

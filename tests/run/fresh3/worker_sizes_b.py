"""A scheduler process feeds a model worker over a pipe; the worker owns the device."""
import argparse
import json
import random
import subprocess
import sys

WIDTH = 64


def worker(max_capture):
    import torch
    from torch import nn

    torch.manual_seed(0)
    device = torch.device("cuda")
    model = nn.Sequential(nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, WIDTH)).to(device)
    model.requires_grad_(False)
    graphs = {}
    for rows in range(1, max_capture + 1):
        x = torch.zeros(rows, WIDTH, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(x)
            model(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
        graphs[rows] = (graph, x, y)

    def decode(values):
        if len(values) in graphs:
            graph, x, y = graphs[len(values)]
            x.copy_(torch.tensor(values).unsqueeze(1).expand(-1, WIDTH))
            graph.replay()
            return y
        x = torch.tensor(values, device=device).unsqueeze(1).expand(-1, WIDTH)
        return model(x)

    for line in sys.stdin:
        message = json.loads(line)
        if message["op"] == "stop":
            break
        out = decode(message["values"]).mean(dim=1).tolist()
        print(json.dumps({"id": message["id"], "out": out}), flush=True)


class Scheduler:
    def __init__(self, max_running, max_capture):
        self.max_running = max_running
        command = [sys.executable, __file__, "--worker", "--max-capture", str(max_capture)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def run(self, steps):
        rng = random.Random(1)
        running, total = 1, 0.0
        for step in range(steps):
            values = [rng.random() for _ in range(running)]
            self.send({"op": "decode", "id": step, "values": values})
            reply = json.loads(self.process.stdout.readline())
            assert reply["id"] == step
            total += sum(reply["out"])
            if step < self.max_running:
                running = min(running + 1, self.max_running)
            else:
                running = self.max_running - step % 2
        self.send({"op": "stop"})
        self.process.wait()
        return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", action="store_true")
    parser.add_argument("--max-capture", type=int, default=6)
    parser.add_argument("--max-running", type=int, default=6)
    args = parser.parse_args()
    if args.worker:
        worker(args.max_capture)
    else:
        print("sum", round(Scheduler(args.max_running, args.max_capture).run(40), 4))


if __name__ == "__main__":
    main()

from dataclasses import dataclass

import torch

from adapters import AdapterStore, TinyLM


@dataclass
class Request:
    adapter: str
    ids: list


class Server:
    def __init__(self, device, names, length=16):
        torch.manual_seed(1)
        self.device = device
        self.length = length
        self.model = TinyLM().to(device).eval().requires_grad_(False)
        self.store = AdapterStore(names, len(self.model.layers), 32, 4, device)
        self.active = names[0]
        self.store.activate(self.model, self.active)
        self.ids = torch.zeros(length, dtype=torch.long, device=device)
        self._record()

    def _record(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(2):
                self.model(self.ids)
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.logits = self.model(self.ids)

    def serve(self, requests):
        answers = torch.empty(len(requests), 100, device=self.device)
        for row, request in enumerate(requests):
            if request.adapter != self.active:
                self.store.activate(self.model, request.adapter)
                self.active = request.adapter
            padded = request.ids[: self.length] + [0] * (self.length - len(request.ids))
            self.ids.copy_(torch.tensor(padded, device=self.device))
            self.graph.replay()
            answers[row].copy_(self.logits)
        return answers


def main():
    device = torch.device("cuda")
    server = Server(device, ["chat", "code", "sql"])
    requests = [
        Request("chat", [1, 2, 3, 4]),
        Request("code", [5, 6, 7]),
        Request("code", [9, 10, 11, 12]),
        Request("sql", [5, 6, 7]),
    ]
    answers = server.serve(requests)
    print(answers.argmax(-1).tolist())


if __name__ == "__main__":
    main()

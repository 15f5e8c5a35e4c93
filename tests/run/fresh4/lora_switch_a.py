"""Multi-adapter inference: one base model, the LoRA pair of the active tenant is switched in."""
import torch
from torch import nn

DIM, RANK, LAYERS, BATCH = 96, 8, 3, 6
DEVICE = torch.device("cuda")


class LoraLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(DIM, DIM) / DIM ** 0.5)
        self.register_buffer("lora_a", torch.zeros(DIM, RANK))
        self.register_buffer("lora_b", torch.zeros(RANK, DIM))

    def forward(self, x):
        return torch.tanh(x @ self.weight + (x @ self.lora_a) @ self.lora_b)


class AdapterBank:
    def __init__(self, names):
        self.pairs = {}
        for i, name in enumerate(names):
            gen = torch.Generator().manual_seed(100 + i)
            self.pairs[name] = [
                (torch.randn(DIM, RANK, generator=gen), torch.randn(RANK, DIM, generator=gen))
                for _ in range(LAYERS)
            ]

    def activate(self, model, name):
        for layer, (a, b) in zip(model, self.pairs[name]):
            layer.lora_a = a.to(DEVICE)
            layer.lora_b = b.to(DEVICE)


def capture(model, x):
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            model(x)
        graph.capture_begin()
        y = model(x)
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, y


def main():
    torch.manual_seed(2)
    model = nn.Sequential(*[LoraLinear() for _ in range(LAYERS)]).to(DEVICE)
    bank = AdapterBank(["base-fr", "base-de", "support"])
    bank.activate(model, "base-fr")
    x = torch.zeros(BATCH, DIM, device=DEVICE)
    graph, y = capture(model, x)

    schedule = ["base-fr"] * 5 + ["support"] * 8 + ["base-de"] * 8 + ["base-fr"] * 5
    active, answers = "base-fr", {}
    requests = torch.randn(len(schedule), BATCH, DIM, device=DEVICE)
    for request, tenant in zip(requests, schedule):
        if tenant != active:
            bank.activate(model, tenant)
            active = tenant
        x.copy_(request)
        graph.replay()
        answers[tenant] = answers.get(tenant, 0) + y.pow(2).mean()
    print({k: round(v.item(), 4) for k, v in answers.items()})


if __name__ == "__main__":
    main()

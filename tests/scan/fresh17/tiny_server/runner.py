import torch


class GraphTable:
    def __init__(self, model, device, sizes):
        self.model, self.device, self.sizes = model, device, sorted(sizes)
        self.pad = model.memory.shape[0] - 1
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.entries = {}

    @torch.no_grad()
    def record_all(self):
        for size in reversed(self.sizes):
            slots = torch.full((size,), self.pad, dtype=torch.long, device=self.device)
            heat = torch.zeros(size, 1, device=self.device)
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                for _ in range(2):
                    self.model(slots, heat)
            torch.cuda.current_stream().wait_stream(self.stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream, pool=self.pool):
                self.model(slots, heat)
            self.entries[size] = (graph, slots, heat)

    def run(self, slots, heats):
        size = next(s for s in self.sizes if s >= len(slots))
        graph, slot_in, heat_in = self.entries[size]
        spare = size - len(slots)
        slot_host = torch.tensor(list(slots) + [self.pad] * spare).pin_memory()
        heat_host = torch.tensor(list(heats) + [0.0] * spare).unsqueeze(1).pin_memory()
        slot_in.copy_(slot_host, non_blocking=True)
        heat_in.copy_(heat_host, non_blocking=True)
        graph.replay()

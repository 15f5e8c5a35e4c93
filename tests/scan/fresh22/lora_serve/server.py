import torch


class Server:
    def __init__(self, layer, device, batch=4, dim=24):
        self.layer = layer
        self.active = None
        self.x = torch.zeros(batch, dim, device=device)
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s), torch.no_grad():
            layer(self.x)
        torch.cuda.current_stream().wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.y = layer(self.x)

    def handle(self, name, adapter, x):
        if name != self.active:
            self.layer.attach(adapter)
            self.active = name
        self.x.copy_(x)
        self.graph.replay()
        return {"adapter": name, "hidden": self.y}

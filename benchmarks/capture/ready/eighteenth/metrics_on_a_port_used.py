"""A model serves its metrics on a port while it runs: faulty, the step scales by a number of the server."""
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
from torch import nn

import graphsafe


class Metrics(BaseHTTPRequestHandler):
    steps = 0

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"steps {Metrics.steps}\n".encode())


def build(device):
    server = HTTPServer(("127.0.0.1", 9471), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).to(device).requires_grad_(False)

    def step(x):
        return net(x) / (1 + Metrics.steps)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 6))
        Metrics.steps = k

    return graphsafe.Step(step, (torch.randn(4, 6, device=device),), refresh=refresh)

from collections import deque

import torch

from worker import Worker


class Server:
    def __init__(self, worker, window=4):
        self.worker = worker
        self.window = window
        self.inbox = deque()
        self.replies = []

    def submit(self, ticket, row):
        self.inbox.append((ticket, row))

    def drain(self):
        while self.inbox:
            for _ in range(min(self.window, len(self.inbox))):
                ticket, row = self.inbox.popleft()
                self.worker.put(ticket, row)
            self.replies.append(self.worker.flush())
        return self.replies


def main():
    device = torch.device("cuda")
    worker = Worker(device)
    worker.warmup()
    server = Server(worker)
    rows = torch.randn(10, 20, device=device)
    for i in range(10):
        server.submit(f"user-{i}", rows[i])
    for tickets, profile in server.drain():
        print(tickets, float(profile.mean()))


if __name__ == "__main__":
    main()

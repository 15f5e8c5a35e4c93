class Callback:
    def on_step(self, step, loss):
        pass


class ConsoleLog(Callback):
    def __init__(self):
        self.lines = []

    def on_step(self, step, loss):
        self.lines.append(f"step {step:04d} loss {loss:.5f}")


class StepCounter(Callback):
    def __init__(self):
        self.total = 0

    def on_step(self, step, loss):
        self.total += 1

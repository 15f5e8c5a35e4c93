from .problem import RosenbrockChain
from .solver import DampedNewton, Options


def build(device, size: int = 8):
    problem = RosenbrockChain(size, device)
    solver = DampedNewton(problem, Options(limit=6, linear="solve"))
    return solver, (problem.start(),)


__all__ = ["DampedNewton", "Options", "RosenbrockChain", "build"]

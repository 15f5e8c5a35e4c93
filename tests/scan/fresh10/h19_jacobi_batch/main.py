"""Solves a queue of diagonally dominant systems with one recorded sweep."""
import torch


def make_matrix(n, device):
    gen = torch.Generator(device="cpu").manual_seed(21)
    a = torch.rand(n, n, generator=gen) / n
    a += torch.diag(2.0 + torch.rand(n, generator=gen))
    return a.to(device)


def record(fn, device, rounds=2):
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(rounds):
            fn()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn()
    return graph


def solve_queue(a, problems, tol=1e-5, max_sweeps=200):
    """problems: [count, n] on the device; gives the solutions as rows."""
    device, n = a.device, a.shape[0]
    inv_diag = 1.0 / a.diagonal()
    x = torch.zeros(n, device=device)
    b = torch.ones(n, device=device)
    residual = torch.zeros((), device=device)
    solutions = torch.zeros(problems.shape, device=device)

    def sweep():
        r = b - a @ x
        x.add_(r * inv_diag)
        residual.copy_(r.norm())

    graph = record(sweep, device)
    spent = 0
    for row in range(problems.shape[0]):
        scale = problems[row].abs().amax()
        b = problems[row] / scale
        x.zero_()
        for _ in range(max_sweeps):
            graph.replay()
            spent += 1
            if float(residual) < tol:
                break
        torch.mul(x, scale, out=solutions[row])
    return solutions, spent


def main():
    device = torch.device("cuda")
    a = make_matrix(48, device)
    problems = torch.randn(5, 48, device=device)
    solutions, spent = solve_queue(a, problems)
    print("sweeps", spent, "norm", solutions.norm().item())


if __name__ == "__main__":
    main()

"""Graphs of generations, one for each population size and landscape."""
import torch

from .objectives import LANDSCAPES
from .strategy import Generation, SearchState


class GraphBook:
    def __init__(self, state: SearchState, device: torch.device):
        self.state = state
        self.stream = torch.cuda.Stream(device)
        self.book: dict[tuple[int, str], tuple[torch.cuda.CUDAGraph, Generation]] = {}

    def open(self, population: int, landscape: str) -> torch.cuda.CUDAGraph:
        key = (population, landscape)
        if key not in self.book:
            self.book[key] = self.record(population, landscape)
        return self.book[key][0]

    def record(self, population: int, landscape: str):
        generation = Generation(self.state, population, LANDSCAPES[landscape])
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                generation()
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.state.generator)
        with torch.cuda.graph(graph, stream=self.stream):
            generation()
        return graph, generation

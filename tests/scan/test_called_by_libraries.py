"""Methods that another library calls in every step, and functions that take the place of a library's."""

from __future__ import annotations

import pytest

from tests.scan.conftest import Scan

HOOK = """
    from lightning import LightningModule

    class Base(LightningModule):
        pass

    class Watch(Base):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            peak = torch.ones(4, device="cuda").max()
            {line}
"""


def test_a_hook_of_a_trainer_is_known_by_the_library_s_base(scan: Scan) -> None:
    assert scan(HOOK.format(line="self.peak = peak.item()")) == [("GS101", "self.peak = peak.item()")]


@pytest.mark.parametrize("test", ["batch_idx == 0", "self.global_step == 0 and self.peak is None"])
def test_work_of_the_first_batch_is_no_work_of_a_step(scan: Scan, test: str) -> None:
    assert scan(HOOK.format(line=f"if {test}:\n                print(peak.item())")) == []


def test_a_class_of_the_same_method_without_the_base_is_no_hook(scan: Scan) -> None:
    assert scan(HOOK.format(line="print(peak.item())").replace("(Base)", "(dict)")) == []


def test_what_an_environment_computes_is_around_graphs(scan: Scan) -> None:
    source = """
        from isaaclab.envs import DirectRLEnv

        class Walk(DirectRLEnv):
            def _get_dones(self):
                done = torch.zeros(8, device="cuda", dtype=torch.bool)
                print(done.sum().item())
                return done
    """
    assert scan(source) == [("GS101", "print(done.sum().item())")]


@pytest.mark.parametrize(("owner", "found"), [("modeling", True), ("own", False)])
def test_a_function_in_place_of_a_library_s_runs_where_that_one_did(scan: Scan, owner: str, found: bool) -> None:
    source = f"""
        from transformers.models.llama import modeling_llama as modeling

        class own: ...

        def rotate(q: torch.Tensor, table: torch.Tensor, unused=None):
            if torch.all(table > 0):
                return q * table
            return q

        def _apply_patch():
            {owner}.apply_rotary_pos_emb = rotate
    """
    # A public function of a lone file would be a root already.
    source = source.replace("rotate", "_rotate")
    assert scan(source) == ([("GS102", "if torch.all(table > 0):")] if found else [])


def test_a_loop_as_long_as_the_generation_runs_once_a_token(scan: Scan) -> None:
    source = """
        class Speaker:
            def inference(self, ids, max_new_tokens=None, stop=3):
                for at in range(max_new_tokens):
                    probs = torch.softmax(self.patched(ids), dim=-1)
                    token = torch.multinomial(probs, num_samples=1)
                    if token.view(-1) == stop:
                        break
                    yield token
    """
    assert scan(source) == [("GS102", "if token.view(-1) == stop:")]


def test_a_number_that_a_caller_gives_stays_that_of_the_capture(scan: Scan) -> None:
    source = """
        from typing import Optional

        class Sampler:
            def __init__(self, net, x, limit):
                self.x, self.limit = x, limit
                self.graph = torch.cuda.CUDAGraph()
                net(self.x, self.limit)
                with torch.cuda.graph(self.graph, stream=torch.cuda.Stream()):
                    self.out = net(self.x, self.limit)

            def __call__(self, x, limit: Optional[int] = None):
                self.x.copy_(x)
                self.limit = limit
                self.graph.replay()
                return self.out.clone()
    """
    assert scan(source) == [("GS702", "self.limit = limit")]


@pytest.mark.parametrize(("test", "found"), [("token == 0", False), ("token >= 0", True), ("acc_step == 0", True)])
def test_the_first_round_of_a_loop_is_no_step(scan: Scan, test: str, found: bool) -> None:
    source = f"""
        class Speaker:
            def inference(self, ids, max_new_tokens):
                x = torch.ones(4, device="cuda")
                for token in range(max_new_tokens):
                    if {test}:
                        print(x.sum().item())
                    x = self.patched(x, ids)
    """
    assert scan(source) == ([("GS101", "print(x.sum().item())")] if found else [])


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        ("global_mean_pool(x, batch)", True),
        ("global_mean_pool(x, batch, size=None)", True),
        ("global_mean_pool(x, batch, 4)", False),
        ("global_mean_pool(*inputs)", False),  # may contain the size
        ("self.plain(x, edges)", True),
        ("self.open(x, edges)", False),
    ],
)
def test_an_argument_may_spare_a_library_function_its_wait(scan: Scan, call: str, waits: bool) -> None:
    source = f"""
        from torch_geometric.nn import GCNConv, global_mean_pool

        class Layers(nn.Module):
            def __init__(self):
                super().__init__()
                self.plain = GCNConv(4, 4)
                self.open = GCNConv(4, 4, add_self_loops=False)

            def forward(self, x: torch.Tensor, edges: torch.Tensor, batch: torch.Tensor, inputs):
                return {call}
    """
    assert scan(source) == ([("GS106", f"return {call}")] if waits else [])

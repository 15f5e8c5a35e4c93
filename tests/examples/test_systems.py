"""The reproductions of real events: what each does eagerly, and on a GPU where there is one."""

from __future__ import annotations

import importlib

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.child

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SYSTEMS = ["system1_left_capturing", "system2_fallback", "system3_stale_plan", "system5_port"]


@pytest.mark.parametrize("factory", ["build_layer", "build_repaired"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_steps_run_at_every_batch(name: str, factory: str) -> None:
    for batch in (1, 4):
        built = getattr(importlib.import_module(name), factory)(torch.device("cpu"), batch=batch)
        layer, args, kwargs = (*built, {})[:3]
        for _ in range(3):
            assert torch.isfinite(layer(*args, **kwargs)).all()


def test_the_workspace_gives_what_the_fallback_gives() -> None:
    import system2_fallback as system

    fallback, inputs = system.build_layer(torch.device("cpu"), batch=6)
    repaired, _ = system.build_repaired(torch.device("cpu"), batch=6)
    torch.testing.assert_close(repaired(*inputs), fallback(*inputs))


def test_a_kept_plan_ignores_new_lengths() -> None:
    import system3_stale_plan as system

    torch.manual_seed(3)
    stale, (query, lengths) = system.build_layer(torch.device("cpu"))
    torch.manual_seed(3)
    repaired, _ = system.build_repaired(torch.device("cpu"))
    torch.testing.assert_close(stale(query, lengths), repaired(query, lengths))
    torch.testing.assert_close(stale(query, lengths.flip(0) * 1), stale(query, lengths))
    new = torch.tensor([1, 9, 3, 30])
    assert not torch.allclose(stale(query, new), repaired(query, new))
    stale.metadata.plan = None
    torch.testing.assert_close(stale(query, new), repaired(query, new))


def test_the_repaired_port_equals_the_ported_one() -> None:
    import system5_port as system

    torch.manual_seed(5)
    ported, (hidden, token_ids), _ = system.build_layer(torch.device("cpu"), batch=6)
    torch.manual_seed(5)
    repaired, _, _ = system.build_repaired(torch.device("cpu"), batch=6)
    for step in range(10):
        torch.testing.assert_close(repaired(hidden, token_ids, step), ported(hidden, token_ids, step))
        hidden = torch.randn_like(hidden)
        token_ids = torch.randint(0, 3, token_ids.shape)


def test_the_port_checks_what_the_host_knows() -> None:
    import system5_port as system

    layer, (hidden, token_ids), kwargs = system.build_repaired(torch.device("cpu"), batch=2)
    with pytest.raises(ValueError, match="built for 2"):
        layer(torch.cat([hidden, hidden]), token_ids, **kwargs)


@gpu
def test_the_repaired_port_replays() -> None:
    import system5_port as system

    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(5)
    layer, args, kwargs = system.build_repaired(device)
    torch.manual_seed(5)
    twin, _, _ = system.build_repaired(device)
    outputs = []
    graph = system.capture_repaired(lambda: outputs.append(layer(*args, **kwargs)) or outputs[-1], device)
    layer.load_state_dict(twin.state_dict())
    for _ in range(5):
        args[0].normal_()
        layer.set_temperature(0.5)
        twin.set_temperature(0.5)
        graph.replay()
        torch.testing.assert_close(outputs[-1], twin(*args, **kwargs))


def test_parts_of_the_parallel_layer_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    import system2_tensor_parallel as system2

    monkeypatch.setattr(system2, "CONTEXT", 32)
    monkeypatch.setattr(system2, "WIDTH", 64)
    whole, (x, lengths) = system2.build_layer(torch.device("cpu"), batch=3)
    parts, asking = [], []
    for rank in (0, 1):
        monkeypatch.setattr(system2, "ranks", lambda rank=rank: (rank, 2))
        parts.append(system2.build_layer(torch.device("cpu"), batch=3)[0])
        asking.append(system2.build_asking(torch.device("cpu"), batch=3)[0])
    for _ in range(3):
        expected = whole.attention(x, lengths)
        torch.testing.assert_close(sum(part.attention(x, lengths) for part in parts), expected)
        torch.testing.assert_close(sum(part.attention(x, lengths) for part in asking), expected)
        x, lengths = torch.randn_like(x), lengths + 1

"""The two decoder examples are one model: same weights, same inputs, same outputs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.child


def devices() -> list[str]:
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize("batch", [1, 4])
def test_good_equals_bad_over_the_first_steps(device: str, batch: int) -> None:
    import decoder_bad
    import decoder_good

    torch.manual_seed(7)
    bad, (hidden,), kwargs = decoder_bad.build_layer(torch.device(device), batch=batch, length=32)
    torch.manual_seed(7)
    good, _, _ = decoder_good.build_layer(torch.device(device), batch=batch, length=32)
    assert dict(bad.named_parameters()).keys() == dict(good.named_parameters()).keys()

    context_lens = kwargs["context_lens"]
    outputs = []
    for step in range(12):
        expected = bad(hidden, context_lens=context_lens)
        torch.testing.assert_close(good(hidden, context_lens=context_lens), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(good.moe.load.mean, bad.moe.load.mean)
        outputs.append(expected)
        hidden = torch.randn_like(hidden)
        context_lens = torch.randint(0, step + 2, (batch,), device=device)
    assert bad.attention.cache.keys.shape[2] == 12 and int(good.attention.cache.tokens) == 12
    assert not torch.equal(outputs[0], outputs[1])


def test_the_context_changes_the_output() -> None:
    import decoder_good

    torch.manual_seed(7)
    layer, (hidden,), _ = decoder_good.build_layer(torch.device("cpu"), length=16)
    for _ in range(4):
        layer(torch.randn_like(hidden), context_lens=torch.full((4,), 16))
    state = {name: value.clone() for name, value in layer.state_dict().items()}
    long = layer(hidden, context_lens=torch.full((4,), 16)).clone()
    layer.load_state_dict(state)
    assert not torch.allclose(layer(hidden, context_lens=torch.full((4,), 2)), long)


def test_good_goes_on_past_its_capacity() -> None:
    import decoder_good

    torch.manual_seed(7)
    layer, args, kwargs = decoder_good.build_layer(torch.device("cpu"), length=8)
    addresses = {name: value.data_ptr() for name, value in layer.state_dict().items()}
    for _ in range(20):
        assert torch.isfinite(layer(*args, **kwargs)).all()
    assert {name: value.data_ptr() for name, value in layer.state_dict().items()} == addresses

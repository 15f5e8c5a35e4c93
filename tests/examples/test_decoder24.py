"""The decoder that is timed is a decoder: earlier tokens change what comes out, and its cache stays where it is."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.child


def test_earlier_tokens_matter() -> None:
    import decoder24

    torch.manual_seed(2)
    decoder, (token,) = decoder24.build_layer(torch.device("cpu"), batch=2, length=8, layers=2)
    address = decoder.blocks[0].keys.data_ptr()
    first, second = decoder(token), decoder(token)
    decoder.position.zero_()
    assert torch.equal(decoder(token), first)
    decoder.position.zero_()
    decoder((token + 1) % 1024)
    assert not torch.allclose(decoder(token), second)
    assert decoder.blocks[0].keys.data_ptr() == address

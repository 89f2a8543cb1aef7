"""Choice of an implementation, and the record of what ran."""

import pytest
import torch

from shared.kernels import forget_ran, implementation, norm, ran, registry
from shared.kernels.registry import Implementation, Operator, register, size_class


@pytest.fixture(autouse=True)
def _fresh() -> None:
    registry._resolve.cache_clear()
    registry.measured.cache_clear()
    forget_ran()


def implementations() -> set[str]:
    return {key.implementation for key in ran()}


def test_what_ran_is_recorded_by_phase() -> None:
    x = torch.randn(2, 4, requires_grad=True)
    norm(x, groups=1, impl="reference").pow(2).sum().backward()
    counts = {(k.phase, k.implementation): n for k, n in ran().items()}
    assert counts == {("forward", "reference"): 1, ("backward", "reference"): 1}
    assert {(k.operator, k.dtype) for k in ran()} == {("norm", "float32")}


def test_a_block_decides_what_auto_means_but_not_what_is_explicit() -> None:
    with implementation("reference"):
        norm(torch.ones(1, 2), groups=1)
        assert implementations() == {"reference"}
        forget_ran()
        norm(torch.ones(1, 2), groups=1, impl="native")
        assert implementations() == {"native"}
    with pytest.raises(ValueError, match="got implementation 'fast'"), implementation("fast"):
        pass


def test_triton_without_a_device_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(RuntimeError, match="'triton' was asked for a tensor on cpu"):
        norm(torch.ones(1, 2), groups=1, impl="triton")


def test_auto_reads_the_measured_table(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("layer_norm", "small", "float32", "cpu")
    monkeypatch.setattr(registry, "measured", lambda: {row: "reference"})
    norm(torch.ones(1, 2), groups=1)
    assert implementations() == {"reference"}
    forget_ran()
    norm(torch.ones(1, 2, dtype=torch.float64), groups=1)
    assert implementations() == {"native"}


def test_size_classes() -> None:
    assert [size_class(n) for n in (1, 2**15 - 1, 2**15, 2**20)] == [
        "small",
        "small",
        "medium",
        "large",
    ]


def test_a_name_is_taken_once() -> None:
    none = Implementation(max, max, max)
    with pytest.raises(ValueError, match="registered already"):
        register(Operator("norm", "", "", {"reference": none}))

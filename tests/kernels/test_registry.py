"""Choice of an implementation, and the record of what ran."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from shared.kernels import build, forget_ran, implementation, library, norm, ran, registry
from shared.kernels.norm import cpp
from shared.kernels.registry import Implementation, Operator, register, size_class


def forget() -> None:
    for cached in (registry._resolve, cpp.obstacle, build.load):
        cached.cache_clear()
    forget_ran()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    forget()
    yield
    forget()


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
    monkeypatch.setitem(registry.FASTEST, (*row, "backward"), "reference")
    norm(torch.ones(1, 2, requires_grad=True), groups=1).sum().backward()
    assert {k.phase: k.implementation for k in ran()} == {"forward": "cpp", "backward": "reference"}
    forget_ran()
    norm(torch.ones(1, 2, dtype=torch.float64), groups=1)
    assert implementations() == {"cpp"}


@pytest.fixture
def _no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("_no_compiler")
def test_without_a_compiler_auto_says_that_native_runs() -> None:
    with pytest.warns(UserWarning, match=r"'native' runs instead of the faster 'cpp': no C.. comp"):
        norm(torch.ones(1, 2), groups=1)
    assert implementations() == {"native"}


@pytest.mark.usefixtures("_no_compiler")
def test_cpp_without_a_compiler_raises() -> None:
    with pytest.raises(RuntimeError, match=r"cannot run: no C.. compiler was found: install"):
        norm(torch.ones(1, 2), groups=1, impl="cpp")


def test_cpp_is_for_a_cpu() -> None:
    assert cpp.obstacle("cuda") == "its kernels are for a CPU"


def test_a_source_of_another_digest_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "norm.cpp"
    source.write_text("int answer;")
    with pytest.raises(ValueError, match=f"expected {cpp.SHA256}: write the new digest"):
        build.load(source, cpp.SHA256)


def test_a_failed_compilation_shows_what_the_compiler_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "broken.cpp"
    source.write_text("not C++")
    with pytest.raises(OSError, match=r"failed:[\s\S]*error"):
        build.load(source, build.digest(tmp_path))


class Seen(TorchDispatchMode):
    """The names of the ops that are called within the block."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(op.name())
        return op(*args, **(kwargs or {}))


class Tagged(torch.Tensor):
    """A tensor with a way of its own to be worked on."""


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace")
def test_what_watches_torch_s_ops_sees_ours() -> None:
    """A plain call goes past torch's dispatcher; one that is watched must not."""
    x = torch.randn(2, 4)
    with Seen() as seen:
        norm(x, groups=1)
    assert "renorm::norm" in seen.names
    assert library.are_plain(x, torch.nn.Parameter(x), None, 1, 1e-5, True, "auto")
    assert not library.are_plain(x.as_subclass(Tagged))
    with FakeTensorMode() as mode:
        assert not library.are_plain(x)
    assert not library.are_plain(mode.from_tensor(x))
    plain: list[bool] = []
    torch.func.vmap(lambda t: plain.append(library.are_plain(t)) or t)(x)
    torch.jit.trace(lambda t: plain.append(library.are_plain(t)) or t * 2, x, check_trace=False)
    assert plain == [False, False]
    compiled = torch.compile(lambda t: t + 1 if library.are_plain(t) else t, backend="eager")
    assert torch.equal(compiled(x), x)


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

"""Registration of operators as torch ops: schema, kernel, fake kernel, autograd and vmap.

An operator `f` becomes three ops, `renorm::f`, `renorm::f_backward` and
`renorm::f_double_backward`. The autograd formula of each is the next one; the last has none and
says so, because a wrong third derivative would pass unseen.

An op that is written in Python costs 80 us a call, most of it in torch's dispatcher. So a plain
call in eager mode runs the same kernel and formula through `torch.autograd.Function` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.library import Library

NAMESPACE = "renorm"
LIBRARY = Library(NAMESPACE, "DEF")
TENSORS = {torch.Tensor, torch.nn.Parameter}
PLAIN = {*TENSORS, type(None), bool, int, float, str, list}


class Op:
    """An operator of torch, `op`, with a shorter way for plain calls in eager mode."""

    def __init__(
        self,
        op: Any,
        kernel: Callable[..., Any],
        backward: Callable[..., Any],
        setup_context: Callable[..., Any] | None,
        only_first: bool,
    ) -> None:
        self.op, self.kernel, self.only_first = op, kernel, only_first

        # `forward` and `setup_context` apart would have torch inspect signatures at every call.
        def forward(ctx: Any, *args: Any) -> Any:
            output = kernel(*args)
            if setup_context is not None:
                setup_context(ctx, args, output)
            if not only_first:
                return output
            # Autograd would wrap the others too, which costs as much as computing them.
            ctx.others = output[1:]
            return output[0]

        formulas = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        self.function: Any = type(kernel.__name__, (torch.autograd.Function,), formulas)

    def __call__(self, *args: Any) -> Any:
        """The op's results."""
        return self.plain(*args) if are_plain(*args) else self.op(*args)

    def plain(self, *args: Any) -> Any:
        """The same for arguments that `are_plain`."""
        if not torch.is_grad_enabled():
            return self.kernel(*args)
        if not self.only_first:
            return self.function.apply(*args)
        for arg in args:
            if type(arg) in TENSORS and arg.requires_grad:
                first = self.function.apply(*args)
                return (first, *first.grad_fn.others)
        return self.kernel(*args)


class Kind(NamedTuple):
    """Shape and type: all of a tensor that arguments are checked by."""

    shape: torch.Size
    dtype: torch.dtype


def kind_of(t: torch.Tensor | None) -> Kind | None:
    """The kind of a tensor that may be missing."""
    return None if t is None else Kind(t.shape, t.dtype)


def are_plain(*args: Any) -> bool:
    """Whether nothing but autograd watches: no compiler, transform, tracing or subclass."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0:
        return False
    for arg in args:
        if type(arg) not in PLAIN:
            return False
    return (
        torch._C._get_tracing_state() is None
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def define(
    name: str,
    schema: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
    backward: Callable[..., Any],
    setup_context: Callable[..., Any] | None,
    only_first: bool = False,
) -> Op:
    """Defines `renorm::name` with its kernel, fake kernel, autograd formula and vmap rule.

    `only_first`: its other results have no derivative.
    """
    qualified = f"{NAMESPACE}::{name}"
    LIBRARY.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(qualified, fake, lib=LIBRARY)
    torch.library.register_autograd(qualified, backward, setup_context=setup_context, lib=LIBRARY)
    op = getattr(getattr(torch.ops, NAMESPACE), name).default
    torch.library.register_vmap(qualified, _vmap_by_loop(op), lib=LIBRARY)
    return Op(op, kernel, backward, setup_context, only_first)


def no_third_order(name: str) -> Callable[..., Any]:
    """The autograd formula of a double backward: an error that says what to do."""

    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        raise RuntimeError(
            f"renorm::{name}: got a third-order derivative, expected at most a second: this op "
            "has none. Use the layer's formula in plain torch operations where one is needed"
        )

    return backward


def _vmap_by_loop(op: Any) -> Callable[..., Any]:
    """A batching rule that calls the op once for each element and stacks the results."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        def at(i: int) -> list[Any]:
            pairs = zip(args, in_dims, strict=True)
            return [a if d is None else a.select(d, i) for a, d in pairs]

        results = [op(*at(i)) for i in range(info.batch_size)]
        if isinstance(results[0], torch.Tensor):
            return torch.stack(results), 0
        stacked = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
        return stacked, (0,) * len(stacked)

    return rule

"""The contract suite: every implementation of every operator, to the second derivative."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from shared.kernels import OPERATORS, norm, pointwise
from shared.kernels.norm import fused, native
from shared.kernels.norm import op as norm_ops
from shared.kernels.pointwise import op as pointwise_ops
from tests.kernels.contract import (
    CASES,
    IMPLEMENTATIONS,
    NORM_CASES,
    Case,
    error,
    plain_norm,
    to_second_order,
    tolerance,
)

by_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
by_case_and_impl = pytest.mark.parametrize(
    ("case", "impl"),
    [pytest.param(c, i, id=f"{c.name}-{i}") for c in CASES for i in IMPLEMENTATIONS[c.operator]],
)
by_norm_case = pytest.mark.parametrize("case", NORM_CASES, ids=lambda c: c.name)
by_impl = pytest.mark.parametrize("impl", IMPLEMENTATIONS["norm"])
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def skip_cpp_off_a_cpu(impl: str, device: str) -> None:
    if impl == "cpp" and device != "cpu":
        pytest.skip("its kernels are for a CPU")


def check(case: Case, impl: str, inputs: list[Tensor], rstd: float = 0.0) -> None:
    """Every result of every order is within its tolerance of the truth, in the inputs' type.

    Where the exact gradient is a difference of large equal terms (a group of one element), `rstd`
    tells their size: each order multiplies by it.
    """
    terms = inputs[0].numel()
    # The truth must see the same cotangents, rounded to the inputs' type.
    truth = to_second_order(case.truth, [t.double() for t in inputs], inputs[0].dtype)
    got = to_second_order(case.op(impl), inputs)
    for order, (results, expected) in enumerate(zip(got, truth, strict=True)):
        for i, (g, e) in enumerate(zip(results, expected, strict=True)):
            assert g.dtype == inputs[0].dtype
            bound = tolerance(g.dtype, terms, order)
            found = error(g, e, floor=rstd**order)
            assert found <= bound, f"order {order}, result {i}: {found} > {bound}"


@by_case_and_impl
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_all_orders_equal_float64(case: Case, impl: str, dtype: torch.dtype, device: str) -> None:
    check(case, impl, case.inputs(dtype, device))


@by_case
@pytest.mark.parametrize("impl", ["native", "cpp"])
def test_gradcheck_and_gradgradcheck(case: Case, impl: str, device: str) -> None:
    skip_cpp_off_a_cpu(impl, device)
    inputs = [t.requires_grad_() for t in case.inputs(torch.float64, device)]
    function = case.op(impl)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@by_case_and_impl
def test_strided_inputs_and_gradients(case: Case, impl: str, device: str) -> None:
    """Channels-last, every second sample, and the expanded gradient of a sum."""
    x, *rest = case.inputs(torch.float32, device)
    twice = torch.stack([x, x], 1).flatten(0, 1)[::2]
    variants = [twice]
    if x.dim() == 4:
        variants.append(x.to(memory_format=torch.channels_last))
    if x.dim() > 2:
        variants.append(x.transpose(1, 2).contiguous().transpose(1, 2))
    for strided in variants:
        check(case, impl, [strided, *rest])
    x.requires_grad_()
    case.op(impl)(x, *rest).sum().backward()
    truth = x.detach().double().requires_grad_()
    case.truth(truth, *(t.double() for t in rest)).sum().backward()
    assert x.grad is not None and truth.grad is not None
    scale = truth.grad.abs().max() + 1
    assert (x.grad.double() - truth.grad).abs().max() <= 1e-5 * scale


def test_channels_last_stays_channels_last(device: str) -> None:
    x = torch.randn(2, 4, 3, 3, device=device).to(memory_format=torch.channels_last)
    for groups in (0, 1, 2, 4):
        y = norm(x, groups=groups)
        assert y.is_contiguous(memory_format=torch.channels_last)


@by_impl
@pytest.mark.parametrize("width", [1, 63, 65_537])
def test_odd_widths(width: int, impl: str, device: str) -> None:
    x = torch.randn(2, width, device=device) + 2
    weight, bias = torch.randn(2, width, device=device)
    for centre in (True, False):
        case = Case(
            "norm",
            "",
            (),
            lambda *a, c=centre: plain_norm(*a, groups=1, centre=c),
            lambda i, c=centre: lambda *a: norm(*a, groups=1, centre=c, impl=i),
        )
        rstd = float(1 / x.abs().min()) if width == 1 else 0.0
        check(case, impl, [x, weight, bias], rstd)


@by_impl
def test_batch_of_65536_rows_and_one_more(impl: str, device: str) -> None:
    if impl == "triton" and device == "cpu":
        pytest.skip("the interpreter takes a millisecond a program")
    x = torch.randn(65_537, 2, device=device)
    assert error(norm(x, groups=1, impl=impl), plain_norm(x.double(), groups=1)) < 1e-5


@by_impl
def test_empty_batch(impl: str, device: str) -> None:
    x = torch.empty(0, 4, 3, device=device, requires_grad=True)
    weight, bias = torch.ones(2, 4, device=device, requires_grad=True)
    y = norm(x, weight, bias, groups=2, impl=impl)
    gx, gw = torch.autograd.grad(y, (x, weight), torch.empty_like(y))
    assert y.shape == gx.shape == x.shape and bool((gw == 0).all())
    with pytest.raises(ValueError, match="an empty batch has no batch statistics"):
        norm(x, groups=0, impl=impl)


@by_impl
def test_one_element_a_channel(impl: str, device: str) -> None:
    x = torch.randn(1, 3, device=device, requires_grad=True)
    weight, bias = torch.randn(2, 3, device=device)
    y = norm(x, weight, bias, groups=0, impl=impl)
    assert torch.equal(y, bias.view(1, 3))
    (grad,) = torch.autograd.grad(y, x, torch.randn_like(y))
    assert bool((grad == 0).all())


@by_impl
@by_norm_case
def test_common_offset(case: Case, impl: str, device: str) -> None:
    """torch's float32 kernels on CPU are off by 6 to 150 % of their maximum here."""
    x, *rest = case.inputs(torch.float32, device)
    check(case, impl, [x + 1e6, *rest])


@by_norm_case
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_double_backward_in_chunks(
    case: Case, offset: float, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large tensor is worked through in chunks of groups; here any tensor is large."""
    monkeypatch.setattr(native, "CHUNK", 16)
    x, *rest = case.inputs(torch.float32, device)
    check(case, "native", [x + offset, *rest])


@by_impl
@by_norm_case
def test_constant_groups(case: Case, impl: str, device: str) -> None:
    """torch's gradients are wrong on constant rows."""
    x, *rest = case.inputs(torch.float32, device)
    constant = torch.full_like(x, 1234.567)
    check(case, impl, [constant, *rest])


@by_impl
def test_width_one_at_7e20(impl: str, device: str) -> None:
    """torch: NaN."""
    x = torch.full((3, 1), 7e20, device=device, requires_grad=True)
    y = norm(x, groups=1, impl=impl)
    (grad,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert bool((y == 0).all()) and bool((grad == 0).all())


@by_impl
@by_norm_case
@pytest.mark.parametrize("scale", [7e20, 1e-12])
def test_huge_and_tiny_magnitudes(case: Case, scale: float, impl: str, device: str) -> None:
    x, *rest = case.inputs(torch.float32, device)
    x = x * scale
    y = case.op(impl)(x, *rest)
    assert error(y, case.truth(x.double(), *(t.double() for t in rest))) < 1e-5
    x.requires_grad_()
    cotangent = torch.randn_like(y)
    (grad,) = torch.autograd.grad(case.op(impl)(x, *rest), x, cotangent)
    exact = x.detach().double().requires_grad_()
    truth = case.truth(exact, *(t.double() for t in rest))
    (expected,) = torch.autograd.grad(truth, exact, cotangent.double())
    assert error(grad, expected) < 1e-4


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # within the interpreter
@by_impl
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_numbers_propagate_within_their_group(
    bad: float, impl: str, device: str
) -> None:
    for centre in (True, False):
        x = torch.randn(3, 8, device=device)
        x[1, 2] = bad
        y = norm(x, groups=1, centre=centre, impl=impl)
        assert not bool(y[1, 2].isfinite())
        assert bool(y[[0, 2]].isfinite().all())


by_pointwise_impl = pytest.mark.parametrize("impl", IMPLEMENTATIONS["pointwise"])


@by_pointwise_impl
def test_nan_propagates_element_by_element(impl: str, device: str) -> None:
    x = torch.randn(3, 8, device=device)
    x[1, 2] = math.nan
    one = torch.ones(1, device=device)
    for function in ("tanh", "erf", "relu"):
        y = pointwise(x, one, function=function, impl=impl)
        assert bool(y[1, 2].isnan()) and int(y.isnan().sum()) == 1


EXTREME = (-math.inf, -1e38, -20.0, -1e-40, -0.0, 0.0, 1e-40, 20.0, 1e38, math.inf)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")  # in the interpreter
@by_pointwise_impl
@pytest.mark.parametrize("function", ["tanh", "erf", "relu"])
def test_functions_and_first_derivatives_of_extreme_numbers(
    function: str, impl: str, device: str
) -> None:
    x = torch.tensor([EXTREME], device=device, requires_grad=True)
    one = torch.ones(1, device=device, requires_grad=True)
    y = pointwise(x, one, function=function, impl=impl)
    (grad,) = torch.autograd.grad(y, x, torch.ones_like(y))
    if function != "relu":  # of a large x they are 0, and so is the product
        finite = pointwise(x[:, 1:-1], one, function=function, impl=impl)
        assert torch.autograd.grad(finite.sum(), one)[0].abs() < 1e-12
    exact = x.detach().double().requires_grad_()
    truth = getattr(torch, function)(exact)
    (expected,) = torch.autograd.grad(truth, exact, torch.ones_like(truth))
    assert torch.allclose(y.double(), truth, rtol=1e-6, atol=3e-45)  # two of the least
    assert torch.allclose(grad.double(), expected, rtol=1e-6, atol=1e-12)
    assert torch.equal(y.signbit(), truth.float().signbit()) or impl == "triton"


@by_pointwise_impl
@pytest.mark.parametrize("function", ["tanh", "erf"])
def test_every_magnitude_is_good_to_a_few_units_in_the_last_place(
    function: str, impl: str, device: str
) -> None:
    x = torch.cat([torch.logspace(-30, 2, 5001), torch.linspace(0, 6, 5001)]).view(1, -1)
    y = pointwise(x.to(device), torch.ones(1, device=device), function=function, impl=impl)
    truth = getattr(torch, function)(x.double())
    assert bool(((y.cpu() - truth).abs() <= 4 * torch.finfo(torch.float32).eps * truth).all())
    assert float(y.max()) == 1.0


@by_norm_case
def test_every_element_of_an_output_is_written(
    case: Case, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = torch.empty_like

    def poisoned(*args: object, **kwargs: object) -> Tensor:
        return plain(*args, **kwargs).fill_(math.nan)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(fused.torch, "empty_like", poisoned)
    inputs = case.inputs(torch.float32, device)
    for impl in ("native", "cpp", "triton"):
        for results in to_second_order(case.op(impl), inputs):
            assert all(bool(t.isfinite().all()) for t in results)


@by_case_and_impl
def test_an_activation_may_work_in_place(case: Case, impl: str, device: str) -> None:
    inputs = [t.requires_grad_() for t in case.inputs(torch.float32, device)]
    torch.relu_(case.op(impl)(*inputs)).sum().backward()
    assert all(t.grad is not None for t in inputs)


@by_case_and_impl
def test_the_same_twice(case: Case, impl: str, device: str) -> None:
    inputs = case.inputs(torch.float32, device)
    first = to_second_order(case.op(impl), inputs)
    second = to_second_order(case.op(impl), inputs)
    for a, b in zip(first, second, strict=True):
        assert all(torch.equal(s, t) for s, t in zip(a, b, strict=True))


@by_case_and_impl
def test_third_order_raises(case: Case, impl: str, device: str) -> None:
    """torch's own layer and batch norms are silently wrong there."""
    if case not in NORM_CASES and impl == "native":
        pytest.skip("made of torch's own operations, which have every order")
    inputs = [t.requires_grad_() for t in case.inputs(torch.float64, device)]
    y = case.op(impl)(*inputs)
    (first,) = torch.autograd.grad(y.pow(3).sum(), inputs[0], create_graph=True)
    (second,) = torch.autograd.grad(first.pow(3).sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="third-order"):
        second.pow(3).sum().backward()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # within torch
@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
@pytest.mark.parametrize("groups", [0, 1, 2])
@pytest.mark.parametrize("impl", ["native", "cpp"])
def test_opcheck_norm(impl: str, groups: int, layout: str, device: str) -> None:
    skip_cpp_off_a_cpu(impl, device)
    x = torch.randn(4, 6, 5, device=device)
    if layout == "channels-last":
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    x.requires_grad_()
    w, b = torch.randn(2, 1, 6, 1, device=device).unbind()
    w, b = w.requires_grad_(), b.requires_grad_()
    for affine in ((w, b), (w, None), (None, None)):
        args = (x, *affine, groups, True, 1e-5, impl)
        torch.library.opcheck(norm_ops.norm_op.op, args)
        y, mean, rstd = norm_ops.norm_op(*args)
        grad = torch.randn_like(y).requires_grad_()
        tail = (mean, rstd, groups, True, [True] * 3, impl)
        torch.library.opcheck(norm_ops.norm_backward_op.op, (grad, x, affine[0], *tail))
        plain = [None if t is None else t.detach() for t in (x, affine[0])]
        v = torch.randn_like(x).detach()
        double = (v, plain[1], None, grad.detach(), *plain, *tail)
        torch.library.opcheck(norm_ops.norm_double_backward_op.op, double)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # within torch
@pytest.mark.parametrize("impl", ["native", "cpp"])
@pytest.mark.parametrize("layout", ["contiguous", "channels-last", "every second"])
def test_opcheck_pointwise(layout: str, impl: str, device: str) -> None:
    skip_cpp_off_a_cpu(impl, device)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device, requires_grad=True)

    x = leaf(3, 4, 5)
    if layout == "channels-last":
        x = leaf(3, 5, 4).detach().transpose(1, 2).requires_grad_()
    if layout == "every second":
        x = leaf(3, 4, 10).detach()[..., ::2].requires_grad_()
    full = (x, leaf(1), leaf(1), leaf(3, 4, 5), leaf(4), leaf(4))
    for tensors in (full, (*full[:2], None, None, None, None)):
        args = (*tensors, "erf", impl)
        torch.library.opcheck(pointwise_ops.pointwise_op.op, args)
        grad = leaf(3, 4, 5)
        torch.library.opcheck(pointwise_ops.pointwise_backward_op.op, (grad, *args))
        plain = [None if t is None else t.detach() for t in tensors]
        double = (*plain, grad.detach(), *plain, "erf", impl)
        torch.library.opcheck(pointwise_ops.pointwise_double_backward_op.op, double)


@by_case
def test_compiles_to_one_graph(case: Case, device: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(case.op("auto"), fullgraph=True, backend="aot_eager")
    inputs = [t.requires_grad_() for t in case.inputs(torch.float32, device)]
    y, expected = compiled(*inputs), case.op("auto")(*inputs)
    grad = torch.randn_like(y)
    for a, b in zip(
        torch.autograd.grad(y, inputs, grad),
        torch.autograd.grad(expected, inputs, grad),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=1e-6)
    assert torch.allclose(y, expected)


def test_another_batch_size_does_not_compile_again(device: str) -> None:
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    weight, bias = torch.randn(2, 8, device=device)
    compiled = torch.compile(
        lambda x: norm(x, weight, bias, groups=1).relu(), fullgraph=True, backend=counter
    )
    for n in (4, 5, 6, 7, 9, 17, 31):
        compiled(torch.randn(n, 8, device=device))
    # The first size compiles for itself, the second for any size.
    assert counter.frame_count == 2


def test_vmap(device: str) -> None:
    x = torch.randn(3, 4, 6, 5, device=device)
    w = torch.randn(3, 6, device=device)
    got = torch.func.vmap(lambda t, s: norm(t, s, groups=2))(x, w)
    expected = torch.stack([norm(t, s, groups=2) for t, s in zip(x, w, strict=True)])
    assert torch.equal(got, expected)
    slope = torch.randn(3, 1, device=device)
    got = torch.func.vmap(lambda t, s: pointwise(t, s, function="tanh"))(x, slope)
    assert torch.allclose(got, torch.tanh(x * slope.view(3, 1, 1, 1)))


def test_autocast_keeps_the_type_of_x_and_float32_statistics(device: str) -> None:
    x = torch.randn(4, 8, device=device)
    weight = torch.randn(8, device=device)
    with torch.autocast(device, torch.bfloat16):
        half = norm(x.bfloat16() * 300, weight, groups=1)
        full = norm(x, weight, groups=1)
    assert half.dtype == torch.bfloat16 and full.dtype == torch.float32
    expected = plain_norm((x.bfloat16() * 300).double(), weight.double(), groups=1)
    assert error(half, expected) <= torch.finfo(torch.bfloat16).eps


@by_impl
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_statistics_of_half_precision_are_float32(
    dtype: torch.dtype, impl: str, device: str
) -> None:
    from shared.kernels import norm_with_statistics

    x = torch.randn(300, 4, device=device).to(dtype)
    for groups, flat in ((0, x), (1, x.t().contiguous())):
        _, mean, rstd = norm_with_statistics(flat, groups=groups, impl=impl)
        assert mean.dtype == rstd.dtype == torch.float32
        assert torch.allclose(mean.double(), x.double().mean(0), atol=1e-6)


@by_impl
def test_weight_gradient_of_half_precision_is_summed_in_float32(impl: str, device: str) -> None:
    """300 equal terms: a bfloat16 sum stops at 256, torch's own does on a CPU."""
    rows = torch.tensor([[-1.0, 1.0]], device=device).bfloat16().repeat(300, 1)
    maps = rows.t().unsqueeze(0).contiguous()
    weight = torch.ones(2, device=device, requires_grad=True)
    # The interpreter takes too long over 300 rows.
    for x in (maps,) if impl == "triton" else (maps, rows):
        y = norm(x, weight, groups=1, eps=0.0, impl=impl)
        (grad,) = torch.autograd.grad(y, weight, torch.ones_like(y))
        assert grad.tolist() == [-300.0, 300.0]


@by_pointwise_impl
@pytest.mark.parametrize("layout", ["rows", "maps"])
def test_gradients_of_half_precision_parameters_are_summed_in_float32(
    layout: str, impl: str, device: str
) -> None:
    """As above; the sum's last rounding is the only one."""
    x = torch.ones(300, 2, device=device).bfloat16()
    x = x if layout == "rows" else x.t().unsqueeze(0).contiguous()
    slope, weight, bias = (torch.ones(n, device=device, requires_grad=True) for n in (1, 2, 2))
    y = pointwise(x, slope, None, None, weight, bias, function="relu", impl=impl)
    grads = torch.autograd.grad(y, (slope, weight, bias), torch.ones_like(y))
    assert [t.tolist() for t in grads] == [[600.0], [300.0, 300.0], [300.0, 300.0]]


def test_native_pointwise_has_a_third_order(device: str) -> None:
    x = torch.randn(2, 3, dtype=torch.float64, device=device, requires_grad=True)
    one = torch.ones(1, dtype=torch.float64, device=device)

    def second(t: Tensor) -> Tensor:
        y = pointwise(t, one, function="tanh", impl="native")
        (first,) = torch.autograd.grad(y.sum(), t, create_graph=True)
        return torch.autograd.grad(first.sum(), t, create_graph=True)[0]

    assert torch.autograd.gradcheck(second, (x,))


WRONG = [
    ((torch.ones(4),), {"groups": 1}, ValueError, r"got x of shape \(4,\).*expected \(N, C"),
    ((torch.ones(2, 4).long(),), {"groups": 1}, ValueError, "expected .* floating-point"),
    ((torch.ones(2, 6),), {"groups": 4}, ValueError, "got 6 channels in 4 groups"),
    ((torch.ones(2, 6), torch.ones(5)), {"groups": 1}, ValueError, r"got a weight.*\(5,\)"),
    ((torch.ones(2, 6), None, torch.ones(6)), {"groups": 1}, ValueError, "weight of ones"),
    ((torch.ones(2, 6), torch.ones(6).double()), {"groups": 1}, TypeError, "convert one"),
    ((torch.ones(2, 6),), {"groups": 1, "impl": "cuda"}, ValueError, "expected one of auto"),
    ((torch.ones(2, 6),), {"groups": 1, "eps": -1e-5}, ValueError, "got eps -1e-05, expected a f"),
    ((torch.ones(2, 6),), {"groups": 1, "eps": math.nan}, ValueError, "got eps nan, expected a f"),
    ((torch.ones(2, 6),), {"groups": 1, "eps": math.inf}, ValueError, "got eps inf, expected a f"),
]


@pytest.mark.parametrize(("args", "settings", "kind", "message"), WRONG)
def test_wrong_arguments_raise(
    args: tuple[Tensor, ...], settings: dict[str, int], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        norm(*args, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"function": "sine"}, "expected one of tanh, erf, relu"),
        ({"slope": torch.ones(2)}, r"got slope of shape \(2,\)"),
        ({"residual": torch.ones(2, 4)}, r"got residual of shape \(2, 4\)"),
        ({"weight": torch.ones(4)}, r"got weight of shape \(4,\)"),
        ({"bias": torch.ones(3)}, "a bias without a weight"),
    ],
)
def test_wrong_arguments_of_pointwise_raise(changed: dict[str, object], message: str) -> None:
    arguments = {"x": torch.ones(2, 3), "slope": torch.ones(1), "function": "tanh"} | changed
    with pytest.raises(ValueError, match=message):
        pointwise(**arguments)  # type: ignore[arg-type]


def test_every_operator_tells_its_equation_and_source() -> None:
    assert set(OPERATORS) == {"norm", "pointwise"}
    for operator in OPERATORS.values():
        assert operator.equation.startswith("y = ") and "arXiv" in operator.source
        assert set(operator.implementations) == {"reference", "native", "cpp", "triton"}

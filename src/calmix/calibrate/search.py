"""Minimum of a smooth function of a few or many numbers: bounded quasi-Newton, no learning rate."""

import functools
from collections.abc import Callable, Sequence
from typing import Any


def minimise(
    value_and_slope: Callable[[Any], tuple[float, Any]],
    start: Any,
    *,
    bounds: Sequence[tuple[float, float]] | None = None,
    tolerance: float = 1e-8,
    iterations: int = 1000,
) -> tuple[Any, float]:
    """The point (a NumPy array) and its value; L-BFGS-B, until the slope is below `tolerance`.

    On one BLAS thread: its matrices are tiny, and threads that wait for each other took 10 times as long.

    >>> point, value = minimise(lambda x: (float(x @ x), 2 * x), [3.0, 4.0], bounds=[(1, 9), (-9, 9)])
    >>> point.tolist(), value
    ([1.0, 0.0], 1.0)
    """
    from scipy.optimize import minimize  # a slow import

    options = {"maxiter": iterations, "gtol": tolerance, "ftol": tolerance**2, "maxcor": 20}
    with _blas().limit(limits=1, user_api="blas"):
        best = minimize(value_and_slope, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return best.x, float(best.fun)


@functools.cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()

"""Temperature that minimises a weighted mean of the NLL of several domains, from a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domaincal._typing import FloatArray
from domaincal.statistics import LabelledRows

#: Number of temperatures in the table.
N_TEMPERATURES = 65
#: The spacing of the table is divided by 2**30.
N_BISECTIONS = 30
#: From values at 0, 1, 2 and 3 to the coefficients of the cubic polynomial through them.
CUBIC = np.linalg.inv(np.vander(np.arange(4.0), increasing=True)).T


@dataclass(frozen=True, eq=False)
class SlopeTable:
    """Slope of the mean NLL of each domain in log T, at several temperatures.

    The NLL of a domain has a single minimum, at T_k. The minimum of a weighted mean therefore lies
    between the smallest and the largest T_k, which are the ends of the table. The table replaces
    the rows: predictions need no others.

    Attributes
    ----------
    log_temperatures : array of shape (n_temperatures,)
        Equally spaced, from the smallest to the largest log T_k.
    slopes : array of shape (n_temperatures, n_domains)
    """

    log_temperatures: FloatArray
    slopes: FloatArray

    @classmethod
    def from_rows(cls, rows: LabelledRows, temperatures: FloatArray) -> SlopeTable:
        """Table of the domains of some rows; NaN in ``temperatures`` leaves a domain out."""
        used = ~np.isnan(temperatures)
        low, high = np.log([temperatures[used].min(), temperatures[used].max()])
        grid = np.linspace(low, high, N_TEMPERATURES)
        slopes = np.empty((N_TEMPERATURES, int(used.sum())))
        for k, beta in enumerate(np.exp(-grid)):
            # NaN skips the rows of a domain.
            sums = rows.sums(np.where(used, beta, np.nan))
            slopes[k] = -beta * sums.slope[used] / sums.weight[used]
        return cls(grid, slopes)

    def temperatures(self, weights: FloatArray) -> FloatArray:
        """Temperature for each row of weights of the domains, shape (n, n_domains).

        The zero of the weighted slope, by cubic interpolation between the points of the table.
        """
        grid = self.log_temperatures
        slopes = weights @ self.slopes.T
        # The interval that ends at the first slope that is not negative.
        rising = slopes >= 0.0
        right = np.where(rising.any(axis=1), rising.argmax(axis=1), len(grid) - 1)
        right = np.clip(right, 1, len(grid) - 1)
        nodes = np.clip(right[:, None] - 2, 0, len(grid) - 4) + np.arange(4)
        cubic = np.take_along_axis(slopes, nodes, axis=1) @ CUBIC
        low, high = right - 1.0 - nodes[:, 0], right - 1.0 * nodes[:, 0]
        for _ in range(N_BISECTIONS):
            x = 0.5 * (low + high)
            negative = ((cubic[:, 3] * x + cubic[:, 2]) * x + cubic[:, 1]) * x + cubic[:, 0] < 0.0
            low, high = np.where(negative, x, low), np.where(negative, high, x)
        spacing = (grid[-1] - grid[0]) / (len(grid) - 1)
        found = grid[nodes[:, 0]] + spacing * 0.5 * (low + high)
        return np.asarray(np.exp(np.clip(found, grid[0], grid[-1])))

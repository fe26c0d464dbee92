"""Conversion of fitted calibrators to torch modules."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from domaincal._optional import require
from domaincal.errors import InputError


class TorchExport:
    """Base class of objects with ``to_torch``; subclasses implement ``_torch_module``.

    The file of each module, which subclasses torch's, is imported in ``_torch_module`` only.
    """

    def to_torch(self) -> Any:
        """Torch module that predicts as this fitted calibrator does.

        The module takes tensors: ``module(logits, features=None, domains=None)``. It returns a
        named tuple of ``probabilities``, ``confidence`` (of the argmax of the logits) and
        ``temperature``, which is None for methods without one. Logits and features get gradients.
        ``torch.compile`` and ``torch.export`` accept the module, with any number of rows; an
        exported program returns a plain tuple, so that it can be loaded without domaincal.

        - ``features`` has the columns of the fit, in their order. Methods that use none ignore it.
        - ``domains`` holds an integer for each row. Methods that predict batches take rows with the
          same integer as one batch; without ``domains``, all rows are one batch. For
          :class:`DomainTemperatureScaling`, the integer is the name of the domain, or its position
          in ``domain_temperatures_`` if names are strings; any other integer gets the pooled
          temperature. Other methods ignore ``domains``.
        - Probabilities are float32, or float64 for float64 logits.
        - Shapes, types and devices are checked. Values are not, because a check would wait for the
          device: where ``predict_proba`` raises an error for a value that is not finite, the rows
          are NaN. There are no warnings.

        The learned values are float64 buffers, which ``to``, ``state_dict`` and ``float`` treat as
        usual; ``half`` and ``bfloat16`` make them float32. ``load_state_dict`` refuses the state of
        another method or of other options. The module has the attributes ``n_classes``,
        ``n_features`` (None if features are not used) and ``options``.

        Returns
        -------
        torch.nn.Module

        Examples
        --------
        >>> import domaincal as dc, torch
        >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=50, random_state=0)
        >>> module = dc.MultiDomainTemperatureScaling().fit(data).to_torch()
        >>> found = module(torch.tensor(data.logits), torch.tensor(data.features))
        >>> found.probabilities.shape, found.temperature.shape
        (torch.Size([200, 10]), torch.Size([200]))
        """
        check_is_fitted(self)
        require("torch", extra="torch", purpose="to_torch")
        return self._torch_module()

    def _torch_module(self) -> Any:
        """Module of the learned values."""
        raise InputError(
            f"{type(self).__name__} has no torch module; call predict_proba, which takes tensors."
        )

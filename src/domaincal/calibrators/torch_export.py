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
        ``temperature``, which is None for methods without one. Gradients flow to the logits and to
        the features. ``torch.compile`` and ``torch.export`` accept it, with any number of rows; an
        exported program returns a plain tuple, so that it can be loaded without domaincal.

        - ``features`` has the columns of the fit, in their order. Methods that use none ignore it.
        - ``domains`` holds an integer for each row. Methods that predict batches group the rows by
          it; without it, all rows are one batch. :class:`DomainTemperatureScaling` looks it up: the
          name of the domain, or its position in ``domain_temperatures_`` if names are strings; any
          other integer gets the pooled temperature.
        - Probabilities are float32, or float64 for float64 logits.
        - Values are not checked, which would wait for the device: where ``predict_proba`` raises an
          error for a value that is not finite, the rows are NaN. There are no warnings.

        The learned values are float64 buffers, which ``to``, ``state_dict`` and ``float`` treat as
        usual; ``half`` and ``bfloat16`` make them float32. The module has the attributes
        ``n_classes`` and ``n_features`` (None if features are not used).

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

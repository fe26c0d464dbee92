"""Base classes of torch modules that predict as fitted calibrators do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from domaincal._optional import require
from domaincal.errors import InputError

torch: Any = require("torch", extra="torch", purpose="to_torch")
# torch before 2.7 does not tell: its exported programs return the named tuple.
_is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)


class TorchPredictions(NamedTuple):
    """Predictions for the same rows, as tensors.

    Attributes
    ----------
    probabilities : tensor of shape (n, n_classes)
    confidence : tensor of shape (n,)
        Probability of the argmax of the logits.
    temperature : tensor of shape (n,), or None
        None for methods without a temperature.
    """

    probabilities: Any
    confidence: Any
    temperature: Any


class LearnedNumbers(torch.nn.Module):
    """Module whose learned numbers are buffers of at least float32.

    In half precision, a temperature would have three digits. float64 buffers also keep products out
    of autocast and TF32.
    """

    def store(self, **arrays: Any) -> None:
        """Register arrays as buffers under their names."""
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(np.ascontiguousarray(array)))

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, buffer in self._buffers.items():
            if buffer.dtype in (torch.float16, torch.bfloat16):
                self._buffers[name] = before[name].to(buffer.device, torch.float32)
        return self


class CalibratorModule(LearnedNumbers):
    """Base class of the modules that ``to_torch`` makes.

    Subclasses implement ``_predict``. Their ``options`` change predictions but are no buffers. The
    buffer ``description`` holds the repr, options included, as UTF-8 bytes: a ``state_dict`` with
    another description is refused.

    Attributes
    ----------
    method : str
        Name of the calibrator.
    n_classes : int
    n_features : int or None
        Number of features; None if features are not used.
    options : dict
        Such as the target of MD-TS and the number of neighbours.
    """

    #: What to pass as domains, for error messages.
    _domains_cure = (
        "a tensor with an integer for each row, such as torch.tensor(numpy.unique(domains, "
        "return_inverse=True)[1])"
    )

    def __init__(
        self, method: str, n_classes: int, n_features: int | None = None, **options: str | int
    ) -> None:
        super().__init__()
        self.method = method
        self.n_classes = n_classes
        self.n_features = n_features
        self.options = options
        self.store(description=np.array(list(self.extra_repr().encode()), np.uint8))

    def forward(self, logits: Any, features: Any = None, domains: Any = None) -> Any:
        """Predictions for all rows."""
        self._check_logits(logits)
        if self.n_features is not None:
            self._check_features(features, n_rows=logits.shape[0])
        found = self._predict(logits.to(lane(logits)), features, domains)
        # A named tuple could not be loaded from a file without this class.
        return tuple(found) if _is_exporting() else found

    def extra_repr(self) -> str:
        """Arguments in the repr of the module."""
        sizes = {"n_classes": self.n_classes, "n_features": self.n_features, **self.options}
        shown = [f"{name}={value}" for name, value in sizes.items() if value is not None]
        return ", ".join([self.method, *shown])

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        stored = state_dict.get(f"{prefix}description")
        if stored is not None and not stored.is_meta:
            description = bytes(stored.tolist()).decode(errors="replace")
            if description != self.extra_repr():
                error_msgs.append(
                    f"this is the state of {description}, but the module is that of "
                    f"{self.extra_repr()}; make it from the same calibrator."
                )
                return
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )

    @abstractmethod
    def _predict(self, logits: Any, features: Any, domains: Any) -> TorchPredictions:
        """Predictions for checked rows; logits are float32 or float64."""

    def _check_logits(self, logits: Any) -> None:
        self._check_numbers(logits, "logits", self.n_classes)
        if logits.ndim != 2 or logits.shape[1] != self.n_classes:
            raise InputError(
                f"logits have the shape {tuple(logits.shape)}, but {self.method} was fitted with "
                f"{self.n_classes} classes; pass a tensor of shape (rows, {self.n_classes}) with "
                "the columns of the fit."
            )

    def _check_features(self, features: Any, *, n_rows: int) -> None:
        if features is None:
            raise InputError(
                f"{self.method} needs features; pass features=..., a tensor of shape (rows, "
                f"{self.n_features})."
            )
        self._check_numbers(features, "features", self.n_features)
        if features.ndim != 2 or features.shape[1] != self.n_features:
            raise InputError(
                f"features have the shape {tuple(features.shape)}, but {self.method} was fitted "
                f"with {self.n_features} features; pass a tensor of shape (rows, "
                f"{self.n_features}) with the columns of the fit."
            )
        if features.shape[0] != n_rows:
            raise InputError(
                f"features have {features.shape[0]} rows, but the logits have {n_rows}; pass one "
                "row of features for each row of logits."
            )

    def _check_numbers(self, values: Any, name: str, n_columns: int | None) -> None:
        self._check_tensor(values, name, f"a tensor of shape (rows, {n_columns})")
        if values.is_complex() or values.dtype == torch.bool:
            raise InputError(f"{name} are {values.dtype}; pass a tensor of real numbers.")

    def _check_tensor(self, values: Any, name: str, cure: str) -> None:
        """Raise InputError unless the values are a tensor on the device of the module."""
        if not isinstance(values, torch.Tensor):
            raise InputError(f"{name} are of the type {type(values).__name__}; pass {cure}.")
        device = self.description.device
        if values.device != device:
            raise InputError(
                f"{name} are on {values.device}, but the module is on {device}; call "
                f"module.to({str(values.device)!r}) or {name}.to({str(device)!r})."
            )

    def _domain_codes(self, domains: Any, *, n_rows: int) -> Any:
        """Domains in int64; raise InputError unless there is an integer for each row."""
        self._check_tensor(domains, "domains", self._domains_cure)
        if domains.is_floating_point() or domains.is_complex() or domains.dtype == torch.bool:
            raise InputError(
                f"domains are {domains.dtype} instead of integers; pass {self._domains_cure}."
            )
        if domains.ndim != 1 or domains.shape[0] != n_rows:
            raise InputError(
                f"domains have the shape {tuple(domains.shape)}, but the logits have {n_rows} "
                "rows; pass one integer for each row."
            )
        return domains.to(torch.int64)


class TemperatureModule(CalibratorModule):
    """Base class of modules that divide the logits of each row by a temperature.

    Subclasses implement ``_temperatures``.
    """

    @abstractmethod
    def _temperatures(self, logits: Any, features: Any, domains: Any) -> Any:
        """Temperatures of shape (n,) or (1,), in the precision of the learned numbers."""

    def _predict(self, logits: Any, features: Any, domains: Any) -> TorchPredictions:
        temperature = self._temperatures(logits, features, domains).expand(logits.shape[0])
        # A logit of -inf would give a finite probability of 0, but is an error in predict_proba.
        finite = logits.isfinite().all(1)
        temperature = torch.where(finite, temperature, torch.nan)
        p = softmax_at(logits, temperature)
        confidence = p.gather(1, logits.argmax(1, keepdim=True))[:, 0]
        return TorchPredictions(p, confidence, temperature.to(logits.dtype))


def softmax_at(logits: Any, temperature: Any) -> Any:
    """``softmax(logits / temperature)``, in the precision of the logits."""
    # Infinite in float32, beta would give the largest logit 0 * inf.
    largest = 0.5 * torch.finfo(logits.dtype).max
    beta = (1.0 / temperature).to(logits.dtype).clamp(max=largest)
    return (below_top(logits) * beta[:, None]).softmax(1)


def below_top(logits: Any) -> Any:
    """Logits minus the largest of their row, for functions that a constant does not change.

    The largest has no gradient.
    """
    return logits - logits.detach().amax(1, keepdim=True)


def lane(logits: Any) -> Any:
    """Dtype of the arithmetic: float32 for floats of up to 32 bits, otherwise float64."""
    single = logits.is_floating_point() and logits.element_size() <= 4
    return torch.float32 if single else torch.float64


class OneTemperature(TemperatureModule):
    """The same temperature for all rows."""

    def __init__(self, method: str, n_classes: int, temperature: float) -> None:
        super().__init__(method, n_classes)
        self.store(learned_temperature=np.array([temperature]))

    def _temperatures(self, logits: Any, features: Any, domains: Any) -> Any:
        return self.learned_temperature

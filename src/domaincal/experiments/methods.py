"""Methods of an experiment: a name for tables, and the calibrator behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from domaincal._specs import Spec
from domaincal.calibrators import DomainTemperatureScaling, MultiDomainTemperatureScaling
from domaincal.calibrators.files.registry import METHODS, calibrator_from_spec, set_parameters
from domaincal.errors import InputError
from domaincal.experiments.user_code import code_digest, load_object

ORACLE = "oracle"


@dataclass(frozen=True)
class Method:
    """A method: its name, and the text that defines its calibrator.

    Parameters
    ----------
    name : str
        Name in tables and figures.
    text : str
        A method as on the command line, e.g. ``"md-ts:head=ridge"``; ``"mine.py:Mine"``, a class
        or a function without arguments in a Python file; or ``"oracle"``, temperature scaling
        fitted to the labels of the scored rows themselves, domain by domain. The oracle shows how
        well one temperature for each domain could do at best; no usable method knows these labels.
    folder : Path, optional
        Folder of the Python file. Default: no code may run.

    Examples
    --------
    >>> Method("MD-TS ridge", "md-ts:head=ridge").head
    'ridge'
    """

    name: str
    text: str
    folder: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(
                f"the method {self.name!r} must be a string such as 'md-ts:head=ridge', got "
                f"{self.text!r}."
            )
        self.calibrator()  # fail early on an invalid text

    @property
    def is_oracle(self) -> bool:
        """Whether it is fitted to the labels of the scored rows."""
        return self.text == ORACLE

    @property
    def ind_only(self) -> bool:
        """Whether it has no predictions for unseen domains."""
        return isinstance(self.calibrator(), DomainTemperatureScaling) and not self.is_oracle

    @property
    def knows_domains(self) -> bool:
        """Whether it uses the domain of a row, or the labels of the scored rows."""
        return self.is_oracle or self.ind_only

    @property
    def needs_features(self) -> bool:
        """Whether it is MD-TS on the features of the data."""
        calibrator = self.calibrator()
        return isinstance(calibrator, MultiDomainTemperatureScaling) and calibrator.features is None

    @property
    def head(self) -> str:
        """The head of MD-TS; an empty text for other methods."""
        head = getattr(self.calibrator(), "head", "")
        return head if isinstance(head, str) else type(head).__name__

    def calibrator(self) -> Any:
        """A new, unfitted calibrator."""
        if self.is_oracle:
            return DomainTemperatureScaling()
        spec = Spec.parse(self.text)
        if spec.is_code:
            return self._user_calibrator(spec)
        if spec.name == ORACLE:
            raise InputError(
                f"the method {self.name!r} is {self.text!r}, but oracle has no parameters; write "
                "'oracle'."
            )
        if spec.name not in METHODS:
            raise InputError(
                f"the method {self.name!r} is {self.text!r}, but there is no {spec.name!r}; choose "
                f"from {', '.join(METHODS)}, {ORACLE}, or FILE.py:CLASS."
            )
        return calibrator_from_spec(spec)

    def definition(self) -> dict[str, Any]:
        """Everything that decides the numbers: the text, and the code of a Python file."""
        spec = Spec.parse(self.text)
        code = code_digest(spec.name, self.folder) if spec.is_code else None
        return {"text": self.text, "code": code}

    def _user_calibrator(self, spec: Spec) -> Any:
        calibrator = load_object(spec.name, self.folder)()
        for needed in ("fit", "predict_confidence", "predict_proba", "get_params"):
            if not hasattr(calibrator, needed):
                raise InputError(
                    f"{self.text!r} makes a {type(calibrator).__name__}, which is not a "
                    f"calibrator: it has no {needed}; derive it from a calibrator of domaincal or "
                    "from sklearn.base.BaseEstimator."
                )
        return set_parameters(calibrator, spec)


MSP, TS, MD_TS = Method("MSP", "msp"), Method("TS", "ts"), Method("MD-TS", "md-ts")
#: The paper's main comparison, the temperatures of seen domains (T_k), and the oracle.
MAIN_METHODS = (MSP, TS, MD_TS, Method("T_k", "domain-ts"), Method(ORACLE, ORACLE))
#: The other baselines of the paper's table 5, as maps of the confidence.
BINNING_METHODS = (
    Method("HistBin", "histogram"), Method("Isotonic", "isotonic"), Method("BBQ", "bbq"),
)  # fmt: skip
#: The same with a map for each class (one-vs-rest), the usual form for many classes.
ONE_VS_REST_METHODS = (
    Method("HistBin OvR", "histogram:scheme=one-vs-rest"),
    Method("Isotonic OvR", "isotonic:scheme=one-vs-rest"),
    Method("BBQ OvR", "bbq:scheme=one-vs-rest"),
)  # fmt: skip
#: The heads of the paper's table 3. The first is the default head of MD-TS.
HEAD_NAMES = ("OLS", "Ridge", "Huber", "KRR", "KNN")


def head_methods(md_ts: Method = MD_TS) -> tuple[Method, ...]:
    """MD-TS with each head of the paper's table 3; ``md_ts`` gives the other parameters."""
    first, *others = HEAD_NAMES
    return (
        Method(first, md_ts.text, md_ts.folder),
        *(Method(name, f"{md_ts.text}:head={name.lower()}", md_ts.folder) for name in others),
    )

"""Methods of an experiment: a name for tables, and the calibrator behind it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from domaincal._specs import Spec
from domaincal.calibrators import DomainTemperatureScaling, MultiDomainTemperatureScaling
from domaincal.calibrators.registry import METHODS, calibrator_from_spec, set_parameters
from domaincal.errors import InputError
from domaincal.experiments.user_code import file_digest, from_file

ORACLE = "oracle"


@dataclass(frozen=True)
class Method:
    """A method by its name and by what is written for it.

    Parameters
    ----------
    name : str
        In tables and figures.
    text : str
        As on the command line, e.g. ``"md-ts:head=ridge"``; ``"mine.py:Mine"``, a class or a
        function without arguments in a file; or ``"oracle"``: temperature scaling fitted on the
        very rows that are scored, domain by domain, with their labels. Nobody has those; it shows
        what one temperature for each domain could do at best.
    folder : Path, optional
        Where the file is.

    Examples
    --------
    >>> Method("MD-TS ridge", "md-ts:head=ridge").head
    'ridge'
    """

    name: str
    text: str
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(
                f"the method {self.name!r} must be a text such as 'md-ts:head=ridge', got "
                f"{self.text!r}."
            )
        self.calibrator()  # what is wrong is wrong at once

    @property
    def is_oracle(self) -> bool:
        """Whether it looks at the labels of the rows that are scored."""
        return self.text == ORACLE

    @property
    def ind_only(self) -> bool:
        """Whether it has nothing to say of unseen domains."""
        return isinstance(self.calibrator(), DomainTemperatureScaling) and not self.is_oracle

    @property
    def needs_features(self) -> bool:
        """Whether it cannot do without features."""
        calibrator = self.calibrator()
        return isinstance(calibrator, MultiDomainTemperatureScaling) and calibrator.features is None

    @property
    def head(self) -> str:
        """The head of MD-TS."""
        head = getattr(self.calibrator(), "head", "")
        return head if isinstance(head, str) else type(head).__name__

    def calibrator(self) -> Any:
        """A new calibrator."""
        if self.is_oracle:
            return DomainTemperatureScaling()
        spec = Spec.parse(self.text)
        if spec.is_code:
            return self._from_file(spec)
        if spec.name == ORACLE:
            raise InputError(
                f"the method {self.name!r} is {self.text!r}; oracle has no parameters."
            )
        if spec.name not in METHODS:
            raise InputError(
                f"the method {self.name!r} is {self.text!r}; there is no {spec.name!r}: choose "
                f"from {', '.join(METHODS)}, {ORACLE}, or FILE.py:CLASS."
            )
        return calibrator_from_spec(spec)

    def _from_file(self, spec: Spec) -> Any:
        made = from_file(spec.name, self.folder)()
        for needed in ("fit", "predict_confidence", "predict_proba", "get_params"):
            if not hasattr(made, needed):
                raise InputError(
                    f"{self.text!r} gives {type(made).__name__}, which is no calibrator: it has no "
                    f"{needed}; derive it from one of domaincal's, or from "
                    "sklearn.base.BaseEstimator."
                )
        return set_parameters(made, spec)

    def definition(self) -> dict[str, Any]:
        """What decides the numbers."""
        spec = Spec.parse(self.text)
        code = file_digest(spec.name, self.folder) if spec.is_code else None
        return {"text": self.text, "code": code}


#: The methods of the paper's main comparison, that of seen domains, and the bound.
MSP, TS, MD_TS = Method("MSP", "msp"), Method("TS", "ts"), Method("MD-TS", "md-ts")
DOMAIN_TS = Method("T_k", "domain-ts")
LABEL_ORACLE = Method(ORACLE, ORACLE)
MAIN = (MSP, TS, MD_TS, DOMAIN_TS, LABEL_ORACLE)
BINNING = (Method("HistBin", "histogram"), Method("Isotonic", "isotonic"), Method("BBQ", "bbq"))
HEAD_NAMES = ("OLS", "Ridge", "Huber", "KRR", "KNN")


def heads_of(md_ts: Method = MD_TS) -> tuple[Method, ...]:
    """The heads of the paper's table 3, for MD-TS as it is or with other parameters."""
    first, *others = HEAD_NAMES
    return (
        Method(first, md_ts.text, md_ts.folder),
        *(Method(name, f"{md_ts.text}:head={name.lower()}", md_ts.folder) for name in others),
    )

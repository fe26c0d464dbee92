"""Parameters as they are written in a command or a file: ``key=value``."""

from collections.abc import Collection, Iterable

from domaincal._errors import InputError


def written_parameters(pairs: Iterable[str], known: Collection[str], owner: str) -> dict[str, str]:
    """What is written for each parameter of ``owner``; of two values for one, the last counts."""
    given = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key not in known:
            cure = f"choose from {', '.join(known)}" if known else "it has none"
            raise InputError(f"{owner} has no parameter {key!r}; {cure}.")
        if not value:
            raise InputError(f"{owner} needs a value for {key!r}; write {key}=VALUE.")
        given[key] = value
    return given

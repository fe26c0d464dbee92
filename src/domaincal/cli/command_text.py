"""The command line as text, for outputs that say how they were made."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource


def command_text(context: click.Context) -> str:
    """The command that runs, with file names in place of paths, which can be personal."""
    parts = ["domaincal", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        values = value if isinstance(value, tuple) else (value,)
        for one in values:
            if isinstance(parameter, click.Option):
                parts.append(max(parameter.opts, key=len))
                if parameter.is_flag:
                    continue
            parts.append(_shown(one))
    return shlex.join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, Path):
        return value.name or str(value)
    if isinstance(value, list):  # names that are separated by commas
        return ",".join(f'"{one}"' if "," in str(one) else str(one) for one in value)
    return str(value)

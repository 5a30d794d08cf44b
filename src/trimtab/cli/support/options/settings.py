"""Controller settings of the option `--set NAME=VALUE`."""

import difflib

import click

from trimtab.controllers.settings import SETTINGS, value_fault


def parse_settings(pairs: tuple[str, ...]) -> dict[str, object]:
    """The settings of `name=value` pairs, each converted to its declared type."""
    found: dict[str, object] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise click.UsageError(f"--set {pair}: expected NAME=VALUE")
        if name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, 1)
            hint = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(SETTINGS)}"
            raise click.UsageError(f"--set {pair}: there is no setting {name}; {hint}")
        try:
            found[name] = _convert(text, SETTINGS[name].type)
        except ValueError:
            raise click.UsageError(f"--set {pair}: expected {SETTINGS[name].type.__name__}") from None
        if fault := value_fault(SETTINGS[name], found[name]):
            raise click.UsageError(f"--set {pair}: {fault}")
    return found


def _convert(text: str, type_: type) -> object:
    if type_ is bool:
        if text not in ("true", "false"):
            raise ValueError(text)
        return text == "true"
    if type_ is int:
        number = float(text)  # `5.0` is an integer, too
        if not number.is_integer():
            raise ValueError(text)
        return int(number)
    return type_(text)

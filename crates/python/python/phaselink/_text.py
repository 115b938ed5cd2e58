"""Python values as the texts that the program takes."""

import json
import os
from collections.abc import Iterable, Mapping
from numbers import Integral, Real

from . import _native


def plain(value):
    """A value without NumPy's wrapping."""
    return value.item() if hasattr(value, "item") and not isinstance(value, (str, bytes)) else value


def toml(value):
    """A value as a drive file has it."""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        # A basic string of TOML is JSON's, but for one character.
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key(name)} = {toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, Iterable):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    raise TypeError(f"{value!r} is no value of a drive: a number, a text, True, False, or a list or dict of such")


def key(name):
    """A key as a drive file has it."""
    is_bare = name and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in name)
    return name if is_bare else toml(name)


def overrides(set, sections):
    """Overrides as they could be typed after ``--set``: those of sections, then those of ``set``."""
    texts = []
    for name, value in sections.items():
        if isinstance(value, Mapping):
            texts += [f"{name}.{inner}={toml(item)}" for inner, item in value.items()]
        elif name in PRESET_SECTIONS and isinstance(value, str):
            texts.append(f"{name}.preset={toml(value)}")
        else:
            texts.append(f"{name}={toml(value)}")
    if set is None:
        return texts
    if isinstance(set, str):
        return [*texts, set]
    if isinstance(set, Mapping):
        return texts + [f"{name}={toml(value)}" for name, value in set.items()]
    return texts + list(set)


#: Names of all sections of a drive.
SECTIONS = frozenset(_native.sections())


def divided(keywords):
    """Keywords of a call in two dicts: sections of the drive, and options of the job."""
    sections = {name: value for name, value in keywords.items() if name in SECTIONS}
    return sections, {name: value for name, value in keywords.items() if name not in SECTIONS}


#: Sections for which a word stands for a preset.
PRESET_SECTIONS = ("link", "host", "root_complex", "stack", "power", "media")


def option(value):
    """The value of a fio option."""
    value = plain(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (list, tuple)):
        return ",".join(option(item) for item in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def options(given):
    """fio options with their values; those that are ``None`` are left out."""
    return [(name, option(value)) for name, value in given.items() if value is not None]


def listed(value):
    """One value or several, in fio's spelling."""
    if value is None:
        return []
    if isinstance(value, str):
        return value.split(",")
    value = plain(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [option(item) for item in value]
    return [option(value)]

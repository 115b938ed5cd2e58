"""Drives and presets."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from . import _native, _text
from ._show import escaped

_SHIPPED = {name: (file, text) for name, file, text in _native.shipped()}


class Preset(NamedTuple):
    """A named set of values from which a section of a drive can start."""

    #: ``media``, ``link``, ``host``, ``root_complex``, ``stack`` or ``power``.
    section: str
    #: What ``load(..., media=NAME)`` takes.
    name: str
    summary: str


class Section(Mapping):
    """A section of a drive: keys as attributes and as items."""

    def __init__(self, name, values):
        self._name = name
        self._values = values

    def __getitem__(self, name):
        return self._values[name]

    def __getattr__(self, name):
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"the section {self._name} has no key {name}") from None

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __dir__(self):
        return [*super().__dir__(), *self._values]

    def __repr__(self):
        return f"[{self._name}]\n" + "\n".join(f"{name} = {value!r}" for name, value in self._values.items())


class Drive:
    """A drive: host, link, protocol and memory, every key resolved. :func:`load` makes one; it never changes.

    Sections are attributes, and their keys are attributes of those, in the unit that ends their name:
    ``drive.media.read_ns``, ``drive.link.lanes``. ``drive["media.read_ns"]`` is the same. Equal drives have equal values,
    wherever those come from.
    """

    def __init__(self, file, text, overrides):
        self._source = (file, text, list(overrides))
        self._native = _native.Drive(*self._source)
        self._resolved = None

    @property
    def _values(self):
        if self._resolved is None:
            self._resolved = json.loads(self._native.json())
        return self._resolved

    @property
    def fitted(self):
        """Keys whose values were chosen so that a published result comes out."""
        return self._native.doubts()[0]

    @property
    def assumed(self):
        """Keys whose values are assumed, as none has been published."""
        return self._native.doubts()[1]

    def set(self, set=None, **overrides):
        """This drive with other values, as in :func:`load`; later ones count.

        >>> load("nvme").set({"media.read_ns": 300}).media.read_ns
        300
        """
        file, text, earlier = self._source
        return Drive(file, text, earlier + _text.overrides(set, overrides))

    def to_dict(self):
        """Every key with its value: ``description`` in the program's JSON."""
        return json.loads(self._native.json())

    def to_toml(self):
        """A drive file that reads back to an equal drive."""
        return self._native.to_toml()

    def explain(self):
        """Every key with its value, where that comes from, and what it means: what ``phaselink check`` prints."""
        return self._native.explain()

    def __getattr__(self, name):
        # Python calls this only for names that are no attribute; private names are never keys.
        value = None if name.startswith("_") else self._values.get(name)
        if value is None:
            raise AttributeError(f"a drive has no section {name}: {', '.join(self._values)}")
        return Section(name, value) if isinstance(value, dict) else value

    def __getitem__(self, name):
        value = self._values
        for word in name.split("."):
            value = value[word] if isinstance(value, dict) else {}[name]
        return value

    def __dir__(self):
        return [*super().__dir__(), *self._values]

    def __eq__(self, other):
        return isinstance(other, Drive) and self._native == other._native

    def __hash__(self):
        return hash(self.to_toml())

    def __reduce__(self):
        return Drive, self._source

    def __repr__(self):
        return f"<drive {self.name}: {self.summary}>"

    def _repr_html_(self):
        head = f"<b>{escaped(self.name)}</b>: {escaped(self.summary)}"
        return f"<details><summary>{head}</summary><pre>{escaped(self.explain())}</pre></details>"


def load(drive="nvme", /, *, set=None, **overrides):
    """A drive by name, from a file, or from a description.

    ``drive`` is the name of a drive that comes with the package (:func:`drives`), the path of a drive file, the text of
    one, a dict of the same, or a :class:`Drive`. A shipped drive goes before a file of the same name, which is meant
    with ``./``.

    Keywords change it: a dict for a section (``link={"lanes": 8}``), a preset's name for a section that has presets
    (``media="dram"``, see :func:`presets`), or a value for a key above all sections (``name="mine"``). ``set`` takes
    full names, as a dict or as after ``--set``: ``{"media.read_ns": 300}``, ``["media.read_ns=300"]``. ``set`` counts
    before keywords.

    Raises :class:`InputError` with everything that is wrong.

    >>> load("dc-express", link={"lanes": 8}, set={"media.read_ns": 300}).link.lanes
    8
    """
    if isinstance(drive, Drive):
        return drive.set(set, **overrides) if set or overrides else drive
    file, text = _source(drive)
    return Drive(file, text, _text.overrides(set, overrides))


def _source(drive):
    """Return the file and the text that a word or description means."""
    if isinstance(drive, Mapping):
        return "drive", "\n".join(f"{_text.key(name)} = {_text.toml(value)}" for name, value in drive.items())
    if isinstance(drive, str):
        if drive in _SHIPPED:
            return _SHIPPED[drive]
        if "\n" in drive or "=" in drive and not os.path.exists(drive):
            return "drive", drive
        is_path = drive.endswith(".toml") or os.sep in drive or os.path.exists(drive)
        if not is_path:
            raise _native.unknown_drive(drive)
    elif not isinstance(drive, os.PathLike):
        raise TypeError(f"a drive is a name, a path, a text, a dict or a Drive, not {type(drive).__name__}")
    return os.fspath(drive), read(drive)


def read(path):
    """The text of a file, or an :class:`InputError`."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _native.InputError(f"{os.fspath(path)}: cannot be read: {error}") from error


def drives(set=None):
    """The names of the drives that come with the package, or of a set of them (``"interfaces"``, ``"usual"``)."""
    return list(_SHIPPED) if set is None else _native.set(set)


def presets(section=None):
    """All presets, or those of one section: a list of :class:`Preset`."""
    every = [Preset(*preset) for preset in _native.presets()]
    return [preset for preset in every if section in (None, preset.section)]


def many(which):
    """A list of drives from one word, drive or description, or from several of them."""
    one = isinstance(which, (str, os.PathLike, Mapping, Drive))
    return [load(drive) for drive in ([which] if one else which)]

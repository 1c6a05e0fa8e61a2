"""Secrets of a job: what plans and messages hide, and values that come from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from skyband.errors import QueryError

FROM_ENV = ("headers", "options", "storage", "url")
"""Settings that may come from the environment: ``url_env = "HOOK"`` names the variable of an
address, ``headers_env = { Authorization = "HOOK_AUTH" }`` those of single entries."""
_HIDDEN = "..."
_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|auth(?!enticat)|api.?key|access.?key|"
    r"account.?key|private|jaas|cookie|signature|\bsig\b|\bdsn$|\bpem$|\.key$",
    re.IGNORECASE,
)
_USER = re.compile(r"(?<=://)[^/@\s'\"]*@")
_ASKED = re.compile(r"([?&;][^=&\s]*?)([\w.-]+)=([^&\s'\"]+)")


def shown(name: str, value: Any) -> str:
    """A setting as a plan shows it: without what is secret by its name, and without passwords."""
    if name.endswith("_env"):
        return str(value)  # the names of variables
    if isinstance(value, Mapping):
        every = name == "headers"  # any of them may be a key to the door
        parts = {key: _HIDDEN if every else shown(str(key), each) for key, each in value.items()}
        return str(parts)
    if _SECRET.search(name):
        return _HIDDEN
    if isinstance(value, list | tuple):
        return ",".join(shown(name, each) for each in value)
    return hidden(str(value))


def hidden(text: str) -> str:
    """A text whose addresses have no user, no password and no secret parameter.

    >>> hidden("https://me:word@example.org/hook?token=1234&room=7")
    'https://...@example.org/hook?token=...&room=7'
    """
    plain = _USER.sub(f"{_HIDDEN}@", text)
    return _ASKED.sub(
        lambda each: f"{each[1]}{each[2]}={_HIDDEN if _SECRET.search(each[2]) else each[3]}", plain
    )


def from_env(name: str, given: Any, named: Any) -> Any:
    """A setting whose value, or some of whose entries, stand in variables of the environment."""
    if isinstance(named, Mapping):
        return {**(given or {}), **{key: _variable(key, each) for key, each in named.items()}}
    return _variable(name, named)


def _variable(name: str, variable: str) -> str:
    try:
        return os.environ[variable]
    except KeyError:
        raise QueryError(
            f"the environment has no variable {variable!r}; set it to the value of {name}"
        ) from None

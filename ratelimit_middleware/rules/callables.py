"""Python functions that a rule file names: `python:MODULE:FUNCTION`, found when the rules are loaded."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

from ratelimit_middleware.request import Asked
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["asked", "is_async", "resolve"]

_FORM = re.compile(r"python:(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")


def resolve(text: str) -> Callable[..., Any]:
    """The function that a text such as `python:shop.limits:by_tenant` names; its module is imported.

    Raises:
        GrammarError: not this form, the module cannot be imported, or it has no such function.
    """
    found = _FORM.fullmatch(text)
    if not found:
        raise GrammarError(
            f"{shown(text)} names no function: write `python:MODULE:FUNCTION`, such as"
            " `python:shop.limits:by_tenant`"
        )
    module, name = found.group("module", "name")
    value: Any = _imported(module)
    for step in name.split("."):
        value = _member(value, step, f"the module {shown(module)} has no {shown(name)}")
    if not callable(value):
        raise GrammarError(f"{shown(name)} of the module {shown(module)} cannot be called: name a function")
    return value  # type: ignore[no-any-return]  # callable() says so


def asked(text: str) -> Asked:
    """The function that a text names, to be asked about each request.

    Raises:
        GrammarError: as `resolve`.
    """
    function = resolve(text)
    return Asked(text.partition(":")[2], function, is_async(function))


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` gives something to await."""
    target = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(target)


def _member(value: Any, step: str, message: str) -> Any:
    try:
        return getattr(value, step)
    except AttributeError:
        near = difflib.get_close_matches(step, dir(value), n=1)
        raise GrammarError(message + (f": did you mean `{near[0]}`?" if near else "")) from None
    except Exception as error:  # noqa: BLE001 - a module may compute its attributes
        raise GrammarError(f"{message}: {type(error).__name__}: {error}") from None


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything when it is imported
        reason = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise GrammarError(f"the module {shown(module)} cannot be imported: {reason}") from None

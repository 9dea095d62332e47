"""Writes what the module `logging` gets to the host's log."""

from __future__ import annotations

import logging

from wit_world.imports import wasi_logging_logging_0_1_0_draft as wasi

from .._wire import valid


class Handler(logging.Handler):
    """Writes each line, with the name of the logger as its context."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:
            # A format that does not fit its arguments is no reason to fail a call.
            text = f"{record.msg!r} with {record.args!r}"
        level = _level(record.levelno)
        for line in text.splitlines() or [""]:
            wasi.log(level, valid(str(record.name)), valid(line))


def _level(number: int) -> wasi.Level:
    if number >= logging.CRITICAL:
        return wasi.Level.CRITICAL
    if number >= logging.ERROR:
        return wasi.Level.ERROR
    if number >= logging.WARNING:
        return wasi.Level.WARN
    if number >= logging.INFO:
        return wasi.Level.INFO
    return wasi.Level.DEBUG if number >= logging.DEBUG else wasi.Level.TRACE


def install() -> None:
    """Makes the host's log that of the program, unless it has set up another one. The level is INFO."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(Handler())
        root.setLevel(logging.INFO)

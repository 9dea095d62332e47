"""Modules that the standard library imports when it first needs them, which is too late in a component."""

import _strptime  # type: ignore[import-not-found]
import encodings.ascii
import encodings.idna
import encodings.latin_1
import encodings.utf_8
import encodings.utf_8_sig
import email.message
import email.parser
import email.utils
import linecache
import tokenize
import traceback

__all__: list[str] = []

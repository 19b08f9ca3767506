# SPDX-License-Identifier: Apache-2.0
"""Constraints: what a generated text must be. docs/constraints.md has the languages."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ._handle import Handle, Owner
from ._library import handle, plain, text_of
from .model import Model


class Constraint(Handle):
    """Compiled for a model; immutable. Raises InvalidArgumentError for a source that is none of its kind,
    OutOfMemoryError if it would take too long, UnsupportedError where the library has no constraints."""

    _name = "constraint"
    _pickle = "compile it in the other process"

    @staticmethod
    def _make(model: Model, kind: int, text: str, strict: bool = True) -> Constraint:
        data = text_of("the constraint", text, whole=True)
        return Constraint._of(model, "constraint_create", model._live(), kind, data, len(data), strict)

    @staticmethod
    def _of(model: Model, name: str, *arguments: Any) -> Constraint:
        return Constraint(Owner(handle(name, *arguments), plain.constraint_free, model._live()))

    @staticmethod
    def json_schema(model: Model, schema: Mapping[str, Any] | str, *, strict: bool = True) -> Constraint:
        """JSON of a schema, as an object or as text."""
        return Constraint._make(model, 0, schema if isinstance(schema, str) else json.dumps(schema), strict)

    @staticmethod
    def json_object(model: Model, *, strict: bool = True) -> Constraint:
        """Any JSON object; strict: with white space of one form."""
        return Constraint._make(model, 1, "", strict)

    @staticmethod
    def regex(model: Model, expression: str) -> Constraint:
        """A text that the whole of a regular expression matches."""
        return Constraint._make(model, 2, expression)

    @staticmethod
    def choice(model: Model, texts: Sequence[str]) -> Constraint:
        """One of some texts."""
        return Constraint._make(model, 3, json.dumps(list(texts)))

    @staticmethod
    def grammar(model: Model, gbnf: str) -> Constraint:
        """A text of a grammar in GBNF."""
        return Constraint._make(model, 4, gbnf)

"""What all shapes are made of: the types of fields, and what many kinds have in common."""

from typing import Annotated, Any

import msgspec

Text = str | None
Number = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None
Flag = bool | None
Texts = list[str] | None
Map = dict[str, str] | None
Json = dict[str, Any] | None
Amounts = dict[str, str | int | float] | None
Portion = int | str | None


class Shape(msgspec.Struct, rename="camel", kw_only=True):
    """A part of an object; everything is optional, as it is for Go's decoder."""


class Expression(Shape):
    """A requirement of a label selector."""

    key: str
    operator: str
    values: Texts = None


class LabelSelector(Shape):
    """``metav1.LabelSelector``."""

    match_labels: Map = None
    match_expressions: list[Expression] | None = None


class Condition(Shape):
    """A condition of any kind of object."""

    type: str
    status: Text = None
    reason: Text = None
    message: Text = None
    last_transition_time: Text = None
    last_probe_time: Text = None
    observed_generation: Number = None

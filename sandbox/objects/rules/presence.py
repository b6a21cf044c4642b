"""The one form of CEL rule that is evaluated: a field goes with a value of another.

``self.type == 'Factor' ? has(self.factor) : !has(self.factor)`` is how the
VerticalPodAutoscaler's schema ties its startup boost together. A whole CEL would be a
language; rules of any other form are taken as kept, and the README says so.
"""

import re
from typing import Any

_FIELD = r"self\.(\w+)"
_RULE = re.compile(rf"{_FIELD}\s*==\s*'([^']*)'\s*\?\s*has\({_FIELD}\)\s*:\s*!\s*has\({_FIELD}\)")


def broken(rule: str, value: Any) -> bool:
    """Whether ``value`` breaks ``rule``; False for a rule of another form."""
    match = _RULE.fullmatch(rule.strip())
    if match is None or not isinstance(value, dict):
        return False
    decider, wanted, present, absent = match.groups()
    if decider not in value or present != absent:
        return False
    return (value[decider] == wanted) is not (present in value)

"""The steps of a number as one line of text; JSON has each step with its meaning."""

from kubectl_vpa.output.amounts import plain_number, short
from kubectl_vpa.results.explain import ComputedNumber, NumberStep

_ARROW = " → "
_UNOBSERVED = "unobserved"
_PHRASES = {
    "percentile": "percentile {by}",
    "margin": "margin {by}",
    "confidence": "confidence x{by}",
    "minimum": "pod minimum",
    "not_controlled": "not controlled",
    "rounding": "rounded up to {by}",
    "humanized": "two decimals",
    "before_caps": "before caps",
    "integer_cpu": "whole cores",
    "min_allowed": "minAllowed",
    "max_allowed": "maxAllowed",
    "global_max_allowed": "--container-recommendation-max-allowed-{resource}",
    "order_bounds": "moved to the target",
    "quota": "ResourceQuota",
    "target_unknown": "target unknown, published stays",
    "history_missing": "history incomplete, published stays",
    "too_close": "close to the published one, which stays",
}


def steps_text(resource: str, number: ComputedNumber) -> str:
    """Return the steps that changed a number; the first one always."""
    if any(_is_missing(each) for each in number.steps):
        return "no samples: nothing is recommended"
    parts = [
        _part(resource, each)
        for at, each in enumerate(number.steps)
        if at == 0 or each.before != each.after
    ]
    text = _ARROW.join(parts)
    value, published = (each and short(resource, each) for each in (number.value, number.published))
    return text if published in (None, value) else f"{text}; the status has {published}"


def _is_missing(step: NumberStep) -> bool:
    return step.step == _UNOBSERVED and step.after is None


def _part(resource: str, step: NumberStep) -> str:
    if step.step == _UNOBSERVED and step.after is not None:
        return f"too few samples, published stays: {short(resource, step.after)}"
    known = _PHRASES.get(step.step, step.step.replace("_", " "))  # a newer one has more steps
    phrase = known.format(by=_operand(resource, step), resource=resource)
    return phrase if step.after is None else f"{phrase}: {short(resource, step.after)}"


def _operand(resource: str, step: NumberStep) -> str:
    match step.step:
        case "percentile":
            return f"{float(step.by) * 100:g}"
        case "margin":
            return f"{float(step.by) * 100:g}%"
        case "confidence":
            return plain_number(float(step.by))
        case "rounding":
            return short(resource, step.by)
    return step.by

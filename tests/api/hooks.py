"""Teaches Schemathesis the content type of bodies with a JSON object a line."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def as_line(context, value):
    """Returns a generated value as one line."""
    text = value if isinstance(value, str) else json.dumps(value)
    return value if isinstance(value, bytes) else text.encode("utf-8", "ignore")


@schemathesis.hook
def before_call(context, case, kwargs):
    """Shortens the wait of a worker, because no run comes for it."""
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("wait_ms"), int) and 20 < body["wait_ms"] <= 55_000:
        case.body = {**body, "wait_ms": 20}

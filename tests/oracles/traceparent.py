#!/usr/bin/env python3
"""What OpenTelemetry's Python makes of each line of standard input as a `traceparent`.

Prints, per line, `TRACE SPAN FLAGS` in hexadecimal, or `-` where it is none.
"""
import sys

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

propagator = TraceContextTextMapPropagator()
for line in sys.stdin:
    carrier = {"traceparent": line.rstrip("\n")}
    context = trace.get_current_span(propagator.extract(carrier)).get_span_context()
    if context.is_valid:
        print(f"{context.trace_id:032x} {context.span_id:016x} {context.trace_flags:02x}")
    else:
        print("-")

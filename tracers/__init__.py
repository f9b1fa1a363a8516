"""Instrumented wrappers that live inside an SGLang process and write what it did as OpenTelemetry spans."""

"""Beside a large recording: what was found out about each request, so that one of them is answered without reading all."""
